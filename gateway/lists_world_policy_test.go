package gateway

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/gatehouse-mcp/gatehouse/gateway/view"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/policy"
)

// may reports whether policy and view let a client use something.
func (w *listWorld) may(c *worldClient, k worldKind, s *worldServer, native string) bool {
	if c.view != "" {
		v := w.view(c.view)
		if v.Who.Users != nil && !slices.Contains(v.Who.Users, c.user) || !anyFits(v.Show, k, s, native, possible) {
			return false
		}
	}
	allowed := w.policy.Default == policy.DefaultAllow
	for _, r := range w.policy.Rules {
		if r.Who.Users != nil && !slices.Contains(r.Who.Users, c.user) {
			continue
		}
		condition := worldConditions[r.When]
		if restricts(r.Deny, k, s, native, certain) && !condition.args && condition.holds(c, k, s) {
			return false
		}
		allowed = allowed || anyFits(r.Allow, k, s, native, possible) && (condition.args || condition.holds(c, k, s))
	}
	return allowed
}

// knows reports whether a client may know of a server: it could be allowed something there.
func (w *listWorld) knows(c *worldClient, s *worldServer) bool {
	return w.knowsOf(c, s, mcp.KindTools, mcp.KindPrompts, mcp.KindResources, mcp.KindSkills)
}

// knowsOf is knows for some kinds.
func (w *listWorld) knowsOf(c *worldClient, s *worldServer, kinds ...string) bool {
	return slices.ContainsFunc(kinds, func(kind string) bool {
		about := func(patterns []string, all bool) bool {
			return slices.ContainsFunc(patterns, func(pattern string) bool {
				of, rest, _ := strings.Cut(pattern, ":")
				server, name, found := strings.Cut(rest, "/")
				return (of == "*" || of == kind) && (!found || matches(server, s.name)) && (!all || !found || name == "*")
			})
		}
		if c.view != "" {
			if v := w.view(c.view); v.Who.Users != nil && !slices.Contains(v.Who.Users, c.user) || !about(v.Show, false) {
				return false
			}
		}
		allowed := w.policy.Default == policy.DefaultAllow
		for _, r := range w.policy.Rules {
			if r.Who.Users != nil && !slices.Contains(r.Who.Users, c.user) {
				continue
			}
			condition := worldConditions[r.When]
			if about(r.Deny, true) && !condition.args && condition.holds(c, worldKind{name: kind}, s) {
				return false
			}
			allowed = allowed || about(r.Allow, false) && (condition.args || condition.holds(c, worldKind{name: kind}, s))
		}
		return allowed
	})
}

// decides returns what becomes of a call of something that its client may know of: what conditions say
// of its arguments counts, and one that says nothing denies.
func (w *listWorld) decides(c *worldClient, k worldKind, s *worldServer, native string) (asks, denied bool) {
	allowed := w.policy.Default == policy.DefaultAllow
	for _, r := range w.policy.Rules {
		if r.Who.Users != nil && !slices.Contains(r.Who.Users, c.user) {
			continue
		}
		condition := worldConditions[r.When]
		fails := condition.needs && (c.flag == "" || !k.hasArguments())
		holds := !fails && condition.holds(c, k, s)
		denied = denied || restricts(r.Deny, k, s, native, certain) && (holds || fails) ||
			restricts(r.Ask, k, s, native, possible) && fails
		asks = asks || restricts(r.Ask, k, s, native, possible) && holds
		allowed = allowed || anyFits(r.Allow, k, s, native, possible) && holds
	}
	denied = denied || !allowed
	return asks && !denied, denied
}

// worldCondition is what a condition of a rule means.
type worldCondition struct {
	args  bool // it looks at arguments
	needs bool // and cannot be evaluated without them
	holds func(c *worldClient, k worldKind, s *worldServer) bool
}

