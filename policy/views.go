package policy

import (
	"context"
	"errors"
	"sync"
	"weak"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Bounds of what is cached: which items a class of callers sees of a list, and the lists of those,
// by the bytes of their items and renderings.
const (
	maxShown     = 4096
	maxViews     = 1024
	maxViewBytes = 64 << 20
)

// views are lists as callers see them. Callers who see the same items of a list share one List
// with its renderings. What is seen of a list is remembered longer than the list of it, since it
// takes longer to find out and less memory.
type views struct {
	policy *Policy

	mu    sync.Mutex // guards the fields below
	shown *simplelru.LRU[shownKey, string]
	made  *simplelru.LRU[viewKey, view]
	bytes int // of made
}

// Keys do not keep a source in memory.
type (
	shownKey struct {
		class [16]byte
		list  weak.Pointer[mcp.List]
	}
	// viewKey is a list and a bit for each of its items: whether it is shown.
	viewKey struct {
		list  weak.Pointer[mcp.List]
		items string
	}
)

type view struct {
	list  *mcp.List
	bytes int
}

func newViews(p *Policy) (*views, error) {
	v := &views{policy: p}
	var errs [2]error
	v.shown, errs[0] = simplelru.NewLRU[shownKey, string](maxShown, nil)
	v.made, errs[1] = simplelru.NewLRU(maxViews, func(_ viewKey, gone view) { v.bytes -= gone.bytes })
	return v, errors.Join(errs[:]...)
}

// list filters the answer of a list method.
func (g *Guard) list(ctx context.Context, c *mcp.Call, next mcp.Handler) (*mcp.Reply, error) {
	inner := g.bare(c)
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
	weakly := weak.Make(list)
	items := v.itemsOf(who, list, shownKey{who.class.id, weakly})
	if items == "" {
		return list
	}
	key := viewKey{weakly, items}
	v.mu.Lock()
	known, ok := v.made.Get(key)
	v.mu.Unlock()
	if ok {
		return known.list
	}
	fresh := newView(list, items)
	v.mu.Lock()
	defer v.mu.Unlock()
	if known, ok := v.made.Get(key); ok {
		return known.list
	}
	if fresh.bytes > maxViewBytes/4 {
		return fresh.list
	}
	v.bytes += fresh.bytes
	v.made.Add(key, fresh)
	for v.bytes > maxViewBytes {
		v.made.RemoveOldest()
	}
	return fresh.list
}

// itemsOf returns a bit for each item of a list: whether a caller sees it. It returns "" if the
// caller sees the list as it is.
func (v *views) itemsOf(who *subject, list *mcp.List, key shownKey) string {
	v.mu.Lock()
	items, ok := v.shown.Get(key)
	v.mu.Unlock()
	if ok {
		return items
	}
	set, all := make([]byte, len(list.Items)/8+1), list.Private
	for i, item := range list.Items {
		if v.policy.partialFor(who, item.Target).visible {
			set[i/8] |= 1 << (i % 8)
		} else {
			all = false
		}
	}
	if !all {
		items = string(set)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shown.Add(key, items)
	return items
}

// newView makes the list of the items that are shown. Each counts twice: it may be all that keeps
// an item of an older list in memory, and it is rendered.
func newView(list *mcp.List, items string) view {
	const overhead = 128 // of an item, beside its text
	made := view{list: &mcp.List{Items: []mcp.Item{}, Next: list.Next, Expires: list.Expires, Private: true}, bytes: len(items)}
	for i, item := range list.Items {
		if items[i/8]&(1<<(i%8)) != 0 {
			made.list.Items = append(made.list.Items, item)
			made.bytes += 2*len(item.Raw) + overhead
		}
	}
	return made
}
