package stateless

import (
	"context"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// listen passes a subscription through (2026-07-28 basic/patterns/subscriptions).
func (d *Dialect) listen(ctx context.Context, conn transport.Conn, rev *wire.Revision,
	c *mcp.Call) (*mcp.Reply, error) {
	life, err := d.env.Life(ctx, true)
	if err != nil {
		return nil, err
	}
	room := d.env.Memory.Outside(d.env.Upstream, admit.User(&c.Caller))
	defer room.Free()
	life.Room.Store(room)
	id := d.env.NextID()
	declared := dialect.Capabilities{Raw: "{}"}
	if c.Session == "" {
		declared = dialect.Neutral(c, rev)
	} else if want, _ := mcp.FilterOf(c.Params); len(want.Tasks) > 0 {
		declared = dialect.Declare(c.Caps, rev)
	}
	out := dialect.Request{ID: id, Call: c, Rev: rev, Meta: d.meta(rev, declared.Raw, "")}
	m, _, err := dialect.Exchange(conn, &transport.Request{
		ID: id, Method: c.Method, Caller: &c.Caller, Life: life,
		Body: out.Encode(), Header: header(conn, rev, c.Method, ""),
	}, func(m wire.Message) {
		switch m.Method {
		case mcp.NoteAcknowledged, mcp.NoteToolsListChanged, mcp.NotePromptsListChanged,
			mcp.NoteResourcesListChanged, mcp.NoteSkillsListChanged, mcp.NoteResourceUpdated:
			params := m.Params.Without("_meta")
			if params == nil {
				params = mcp.Raw(`{}`)
			}
			c.Notify(mcp.Event{Method: m.Method, Params: params})
		case mcp.NoteTask:
			// A task with questions that this client may not be asked is not reported.
			if task, err := d.openTask(declared, m.Params.Without("_meta")); err == nil && declared.Tasks {
				c.Notify(mcp.Event{Method: m.Method, Params: task})
			}
		}
	})
	if err := refusal(m, err); err != nil {
		return nil, err
	}
	return &mcp.Reply{Result: mcp.Raw(`{}`)}, nil
}
