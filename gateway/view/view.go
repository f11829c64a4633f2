package view

import (
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/policy"
)

// View is a compiled Config. It is immutable.
type View struct {
	cfg      Config
	show     *policy.Selection
	order    *policy.Selection
	reserved []string
}

// New compiles a valid configuration. No shortened name is one of reserved.
func New(cfg Config, reserved ...string) (*View, error) {
	show, err := policy.NewSelection(cfg.Show)
	if err != nil {
		return nil, err
	}
	order, err := policy.NewSelection(cfg.Order)
	return &View{cfg, show, order, reserved}, err
}

// Name returns the name of the view.
func (v *View) Name() string { return v.cfg.Name }

// Instructions returns the view's text in place of those of the gateway and the servers, "" for
// theirs.
func (v *View) Instructions() string { return strings.TrimSpace(v.cfg.Instructions) }

// Shortens reports whether the view drops prefixes.
func (v *View) Shortens() bool { return v.cfg.DropPrefixes }

// About reports whether the view may show something of a kind and upstream.
func (v *View) About(kind, upstream string) bool { return v.show.About(kind, upstream) }

// List is a whole list of the gateway, before any caller is considered.
type List struct {
	Items []mcp.Item
	// Gone are the last entries of servers with unknown lists. They keep their names.
	Gone []mcp.Item
	// Prefix returns the prefix of an upstream's names; nil for a list without such names.
	Prefix func(upstream string) string
	// Prefixes are all prefixes.
	Prefixes []string
	// NameIn is the member of an item that has its name.
	NameIn string
}

// Arranged is a list as a view shows it.
type Arranged struct {
	Items []mcp.Item
	// Full has the full names of those that were shortened, by the short ones.
	Full map[string]string
	// Kept are full names that were not shortened, because the short name would stand for something
	// else, too.
	Kept []string
}

// Arrange selects the items of a list for the view, and names, describes and orders them. The
// result depends on nothing else.
func (v *View) Arrange(l List) (a Arranged) {
	for _, item := range l.Items {
		if v.show.Has(item.Target) {
			a.Items = append(a.Items, item)
		}
	}
	if v.cfg.DropPrefixes && l.Prefix != nil {
		v.shorten(&a, l)
	}
	for i, item := range a.Items {
		if text, ok := v.cfg.Descriptions[described(item.Target, l.NameIn)]; ok {
			a.Items[i].Raw = item.Raw.With("description", mcp.String(text))
		}
	}
	if len(v.cfg.Order) > 0 {
		last := len(v.cfg.Order)
		rank := func(item mcp.Item) int {
			if first := v.order.First(item.Target); first >= 0 {
				return first
			}
			return last
		}
		slices.SortStableFunc(a.Items, func(x, y mcp.Item) int { return rank(x) - rank(y) })
	}
	return a
}

// described returns the name of an item's target in Config.Descriptions. In lists of resources,
// with items known by URIs, a file of a skill is a resource.
func described(t mcp.Target, nameIn string) string {
	if t.Kind == mcp.KindSkills && nameIn != "name" {
		t = mcp.Target{Kind: mcp.KindResources, Upstream: t.Upstream, Name: t.File}
	}
	return t.String()
}

// shorten drops prefixes where the rest stands for one thing only. Full names stay valid, so the
// full name of one thing is no short name of another.
func (v *View) shorten(a *Arranged, l List) {
	uses := make(map[string]int)
	for _, name := range v.reserved {
		uses[name]++
	}
	short := func(item mcp.Item) string {
		return strings.TrimPrefix(item.Name, l.Prefix(item.Target.Upstream))
	}
	gone := slices.DeleteFunc(slices.Clone(l.Gone), func(item mcp.Item) bool { return !v.show.Has(item.Target) })
	for _, item := range slices.Concat(a.Items, gone) {
		uses[item.Name]++
		if name := short(item); name != item.Name {
			uses[name]++
		}
	}
	single := func(name string) bool {
		return name != "" && uses[name] == 1 &&
			!slices.ContainsFunc(l.Prefixes, func(p string) bool { return p != "" && strings.HasPrefix(name, p) })
	}
	a.Full = make(map[string]string)
	for _, item := range gone {
		if name := short(item); name != item.Name && single(name) {
			a.Full[name] = item.Name
		}
	}
	for i, item := range a.Items {
		switch name := short(item); {
		case name == item.Name:
		case single(name):
			a.Full[name] = item.Name
			a.Items[i].Name, a.Items[i].Raw = name, item.Raw.With(l.NameIn, mcp.String(name))
		default:
			a.Kept = append(a.Kept, item.Name)
		}
	}
}
