package skilldir

import (
	"context"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// listen notifies of changes until its context ends: of the lists, and of files that are
// subscribed to. It looks for them itself.
func (d *Dir) listen(ctx context.Context, c *mcp.Call, last *snapshot) (*mcp.Reply, error) {
	want, err := mcp.FilterOf(c.Params)
	if err != nil {
		return nil, err
	}
	honoured := mcp.Filter{Lists: want.Lists & (mcp.SkillLists | mcp.ResourceLists)}
	for _, uri := range want.URIs {
		if _, is := last.files[uri]; is {
			honoured.URIs = append(honoured.URIs, uri)
		}
	}
	c.Notify(mcp.Event{Method: mcp.NoteAcknowledged, Params: honoured.In(nil)})

	d.watch.join()
	defer d.watch.forget()
	d.watch.follow(last)
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-d.closed:
			return &mcp.Reply{Result: mcp.Raw("{}")}, nil
		case <-ticker.C:
		}
		held, err := d.latest(ctx)
		if err != nil {
			return nil, err
		}
		if held.sum == last.sum {
			continue
		}
		for _, uri := range honoured.URIs {
			if held.files[uri].digest != last.files[uri].digest {
				c.Notify(mcp.ResourceUpdated(uri))
			}
		}
		last = held
		for _, changed := range honoured.Lists.Events() {
			c.Notify(changed)
		}
	}
}

// latest returns what the directory holds, and looks at it first if it is time to.
func (d *Dir) latest(ctx context.Context) (*snapshot, error) {
	held := d.last()
	if !d.watch.due(time.Since(held.began), held.cost) {
		return held, nil
	}
	defer d.watch.looked()
	held, err := d.look(ctx, 0)
	if err == nil {
		d.watch.follow(held)
	}
	return held, err
}
