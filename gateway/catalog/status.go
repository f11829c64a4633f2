package catalog

import "github.com/gatehouse-mcp/gatehouse/internal/mcp"

// Status returns a view of each upstream, in the order of the configuration.
func (c *Catalog) Status() []UpstreamView {
	s := c.snap.Load()
	views := make([]UpstreamView, len(c.sources))
	for i, source := range c.sources {
		state := s.states[i]
		count := func(k kind) int { return s.tables[k].counts[i] }
		views[i] = UpstreamView{
			Name: source.naming.upstream, Prefix: source.naming.prefix,
			State: state.state, Since: state.since, LastError: state.failure, Failed: state.failed,
			Tools: count(tools), Prompts: count(prompts), Resources: count(resources), ResourceTemplates: count(templates), Skills: count(skills),
			Withheld: s.withheld(i),
		}
	}
	return views
}

// Heard reports whether every source has answered or failed once.
func (c *Catalog) Heard() bool {
	select {
	case <-c.first:
		return true
	default:
		return false
	}
}

// Tools returns the tools of an upstream as clients get them. It does not include what only
// individual users see.
func (c *Catalog) Tools(upstream string) (all []mcp.Item) {
	for i, state := range c.snap.Load().states {
		if list := state.lists[tools]; list != nil && c.sources[i].naming.upstream == upstream {
			for _, e := range list.entries {
				all = append(all, e.item)
			}
		}
	}
	return all
}

// Everything returns what the upstreams have on a list, by its method, as clients get it that declare
// everything. It does not include what only individual users see.
func (c *Catalog) Everything(method string) (all []mcp.Item) {
	k, ok := kindOf(method)
	if !ok {
		return nil
	}
	for _, state := range c.snap.Load().states {
		if list := state.lists[k]; list != nil {
			for _, e := range list.entries {
				all = append(all, e.item)
			}
		}
	}
	return all
}

// Offered returns a list as the client of a call gets it, at the view of its caller, who may use all
// of it. It asks nobody, and does not include what only individual users see.
func (c *Catalog) Offered(call *mcp.Call) (all []mcp.Item) {
	k, ok := kindOf(call.Method)
	if !ok {
		return nil
	}
	aside := call.Clone()
	aside.Aside = true
	for _, page := range c.lens(aside).list(k).pages {
		all = append(all, page.Items...)
	}
	return all
}

// Shown is a list of a view.
type Shown struct {
	List  string   `json:"list"`  // as in Withheld
	Names []string `json:"names"` // that clients see
	// Targets are what these names stand for.
	Targets []mcp.Target `json:"-"`
}

// Shown returns what a view shows to a caller who may use all of it. It does not include what only
// individual users see.
func (c *Catalog) Shown(view string) (all []Shown) {
	s := c.snap.Load()
	for k := range kinds {
		one := Shown{List: k.String()}
		for _, page := range s.lists[k].in(c.plan.views[view], k, c.plan).pages {
			for _, item := range page.Items {
				one.Names, one.Targets = append(one.Names, item.Name), append(one.Targets, item.Target)
			}
		}
		all = append(all, one)
	}
	return all
}

// Kept returns the full names of the tools and prompts whose prefixes a view cannot drop. It does not
// include what only individual users see.
func (c *Catalog) Kept(view string) (names []string) {
	s := c.snap.Load()
	for _, k := range []kind{tools, prompts} {
		names = append(names, s.lists[k].in(c.plan.views[view], k, c.plan).kept...)
	}
	return names
}

// Targets returns everything that the upstreams list, as policy names it, upstream by
// upstream. It does not include what only individual users see.
func (c *Catalog) Targets() (all []mcp.Target) {
	for _, state := range c.snap.Load().states {
		for _, list := range state.lists {
			if list == nil {
				continue
			}
			for _, e := range list.entries {
				all = append(all, e.item.Target)
			}
		}
	}
	return all
}

// OwnLists returns the upstreams whose lists are others for a session, by its key, than for its
// client otherwise.
func (c *Catalog) OwnLists(session string) []string { return c.sessions.table.differsAt(session) }