var worldConditions = map[string]worldCondition{
	"":                       {holds: func(*worldClient, worldKind, *worldServer) bool { return true }},
	`caller.user == "bob"`:   {holds: func(c *worldClient, _ worldKind, _ *worldServer) bool { return c.user == "bob" }},
	`target.upstream != "a"`: {holds: func(_ *worldClient, _ worldKind, s *worldServer) bool { return s.name != "a" }},
	`target.kind == "prompts"`: {holds: func(_ *worldClient, k worldKind,
		_ *worldServer) bool {
		return k.name == "prompts"
	}},
	`args.flag == "yes"`: {args: true, needs: true,
		holds: func(c *worldClient, _ worldKind, _ *worldServer) bool { return c.flag == "yes" }},
	`has(args.flag) && args.flag == "yes"`: {args: true, holds: func(c *worldClient, k worldKind, _ *worldServer) bool {
		return c.flag == "yes" && k.hasArguments()
	}},
}

func (w *listWorld) view(name string) view.Config {
	return w.views[slices.IndexFunc(w.views, func(v view.Config) bool { return v.Name == name })]
}

// A template is denied if all that it makes is denied, and shown if some of it may be used.
const (
	possible = false
	certain  = true
)

func anyFits(patterns []string, k worldKind, s *worldServer, native string, sure bool) bool {
	return !slices.ContainsFunc(spellings(native), func(name string) bool {
		return !slices.ContainsFunc(patterns, func(p string) bool { return fits(p, k, s, name, sure) })
	})
}

// restricts is anyFits for what denies or asks: one spelling is enough, and of a skill, it may also name the file.
func restricts(patterns []string, k worldKind, s *worldServer, native string, sure bool) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		return k == worldSkills && fits(p, worldResources, s, skillFile(native), sure) ||
			slices.ContainsFunc(spellings(native), func(name string) bool { return fits(p, k, s, name, sure) })
	})
}

// spellings are the ways in which servers may read a URI.
func spellings(native string) []string {
	scheme, rest, found := strings.Cut(native, ":")
	if !found {
		return []string{native}
	}
	return []string{native, strings.ToLower(scheme) + ":" + rest, strings.ToLower(native)}
}

// fits reports whether a pattern is about something of a server. Of a template, it tries
// values that are enough for the patterns that a world has.
func fits(pattern string, k worldKind, s *worldServer, native string, sure bool) bool {
	kind, rest, _ := strings.Cut(pattern, ":")
	server, name, found := strings.Cut(rest, "/")
	if !found {
		server, name = "*", "*"
	}
	if kind != "*" && kind != k.name || !matches(server, s.name) {
		return false
	}
	for _, value := range []string{"~", "", "x", "y", "~x", "~y", "x~", "y~", "xy", "y/x", "x/y"} {
		if matches(name, strings.ReplaceAll(native, "{id}", value)) != sure {
			return !sure
		}
	}
	return sure
}

func matches(glob, text string) bool {
	before, after, star := strings.Cut(glob, "*")
	rest, begins := strings.CutPrefix(text, before)
	if !star || !begins {
		return glob == text
	}
	for i := range len(rest) + 1 {
		if matches(after, rest[i:]) {
			return true
		}
	}
	return false
}

// Of what worlds are made. Names repeat, look like those of other servers once they have
// a prefix, have characters that public names lack, or are too long.
var (
	worldServers  = []string{"a", "ab", "a-b", "b"}
	worldPrefixes = []string{"", "a_", "a__", "a__x", "b_"}
	worldNames    = map[string][]string{
		worldTools.list: {"x", "y", "x.y", "x_y", "_x", "b__x", "a__x", "__y", "load_skill", "describe_tools",
			"not printable", "x-with-a-very-long-name-1", "x-with-a-very-long-name-2"},
		worldPrompts.list:   {"x", "y", "x.y", "b__x", "a__x", "ab__x", "not\tprintable", "y-with-a-very-long-name"},
		worldResources.list: {"mem:x", "mem:y", "mem:y/x", "ui://app/x", "a+mem:x", "ui://b/x"},
		worldTemplates.list: {"mem:{id}", "mem:y/{id}", "ui://app/{id}", "b+mem:{id}"},
		worldSkills.list:    {"x", "y", "x-y", "x-with-a-very-long-name-1"},
	}
	worldPatterns = []string{"*:*", "tools:*", "prompts:*", "resources:*", "*:a/*", "*:ab/*", "*:a*/*", "*:b/*",
		"tools:*/x", "tools:*/x*", "tools:a/y", "*:*/*x", "prompts:b/x",
		"resources:*/mem:*", "resources:*/mem:x", "resources:a/mem:y/*", "resources:*/ui://*", "skills:*", "skills:*/x",
		"skills:a/*y", "resources:*/skill://*"}
	worldTTLs  = []time.Duration{0, time.Minute, 4 * time.Minute} // less than worldRefresh
	worldUsers = [][]string{nil, {"ann"}, {"bob"}}
)

