package catalog

import "github.com/gatehouse-mcp/gatehouse/internal/mcp"

// Targets are what the upstreams list, as policy names it, upstream by upstream. What
// only single users are shown is not among them.
func (c *Catalog) Targets() (all []mcp.Target) {
	for _, state := range c.snap.Load().states {
		for _, shelf := range state.shelves {
			if shelf == nil {
				continue
			}
			for _, e := range shelf.entries {
				all = append(all, e.item.Target)
			}
		}
	}
	return all
}
