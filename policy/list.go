package policy

import (
	"context"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// list filters the answer of a list method.
func (g *Guard) list(ctx context.Context, c *mcp.Call, next mcp.Handler) (*mcp.Reply, error) {
	inner := g.bare(c)
	inner.Visible = g.policy.upstreams(&c.Caller) // says whom to ask on the caller's behalf
	reply, err := next.Handle(ctx, inner)
	if err != nil || reply == nil || reply.List == nil || g.policy.openTo(&c.Caller) {
		return reply, err
	}
	return &mcp.Reply{List: listFor(g.policy, g.policy.subjectOf(&c.Caller), reply.List)}, nil
}

// Keys of lists that are made of another one: for a class of callers, and for a bit for each item that
// says whether it is shown. Callers who see the same items share one list with its renderings.
type (
	classKey struct {
		policy *Policy
		class  [16]byte
	}
	itemsKey string
)

// listFor returns the list as a caller sees it. It is always private, even if the caller sees all
// items: another caller may see a different list.
func listFor(p *Policy, who *subject, list *mcp.List) *mcp.List {
	return list.Derive(classKey{p, who.class.id}, func(list *mcp.List) *mcp.List {
		set, all := make([]byte, len(list.Items)/8+1), list.Private
		for i, item := range list.Items {
			if p.partialFor(who, item.Target).visible {
				set[i/8] |= 1 << (i % 8)
			} else {
				all = false
			}
		}
		if all {
			return list
		}
		return list.Derive(itemsKey(set), func(list *mcp.List) *mcp.List {
			items := []mcp.Item{}
			for i, item := range list.Items {
				if set[i/8]&(1<<(i%8)) != 0 {
					items = append(items, item)
				}
			}
			made := list.With(items)
			made.Private = true
			return made
		})
	})
}
