package catalog

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// partWait is how long upstreams have to acknowledge their part.
const partWait = 5 * time.Second

// listen answers subscriptions/listen: that lists changed comes from our own
// watches, that resources changed from one listen call to each upstream. It ends
// with ctx, or in good order with the catalog.
func (c *Catalog) listen(ctx context.Context, call *mcp.Call) (*mcp.Reply, error) {
	want, err := mcp.FilterOf(call.Params)
	if err != nil {
		return nil, err
	}
	s, sees, err := c.look(ctx, call)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	listener := c.hub.join(sees, call.Caller.User())
	defer c.hub.leave(listener)
	follower := c.board.join(call)
	if follower != nil {
		defer c.board.leave(call, follower)
	}

	want.Lists &= (s.faceFor(sees).offers.kinds | c.offeredBefore(call.Visible)).lists()
	open := make(chan struct{}) // closed when the client was told what it gets
	parts := c.newParts(ctx, call, sees, want, open)
	for _, p := range parts {
		ctx, cancel := context.WithCancel(ctx)
		p.cancel = cancel
		wg.Go(func() {
			defer cancel()
			p.run(ctx)
		})
	}
	if c.people != nil {
		for _, own := range c.people.sources {
			if kinds := kindsIn(want.Lists) & s.states[own.index].announces(); kinds != 0 && sees.has(own.index) {
				wg.Go(func() { own.people.follow(ctx, call, own, kinds) })
			}
		}
	}
	awaitParts(ctx, parts)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	call.Notify(acknowledgement(want, parts))
	close(open)

	tell := func(kinds kindSet) {
		for _, event := range (kinds.lists() & want.Lists).Events() {
			call.Notify(event)
		}
	}
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.done:
			tell(listener.now()) // what was still gathered
			return &mcp.Reply{Result: mcp.Raw(`{}`)}, nil
		case <-follower.some():
			for _, i := range follower.take() {
				wg.Go(func() { follower.run(ctx, c, call, c.sources[i]) })
			}
		case <-listener.some():
			tell(listener.take(ctx))
		}
	}
}

// acknowledgement says what of the filter is honoured, in the client's order.
func acknowledgement(want mcp.Filter, parts []*part) mcp.Event {
	uris, tasks, failed := make(map[string]bool), make(map[string]bool), make(map[string]error)
	for _, p := range parts {
		p.honoured(uris, tasks, failed)
	}
	want.URIs = slices.DeleteFunc(want.URIs, func(uri string) bool { return !uris[uri] })
	want.Tasks = slices.DeleteFunc(want.Tasks, func(id string) bool { return !tasks[id] })
	return mcp.Event{Method: mcp.NoteAcknowledged, Params: want.In(nil), Failed: failed}
}
