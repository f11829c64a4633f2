package skilldir

import (
	"context"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// listen tells of changes until its context ends: of the lists, and of the files that are
// subscribed to. It looks for them itself.
func (d *Dir) listen(ctx context.Context, c *mcp.Call, last *snapshot) (*mcp.Reply, error) {
	want, _ := c.Params.Member("notifications")
	honoured := mcp.Raw("{}")
	var notes []string
	for _, change := range [...]struct{ member, note string }{
		{"skillsListChanged", mcp.NoteSkillsListChanged}, {"resourcesListChanged", mcp.NoteResourcesListChanged},
	} {
		if wanted, _ := want.Member(change.member); wanted.IsTrue() {
			honoured = honoured.With(change.member, mcp.Raw("true"))
			notes = append(notes, change.note)
		}
	}
	var uris []string
	wanted, _ := want.Member("resourceSubscriptions")
	wanted.Elements(func(uri mcp.Raw) bool {
		if _, is := last.files[uri.Text()]; is {
			uris = append(uris, uri.Text())
		}
		return true
	})
	if uris != nil {
		honoured = honoured.With("resourceSubscriptions", mcp.Strings(uris))
	}
	c.Notify(mcp.Event{Method: mcp.NoteAcknowledged, Params: mcp.Object("notifications", honoured)})

	d.watch.join()
	defer d.watch.leave()
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
		for _, uri := range uris {
			if held.files[uri].digest != last.files[uri].digest {
				c.Notify(mcp.Event{Method: mcp.NoteResourceUpdated, Params: mcp.Object("uri", mcp.String(uri))})
			}
		}
		last = held
		for _, note := range notes {
			c.Notify(mcp.Event{Method: note, Params: mcp.Raw("{}")})
		}
	}
}

// latest returns what the directory holds, after a look at it if it is time for one.
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