// drawWorld draws a world. One that is open has no policy and no views: these make all lists private,
// so only without them it shows which lists, and which of their pages, are private by themselves.
func drawWorld(t *rapid.T, open bool) *listWorld {
	w := &listWorld{pageSize: rapid.SampledFrom([]int{1, 3, 100}).Draw(t, "size of pages")}
	names := rapid.SliceOfNDistinct(rapid.SampledFrom(worldServers), 1, 3, rapid.ID).Draw(t, "servers")
	of := drawMaterial(t, open)
	of.frank = open && rapid.Bool().Draw(t, "no server says that lists are private")
	for _, name := range names {
		w.servers = append(w.servers, of.server(t, name))
	}
	w.policy.Default = policy.DefaultAllow
	views := []string{""}
	if !open {
		views = append(views, w.govern(t, names, of)...)
	}
	for i := range rapid.IntRange(1, 4).Draw(t, "clients") {
		w.clients = append(w.clients, &worldClient{
			id:   fmt.Sprint("client", i),
			user: rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "user"), view: rapid.SampledFrom(views).Draw(t, "at"),
			caps: drawCaps(t),
			flag: rapid.SampledFrom([]string{"", "yes", "no"}).Draw(t, "with the flag"),
		})
	}
	for _, s := range w.servers {
		// A server of which a user may not know is asked in their name only for some of their calls: so what
		// else they see would depend on these.
		s.perUser = s.perUser && !slices.ContainsFunc(w.clients, func(c *worldClient) bool { return !w.knows(c, s) })
	}
	return w
}

// govern gives the world a policy and views. It returns the names of the views.
func (w *listWorld) govern(t *rapid.T, servers []string, of material) (views []string) {
	w.policy.Default = rapid.SampledFrom([]string{policy.DefaultAllow, policy.DefaultDeny}).Draw(t, "policy")
	patterns := func(label string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(worldPatterns), 1, 3, rapid.ID).Draw(t, label)
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "rules") {
		r := policy.Rule{Name: fmt.Sprint("rule", i), Who: policy.Who{Users: rapid.SampledFrom(worldUsers).Draw(t, "for")}}
		r.When = rapid.SampledFrom(slices.Sorted(maps.Keys(worldConditions))).Draw(t, "when")
		switch rapid.SampledFrom([]string{"allow", "deny", "ask"}).Draw(t, "effect") {
		case "allow":
			r.Allow = patterns("allow")
		case "deny":
			r.Deny = patterns("deny")
		case "ask":
			r.Ask = patterns("ask")
		}
		w.policy.Rules = append(w.policy.Rules, r)
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "views") {
		v := view.Config{Name: fmt.Sprint("v", i), Show: patterns("show"), Descriptions: make(map[string]string)}
		v.Who.Users = rapid.SampledFrom(worldUsers).Draw(t, "for")
		if rapid.Bool().Draw(t, "orders") {
			v.Order = patterns("order")
		}
		v.DropPrefixes = rapid.Bool().Draw(t, "drop prefixes")
		for range rapid.IntRange(0, 2).Draw(t, "descriptions") {
			k := rapid.SampledFrom([]worldKind{worldTools, worldPrompts, worldResources, worldTemplates}).Draw(t, "kind")
			native, server := rapid.SampledFrom(of.names[k.list]).Draw(t, "name"), rapid.SampledFrom(servers).Draw(t, "of")
			v.Descriptions[k.name+":"+server+"/"+native] = "described by the view"
		}
		w.views, views = append(w.views, v), append(views, v.Name)
	}
	return views
}

// material is what the servers of one world have: little, so that it collides.
type material struct {
	names           map[string][]string // by list
	prefixes, needs []string
	least           int  // names of each list, and so pages
	frank           bool // no server has accounts of users, or says that a list is private
}

