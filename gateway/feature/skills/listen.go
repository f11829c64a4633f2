package skills

import (
	"context"
	"hash/maphash"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// listen tells of changed skills those to whom they look different: a tool that a skill
// depends on may have come or gone of which the caller may not know.
func listen(ctx context.Context, c *mcp.Call, next mcp.Handler, sight Sight) (*mcp.Reply, error) {
	if sight.SeesAll(&c.Caller) {
		return next.Handle(ctx, c)
	}
	w := watch{call: c, next: next, sight: sight}
	inner := c.Clone()
	inner.Notify = func(e mcp.Event) {
		switch e.Method {
		case mcp.NoteAcknowledged:
			honoured, _ := e.Params.Member("notifications")
			if wanted, _ := honoured.Member("skillsListChanged"); wanted.IsTrue() {
				w.changed(ctx)
			}
		case mcp.NoteSkillsListChanged:
			if !w.changed(ctx) {
				return
			}
		}
		c.Notify(e)
	}
	return next.Handle(ctx, inner)
}

// watch is the list of skills as a caller who listens saw it last.
type watch struct {
	call  *mcp.Call
	next  mcp.Handler
	sight Sight

	mu    sync.Mutex // guards the fields below; not held while the list is looked at
	known bool
	last  uint64
}

// sumSeed is that of all sums: they are compared within this process only.
var sumSeed = maphash.MakeSeed()

// changed reports whether the list is another one than the last time. When in doubt it is.
func (w *watch) changed(ctx context.Context) bool {
	now, ok := w.look(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	same := ok && w.known && w.last == now
	w.known, w.last = ok, now
	return !same
}

// look sums up the list.
func (w *watch) look(ctx context.Context) (sum uint64, ok bool) {
	s := shaper{ctx: ctx, caller: &w.call.Caller, sight: w.sight, short: mcp.DeclaresSkills(w.call.Caps)}
	var h maphash.Hash
	h.SetSeed(sumSeed)
	list := w.call.Clone()
	list.Method, list.Params, list.Notify = mcp.MethodSkillsList, nil, func(mcp.Event) {}
	for {
		reply, err := w.next.Handle(ctx, list)
		if err != nil || reply == nil || reply.List == nil {
			return 0, false
		}
		for _, item := range reply.List.Items {
			h.Write(s.record(item.Raw))
			h.WriteByte(0) // which no record has
		}
		if reply.List.Next == nil {
			return h.Sum64(), true
		}
		list = list.Clone()
		list.Params = mcp.Object("cursor", mcp.String(*reply.List.Next))
	}
}
