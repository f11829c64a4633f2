package catalog

import (
	"context"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/gateway/view"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Lens shows what the caller of a call sees: the lists of all upstreams as its class of clients, its
// user and its session see them, at its view. It never changes.
type Lens struct {
	*snapshot
	c    *Catalog
	call *mcp.Call
	view *view.View // nil for none
}

// For returns the lens of a call. It asks no upstream.
func (c *Catalog) For(call *mcp.Call) mcp.Lens {
	l := c.lens(call)
	return &l
}

func (c *Catalog) lens(call *mcp.Call) Lens {
	base, of := c.common(call)
	return Lens{snapshot: c.sessions.over(base, of, call), c: c, call: call, view: c.plan.viewOf(call)}
}

// lensOf returns the lens of a call, or else the current one.
func (c *Catalog) lensOf(call *mcp.Call) Lens {
	if l, ok := call.Lens.(*Lens); ok && l.c == c {
		own := *l
		own.call = call // which may have been changed since
		return own
	}
	return c.lens(call)
}

// Now implements mcp.Lens.
func (l *Lens) Now() mcp.Lens { return l.c.For(l.call) }

// Target implements mcp.Lens. For resources public is a URI or, as completions refer to them, a URI
// template as listed; the id of a task stands for the tool that made it. A name with the prefix of an
// upstream with an unknown list still has a target, so that policy decides before anything about that
// upstream is disclosed.
func (l *Lens) Target(ctx context.Context, kind, public string) (to mcp.Target, ok bool) {
	if kind == mcp.KindTask {
		id, s, ok := l.c.openTask(public, &l.call.Caller)
		if !ok {
			return to, false
		}
		return s.naming.target(tools, id.tool), true
	}
	_, f := l.resolve(ctx, kind, public)
	if !f.ok {
		return to, false
	}
	return l.c.targetOf(f), true
}

// Schema implements mcp.Lens. It asks a per-user upstream for its list.
func (l *Lens) Schema(ctx context.Context, public string) *mcp.Schema {
	f := l.lookUp(mcp.KindTools, public)
	if s := l.c.sources[f.source]; f.unlisted && s.users != nil {
		_ = l.c.ask(ctx, l.call, s) // on an error, the schema is unknown
		now := l.c.lens(l.call)
		f = now.lookUp(mcp.KindTools, public)
	}
	return f.schema
}

// Structured implements mcp.Lens: an output schema needs structured content.
func (l *Lens) Structured(tool mcp.Target) bool {
	for i, n := range l.plan.namings {
		if n.upstream != tool.Upstream {
			continue
		}
		public, err := n.tool(tool.Name)
		to, ok := l.named(tools, public)
		if err != nil || !ok || to.source != i {
			return true
		}
		schema, _ := to.tool.Member("outputSchema")
		return schema != nil
	}
	return true
}

// found is the item behind a public name, as far as a lens can tell.
type found struct {
	target
	kind  kind
	ok    bool
	doubt doubt
}

// doubt is the set of sources that may tell more about a name.
type doubt uint8

const (
	warming    doubt = 1 << iota // upstreams that have not answered yet
	ofClass                      // the first look as the client's class
	ofSession                    // lists of the session that are outdated
	ofAccounts                   // per-user upstreams that the view is about
	ofSource                     // the upstream that may have it
)

// resolve finds a name. While there is doubt, it waits for what may tell more, as long as a list
// would, and returns the lens after that.
func (l Lens) resolve(ctx context.Context, policyKind, public string) (Lens, found) {
	f := l.lookUp(policyKind, public)
	if f.doubt == 0 {
		return l, f
	}
	c := l.c
	for _, step := range [...]struct {
		about doubt
		wait  func() error
	}{
		{warming, func() error { return c.wait(ctx) }},
		{ofClass, func() error { return c.awaitClass(ctx, l.call) }},
		{ofSession, func() error { c.sessions.renew(ctx, l.call, f.kind.alike(), false); return nil }},
		{ofAccounts, func() error { return c.users.look(ctx, l.call, l.shownSources(f.kind)) }},
		{ofSource, func() error { _ = c.ask(ctx, l.call, c.sources[f.source]); return ctx.Err() }},
	} {
		if f.doubt&step.about == 0 {
			continue
		}
		if step.wait() != nil {
			return l, found{}
		}
		l = c.lens(l.call)
		f = l.lookUp(policyKind, public)
	}
	return l, f
}

// lookUp finds a name of a kind of policy.
func (l Lens) lookUp(policyKind, public string) found {
	switch policyKind {
	case mcp.KindTools:
		return l.findName(tools, public)
	case mcp.KindPrompts:
		return l.findName(prompts, public)
	case mcp.KindSkills:
		if strings.Contains(public, "://") {
			return l.findSkill(public)
		}
		return l.findName(skills, public)
	case mcp.KindResources:
		return l.findURI(public)
	}
	return found{}
}

// findName finds a tool, prompt or skill. It is certain of a name that a per-user upstream may have, if
// the name tells what it stands for there: policy decides before anything is done there.
func (l Lens) findName(k kind, public string) found {
	f := found{kind: k, ok: true}
	shortens := l.view != nil && l.view.Shortens() && (k == tools || k == prompts)
	if shortens {
		if full, ok := l.list(k).full[public]; ok {
			public = full
		}
	}
	var ok bool
	if f.target, ok = l.named(k, public); ok {
		return f
	}
	f.target, f.ok = l.missing(k, public)
	switch {
	case !f.ok: // the client may be the first of its class, or only its session may have it
		f.doubt = ofClass | ofSession
	case l.c.sources[f.source].users == nil:
		f.doubt = warming
	case mayBeClosed(public), k == skills: // policy must know the original name or URI
		f.doubt = ofSource
	}
	if shortens {
		if f.doubt |= warming | ofClass | ofSession; l.c.users != nil {
			f.doubt |= ofAccounts
		}
	}
	return f
}

// findURI finds a URI, or a template: a text with an expression that is not a listed resource. Right
// after the start, an upstream that has not answered yet may list it. It may be a file of a skill that
// only the session has.
func (l Lens) findURI(public string) found {
	f := found{kind: resources}
	var known, certain bool
	if f.source, f.native, known = l.uris.find(public); !known {
		f.source, f.doubt = 0, warming|ofSession
		return f
	}
	state := &l.states[f.source]
	if state.offers.kinds.has(skills) || strings.HasPrefix(strings.ToLower(f.native), mcp.SkillScheme) {
		f.doubt = ofSession
	}
	if f.skill.of, certain = state.skillOf(f.native); !certain {
		f.doubt |= l.unsettled(f.source)
		return f
	}
	if strings.Contains(f.native, "{") {
		listed := l.plan.namings[f.source].uri(f.native)
		if _, ok := state.lists[resources].find(listed); !ok {
			f.kind = templates
			if _, ok := state.lists[templates].find(listed); !ok && state.lists[templates] != nil {
				return f // the client made it up
			}
		}
	}
	f.ok = !state.heard || state.offers.kinds.has(resources) // or it certainly has none
	return f
}

// findSkill finds a skill by the public URI of its SKILL.md.
func (l Lens) findSkill(public string) found {
	f := l.findURI(public)
	root, isSkill := mcp.SkillRoot(f.native)
	if !f.ok || !isSkill {
		f.ok = false
		return f
	}
	state := &l.states[f.source]
	f.kind, f.ok, f.doubt = skills, false, f.doubt|l.unsettled(f.source)
	if !state.offers.kinds.has(skills) || state.lists[skills] == nil {
		return f
	}
	if key, listed := state.lists[skills].skills.keys[root]; listed {
		at := slices.IndexFunc(state.lists[skills].entries, func(e entry) bool { return e.native == key })
		if at >= 0 { // else it is withheld
			e := &state.lists[skills].entries[at].skill
			f.native, f.skill, f.ok = key, skillTarget{uri: e.uri, arguments: e.arguments}, true
		}
		return f
	}
	if state.offers.skillURIs {
		key := f.skill.of // the skill that decides about it
		if key == "" {
			key = mcp.SkillPath(root)
		}
		f.native, f.skill, f.ok = key, skillTarget{uri: f.native, unlisted: true}, true
	}
	return f
}

// unsettled returns what may tell which skills an upstream has, if that is not known.
func (l Lens) unsettled(source int) doubt {
	switch state := &l.states[source]; {
	case state.heard && !state.lacks(skills) && !state.lacks(resources):
		return 0
	case l.c.sources[source].users != nil:
		return ofSource
	}
	return warming | ofSource
}

// shownSources returns the upstreams that the view may show something of, for a kind.
func (l Lens) shownSources(k kind) visible {
	sees := make(visible, len(l.c.sources))
	for i, s := range l.c.sources {
		sees[i] = l.view.About(k.policyKind(), s.naming.upstream)
	}
	return sees
}

// list returns a list as the view shows it.
func (l Lens) list(k kind) *listing { return l.lists[k].in(l.view, k, l.plan) }

// targetOf returns the target that policy decides on for a found item.
func (c *Catalog) targetOf(f found) mcp.Target {
	n := c.sources[f.source].naming
	switch {
	case f.kind == skills && f.skill.uri != "":
		return n.file(f.native, f.skill.uri)
	case f.skill.of != "":
		t := n.file(f.skill.of, f.native)
		t.Template = f.kind == templates
		return t
	}
	return n.target(f.kind, f.native)
}

// ask asks an upstream for its unknown lists: a per-user one on behalf of the caller of a call. The
// error says why something may be missing.
func (c *Catalog) ask(ctx context.Context, call *mcp.Call, s *source) error {
	if s.users != nil {
		return s.users.fetch(ctx, call, s)
	}
	s.ask(ctx)
	return nil
}

// unavailable returns the answer for an item that may be on a list that did not come.
func (c *Catalog) unavailable(s *source, k kind) error {
	name := s.naming.upstream
	if state := &c.snap.Load().states[s.index]; state.failure != "" && state.failed == failure.UpstreamDisabled {
		return mcp.ErrDisabled(name)
	}
	return mcp.UpstreamError(failure.UpstreamDown, name, mcp.ExecutedNo,
		"Upstream %s is not available: the gateway has no list of its %s. Try again in a minute; if it stays so, ask the operator to look at upstream %s.", name, k, name)
}

// Keeps reports whether a call of a client without a session may go to an upstream that
// keeps something for that client (Source.Keeps). It uses only what is known here and asks
// no upstream. It affects where a call is made, not whether: unknown counts as kept.
func (c *Catalog) Keeps(call *mcp.Call) bool {
	if call.Method == mcp.MethodListen {
		return c.keepsListened(call)
	}
	if mcp.IsTaskMethod(call.Method) {
		return c.keepsTask(call, call.Name)
	}
	switch kind := call.Kind(); {
	case kind == "":
		return false // lists, but see Differs, and other answers made from lists
	case kind == mcp.KindResources, kind == mcp.KindSkills && strings.Contains(call.Name, "://"):
		return c.keepsURI(c.lens(call), call.Name)
	default:
		f := c.lens(call).lookUp(kind, call.Name)
		return !f.ok || c.sources[f.source].keeps()
	}
}

func (c *Catalog) keepsURI(l Lens, uri string) bool {
	source, _, ok := l.uris.find(uri)
	return !ok || c.sources[source].keeps()
}

func (c *Catalog) keepsTask(call *mcp.Call, id string) bool {
	_, s, ok := c.openTask(id, &call.Caller)
	return !ok || s.keeps()
}

// Differs reports whether a call lists what upstreams may show otherwise in sessions that they
// keep for its client.
func (c *Catalog) Differs(call *mcp.Call) bool {
	_, ok := kindOf(call.Method)
	return ok && c.keepAny()
}

// keepAny reports whether any upstream keeps something for clients.
func (c *Catalog) keepAny() bool {
	return slices.ContainsFunc(c.sources, func(s *source) bool { return s.keeps() })
}

// keepsListened implements Keeps for subscriptions/listen: resources and tasks are followed in
// sessions at the upstreams, and lists may change there.
func (c *Catalog) keepsListened(call *mcp.Call) bool {
	want, err := mcp.FilterOf(call.Params)
	l := c.lens(call)
	return err != nil || want.Lists != 0 && c.keepAny() ||
		slices.ContainsFunc(want.URIs, func(uri string) bool { return c.keepsURI(l, uri) }) ||
		slices.ContainsFunc(want.Tasks, func(id string) bool { return c.keepsTask(call, id) })
}

// awaitLists waits a little for upstreams that have not answered yet: right after the start, and for
// per-user ones that the caller of a call may know of.
func (c *Catalog) awaitLists(ctx context.Context, call *mcp.Call) error {
	if err := c.wait(ctx); err != nil {
		return err
	}
	if err := c.awaitClass(ctx, call); err != nil || c.users == nil {
		return err
	}
	return c.users.look(ctx, call, c.plan.visibleTo(call))
}