func drawMaterial(t *rapid.T, long bool) (m material) {
	some := func(most int, of []string, label string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(of), 1, most, rapid.ID).Draw(t, label)
	}
	if long {
		m.least = 3
	}
	m.names = make(map[string][]string)
	for _, k := range worldKinds {
		m.names[k.list] = rapid.SliceOfNDistinct(rapid.SampledFrom(worldNames[k.list]), max(m.least, 1), 4,
			rapid.ID).Draw(t, k.list)
	}
	m.prefixes = some(2, worldPrefixes, "prefixes")
	m.needs = []string{""}
	for _, name := range some(2, canDeclare, "needs") {
		m.needs = append(m.needs, name, "no "+name)
	}
	return m
}

func (m material) server(t *rapid.T, name string) *worldServer {
	s := &worldServer{
		name: name, page: rapid.SampledFrom([]int{1, 2, 100}).Draw(t, name+" has pages of"),
		perUser: !m.frank && rapid.Bool().Draw(t, name+" has accounts of users"),
		lists:   make(map[string][]*worldEntry), later: make(map[string][]*worldEntry), ttls: make(map[string]time.Duration),
		untold: make(map[string]bool), private: make(map[string]bool),
	}
	if s.perUser {
		m.needs = append(m.needs, "user ann", "no user ann")
	}
	if s.keeps = rapid.Bool().Draw(t, name+" has sessions"); s.keeps {
		m.needs = append(m.needs, "session of client0", "session", "no session")
	}
	s.hasResources, s.hasSkills = rapid.Bool().Draw(t, name+" has resources"), rapid.Bool().Draw(t, name+" has skills")
	if rapid.Bool().Draw(t, name+" has a prefix of its own") {
		prefix := rapid.SampledFrom(m.prefixes).Draw(t, name+" has prefix")
		s.prefix = &prefix
	}
	for _, k := range worldKinds {
		if !s.has(k) {
			continue
		}
		s.ttls[k.list] = rapid.SampledFrom(worldTTLs).Draw(t, "time to live")
		s.untold[k.list], s.private[k.list] = rapid.Bool().Draw(t, "but for the last page"),
			!m.frank && rapid.Bool().Draw(t, "private")
		s.lists[k.list] = m.entries(t, k, name)
		if s.later[k.list] = s.lists[k.list]; rapid.Bool().Draw(t, "changes") {
			s.later[k.list] = m.entries(t, k, name+" later")
		}
	}
	return s
}

func (m material) entries(t *rapid.T, k worldKind, of string) (all []*worldEntry) {
	natives := m.names[k.list]
	for _, native := range rapid.SliceOfNDistinct(rapid.SampledFrom(natives), m.least, len(natives), rapid.ID).Draw(t,
		of+" "+k.list) {
		all = append(all, m.entry(t, native))
	}
	return all
}

func (m material) entry(t *rapid.T, native string) *worldEntry {
	e := &worldEntry{native: native, times: 1}
	e.needs = rapid.SampledFrom(m.needs).Draw(t, native+" needs")
	e.varies = e.needs != "" && rapid.Bool().Draw(t, "or else looks different")
	switch rapid.SampledFrom([]string{"", "", "described", "app", "twice", "twice, differently"}).Draw(t, "is") {
	case "described":
		e.described = true
	case "app":
		e.app = true
	case "twice":
		e.times = 2
	case "twice, differently":
		e.times, e.conflict = 2, true
	}
	return e
}

// drawCaps draws the capabilities that a client declares, in one of the ways to write them.
func drawCaps(t *rapid.T) string {
	return rapid.Map(rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
		`"roots":{}`, `"roots":{"listChanged":true}`, `"sampling":{}`, `"sampling":{"tools":{}}`, `"elicitation":{}`,
		`"elicitation":{ "form":{}}`, `"elicitation":{"url":{}}`,
		`"elicitation":{"url":{},"form":{}}`, `"extensions":{"io.modelcontextprotocol/tasks":{}}`,
		`"extensions":{"com.example/x":{"a":1}}`, `"experimental":{"y":{}}`,
	}), 0, 4, func(member string) string { before, _, _ := strings.Cut(member, ":"); return before }),
		func(members []string) string {
			return "{" + strings.Join(members, ", ") + "}"
		}).Draw(t, "declares")
}
