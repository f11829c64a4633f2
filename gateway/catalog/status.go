package catalog

import (
	"context"
	"log/slog"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// UpstreamView is the state of one upstream as the catalog sees it, for the command check
// and the console.
type UpstreamView struct {
	Name   string
	Prefix string // of its tools and prompts; "" when names and URIs stay as they are
	State  State
	Since  time.Time // of State
	// LastError is the last error, "" when all is well.
	LastError string
	// Failed is the name of that failure.
	Failed failure.Name
	// Tools to ResourceTemplates are the numbers of items that clients see.
	Tools, Prompts, Resources, ResourceTemplates, Skills int
	// Withheld are the items that clients do not see.
	Withheld []Withheld
}

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

// withheld returns the items of an upstream that clients do not see.
func (s *snapshot) withheld(source int) (all []Withheld) {
	for _, t := range s.tables {
		all = append(all, t.withheld[source]...)
	}
	return all
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

// logWithheld logs the items that the new snapshot withholds and the old one did not. A
// change at one upstream can affect another, if both have the same name.
func (c *Catalog) logWithheld(old, next *snapshot) {
	const most = 20 // per change; Status lists all
	for i, source := range c.sources {
		now := next.withheld(i)
		if len(now) == 0 {
			continue
		}
		before := make(map[Withheld]bool)
		for _, w := range old.withheld(i) {
			before[w] = true
		}
		logged, more := 0, 0
		for _, w := range now {
			switch {
			case before[w]:
			case logged == most:
				more++
			default:
				logged++
				c.log.LogAttrs(context.Background(), slog.LevelWarn, "item withheld", failure.ItemWithheld.Attr(), slog.String("upstream", source.naming.upstream),
					slog.String("list", w.List), slog.String("name", w.Name), slog.String("reason", w.Reason))
			}
		}
		if more > 0 {
			c.log.LogAttrs(context.Background(), slog.LevelWarn, "more items withheld", failure.ItemWithheld.Attr(), slog.String("upstream", source.naming.upstream), slog.Int("count", more))
		}
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
func (c *Catalog) OwnLists(session string) []string { return c.sessions.table.Differs(session) }
