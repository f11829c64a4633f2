package catalog

import (
	"context"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	// maxSubscriptions bounds the resources of one listen call.
	maxSubscriptions = 1000
	// partWait is how long upstreams have to acknowledge their part.
	partWait = 5 * time.Second
)

// filter is what a client wants to hear of.
type filter struct {
	kinds kindSet
	uris  []string // public, as the client wrote them
	tasks []string // ids, likewise
}

// listen answers subscriptions/listen: that lists changed comes from our own
// watches, that resources changed from one listen call to each upstream. It ends
// with ctx, or in good order with the catalog.
func (c *Catalog) listen(ctx context.Context, call *mcp.Call) (*mcp.Reply, error) {
	want, err := readFilter(call.Params)
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

	want.kinds &= s.faceFor(sees).offers.kinds | c.offeredBefore(call.Visible)
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
			if kinds := want.kinds & s.states[own.index].announces(); kinds != 0 && sees.has(own.index) {
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
		for _, change := range listChanges() {
			if kinds&want.kinds&change.kinds != 0 {
				call.Notify(mcp.Event{Method: change.note, Params: mcp.Raw(`{}`)})
			}
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

// readFilter reads the params of subscriptions/listen (2026-07-28
// basic/patterns/subscriptions). Kinds of notifications that we do not know are not
// honoured, which the acknowledgement tells.
func readFilter(params mcp.Raw) (f filter, err error) {
	notifications, ok := params.Member("notifications")
	if !ok || !notifications.IsObject() {
		return f, mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: notifications must be an object")
	}
	for _, change := range listChanges() {
		if wanted, _ := notifications.Member(change.filter); wanted.IsTrue() {
			f.kinds |= change.kinds
		}
	}
	if f.uris, err = readStrings(notifications, "resourceSubscriptions"); err != nil {
		return f, err
	}
	f.tasks, err = readStrings(notifications, "taskIds")
	return f, err
}

// readStrings reads a member of a filter that is an array of strings, each of them once.
func readStrings(notifications mcp.Raw, member string) (all []string, err error) {
	list, ok := notifications.Member(member)
	if !ok || list.IsNull() {
		return nil, nil
	}
	if !list.IsArray() {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: %s must be an array", member)
	}
	seen := make(map[string]bool)
	list.Elements(func(value mcp.Raw) bool {
		text, ok := value.StringValue()
		switch {
		case !ok:
			err = mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: %s must hold strings", member)
		case seen[text]:
		case len(all) == maxSubscriptions:
			err = mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: more than %d %s", maxSubscriptions, member)
		default:
			seen[text] = true
			all = append(all, text)
		}
		return err == nil
	})
	return all, err
}

// acknowledgement says what of the filter is honoured.
func acknowledgement(want filter, parts []*part) mcp.Event {
	honoured := mcp.Raw(`{}`)
	for _, change := range listChanges() {
		if want.kinds&change.kinds != 0 {
			honoured = honoured.With(change.filter, mcp.Raw(`true`))
		}
	}
	granted, tasks, failed := make(map[string]bool), make(map[string]bool), make(map[string]error)
	for _, p := range parts {
		p.honoured(granted, tasks, failed)
	}
	for _, m := range []struct {
		name    string
		want    []string
		granted map[string]bool
	}{{"resourceSubscriptions", want.uris, granted}, {"taskIds", want.tasks, tasks}} {
		var all []string
		for _, one := range m.want { // in the client's order
			if m.granted[one] {
				all = append(all, one)
			}
		}
		if len(all) > 0 {
			honoured = honoured.With(m.name, mcp.Strings(all))
		}
	}
	return mcp.Event{Method: mcp.NoteAcknowledged, Params: mcp.Object("notifications", honoured), Failed: failed}
}
