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
			Tools: count(tools), Prompts: count(prompts), Resources: count(resources), ResourceTemplates: count(templates),
			Skills:   count(skills),
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

// each calls do with all items that upstreams list to clients that declare everything, upstream by
// upstream. It does not include what only individual users see.
func (s *snapshot) each(do func(upstream string, k kind, item mcp.Item)) {
	for i, state := range s.states {
		for k, list := range state.lists {
			for _, e := range list.all() {
				do(s.plan.namings[i].upstream, kind(k), e.item)
			}
		}
	}
}

// Tools returns the tools of an upstream as clients get them. It does not include what only
// individual users see.
func (c *Catalog) Tools(upstream string) (all []mcp.Item) {
	c.snap.Load().each(func(of string, k kind, item mcp.Item) {
		if of == upstream && k == tools {
			all = append(all, item)
		}
	})
	return all
}

// Everything returns the items of a list, by its method, for clients that declare everything. It does
// not include what only individual users see.
func (c *Catalog) Everything(method string) (all []mcp.Item) {
	c.snap.Load().each(func(_ string, k kind, item mcp.Item) {
		if k.method() == method {
			all = append(all, item)
		}
	})
	return all
}

// Targets returns everything that the upstreams list, as policy names it, upstream by
// upstream. It does not include what only individual users see.
func (c *Catalog) Targets() (all []mcp.Target) {
	c.snap.Load().each(func(_ string, _ kind, item mcp.Item) { all = append(all, item.Target) })
	return all
}

// Offered returns a list as the client of a call gets it, at the view of its caller, who may use all
// of it. It asks no upstream, and does not include what only individual users see.
func (c *Catalog) Offered(call *mcp.Call) []mcp.Item {
	k, ok := kindOf(call.Method)
	if !ok {
		return nil
	}
	aside := call.Clone()
	aside.Aside = true
	return c.lens(aside).list(k).items()
}

// Shown holds the names on one list of a view.
type Shown struct {
	List  string   `json:"list"`  // as in Withheld
	Names []string `json:"names"` // that clients see
	// Targets are the targets of these names.
	Targets []mcp.Target `json:"-"`
}

// Shown returns the lists of a view for a caller who may use all of it. It does not include what
// only individual users see.
func (c *Catalog) Shown(view string) (all []Shown) {
	s := c.snap.Load()
	for k := range kinds {
		one := Shown{List: k.String()}
		for _, item := range s.lists[k].in(c.plan.views[view], k, c.plan).items() {
			one.Names, one.Targets = append(one.Names, item.Name), append(one.Targets, item.Target)
		}
		all = append(all, one)
	}
	return all
}

// Kept returns the full names of tools and prompts that a view cannot shorten. It does not include
// what only individual users see.
func (c *Catalog) Kept(view string) (names []string) {
	s := c.snap.Load()
	for _, k := range []kind{tools, prompts} {
		names = append(names, s.lists[k].in(c.plan.views[view], k, c.plan).kept...)
	}
	return names
}

// OwnLists returns the upstreams with lists that differ for a session, by its key, from those for
// its client otherwise.
func (c *Catalog) OwnLists(session string) []string { return c.sessions.table.differsAt(session) }
