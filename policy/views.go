package policy

import (
	"context"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Bounds of the cached lists: their number, and the bytes of their items and of the lists
// that they were made from.
const (
	maxViews     = 1024
	maxViewBytes = 64 << 20
)

// views are lists as callers see them. A filtered list is cached with its source, and callers
// who see the same items of a list share one List with its renderings.
type views struct {
	policy *Policy

	mu    sync.Mutex // guards the fields below
	shown *simplelru.LRU[viewKey, *view]
	sets  map[setKey]*view // the views in shown, by what they hold
	bytes int
}

type viewKey struct {
	class [16]byte
	list  *mcp.List
}

// setKey is a list and a bit for each of its items: whether it is shown.
type setKey struct {
	list  *mcp.List
	items string
}

type view struct {
	key   setKey
	list  *mcp.List
	uses  int // in shown
	bytes int
}

func newViews(p *Policy) (*views, error) {
	v := &views{policy: p, sets: make(map[setKey]*view)}
	var err error
	v.shown, err = simplelru.NewLRU(maxViews, func(_ viewKey, gone *view) { v.forget(gone) })
	return v, err
}

// list filters the answer of a list method.
func (g *Guard) list(ctx context.Context, c *mcp.Call, next mcp.Handler) (*mcp.Reply, error) {
	inner := bare(c)
	inner.Visible = g.policy.upstreams(&c.Caller) // says whom to ask on the caller's behalf
	reply, err := next.Handle(ctx, inner)
	if err != nil || reply == nil || reply.List == nil || g.policy.openTo(&c.Caller) {
		return reply, err
	}
	return &mcp.Reply{List: g.views.of(g.policy.subjectOf(&c.Caller), reply.List)}, nil
}

// of returns the list as a caller sees it. It is always private, even if the caller sees all
// items: another caller may see a different list.
func (v *views) of(who *subject, list *mcp.List) *mcp.List {
	return v.ofOrigin(who, list.Origin()).WithNext(list.Next)
}

func (v *views) ofOrigin(who *subject, list *mcp.List) *mcp.List {
	key := viewKey{who.class.id, list}
	v.mu.Lock()
	known, ok := v.shown.Get(key)
	v.mu.Unlock()
	if ok {
		return known.list
	}
	visible := make([]bool, len(list.Items))
	all := true
	for i, item := range list.Items {
		visible[i] = v.policy.partialFor(who, item.Target).visible
		all = all && visible[i]
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	set := setKey{list, bits(visible)}
	shown := v.sets[set]
	if shown == nil {
		shown = newView(set, list, visible, all)
		if shown.bytes > maxViewBytes/4 {
			return shown.list
		}
		v.sets[set] = shown
		v.bytes += shown.bytes
	}
	if !v.shown.Contains(key) {
		shown.uses++
		v.shown.Add(key, shown)
	}
	for v.bytes > maxViewBytes && v.shown.Len() > 0 {
		v.shown.RemoveOldest()
	}
	return shown.list
}

// forget releases a view that left the cache. The caller holds mu.
func (v *views) forget(gone *view) {
	if gone.uses--; gone.uses == 0 {
		delete(v.sets, gone.key)
		v.bytes -= gone.bytes
	}
}

func newView(key setKey, list *mcp.List, visible []bool, all bool) *view {
	const overhead = 128 // of an item, beside its text
	bytes := 0
	for _, item := range list.Items {
		bytes += len(item.Raw) + overhead
	}
	if all && list.Private {
		return &view{key: key, list: list, bytes: bytes}
	}
	filtered := &mcp.List{Items: []mcp.Item{}, Next: list.Next, Expires: list.Expires, Private: true}
	for i, item := range list.Items {
		if visible[i] {
			filtered.Items = append(filtered.Items, item)
			bytes += len(item.Raw) + overhead // rendered
		}
	}
	return &view{key: key, list: filtered, bytes: bytes}
}

func bits(set []bool) string {
	out := make([]byte, (len(set)+7)/8)
	for i, in := range set {
		if in {
			out[i/8] |= 1 << (i % 8)
		}
	}
	return string(out)
}
