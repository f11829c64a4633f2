package upstream

import (
	"context"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// listen tells of changes until its context ends: of the lists, and of the files that are
// subscribed to. It looks for them itself.
func (d *SkillDir) listen(ctx context.Context, c *mcp.Call, last *skillSet) (*mcp.Reply, error) {
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
		honoured = honoured.With("resourceSubscriptions", stringArray(uris))
	}
	c.Notify(mcp.Event{Method: mcp.NoteAcknowledged, Params: mcp.Object("notifications", honoured)})

	d.watch.join()
	defer d.watch.leave()
	d.mu.Lock()
	cost := d.cost
	d.mu.Unlock()
	d.watch.follow(last.dirs, cost)
	ticker := time.NewTicker(skillPoll)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-d.closed:
			return &mcp.Reply{Result: mcp.Raw("{}")}, nil
		case <-ticker.C:
		}
		set, err := d.latest(ctx)
		if err != nil {
			return nil, err
		}
		if set.sum == last.sum {
			continue
		}
		for _, uri := range uris {
			if set.files[uri].digest != last.files[uri].digest {
				c.Notify(mcp.Event{Method: mcp.NoteResourceUpdated, Params: mcp.Object("uri", mcp.String(uri))})
			}
		}
		last = set
		for _, note := range notes {
			c.Notify(mcp.Event{Method: note, Params: mcp.Raw("{}")})
		}
	}
}

// latest returns what the directory holds, after a look at it if it is time for one.
func (d *SkillDir) latest(ctx context.Context) (*skillSet, error) {
	d.mu.Lock()
	set, scanned, cost := d.set, d.scanned, d.cost
	d.mu.Unlock()
	if !d.watch.due(time.Since(scanned), cost) {
		return set, nil
	}
	defer d.watch.looked()
	set, err := d.look(ctx, 0)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	cost = d.cost
	d.mu.Unlock()
	d.watch.follow(set.dirs, cost)
	return set, nil
}
