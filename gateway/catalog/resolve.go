package catalog

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Resolve returns what a public name stands for: for tools and prompts the name; for
// resources a URI or, as completions refer to them, a URI template as listed; for kind
// mcp.KindTask the id of a task, which stands for the tool that made it. ok is false for
// names that nobody can have. A name with the prefix of an upstream whose list is unknown
// still resolves, so that policy decides before anything about that upstream is disclosed.
// Right after the start Resolve waits as a list would. Of the call, which may be for
// something else, it uses who makes it and what they declare.
func (c *Catalog) Resolve(ctx context.Context, call *mcp.Call, kind, public string) (to mcp.Target, ok bool) {
	var found target
	k := tools
	switch kind {
	case mcp.KindTools:
		found, ok = c.findName(ctx, call, k, c.fullName(ctx, call, k, public))
	case mcp.KindPrompts:
		k = prompts
		found, ok = c.findName(ctx, call, k, c.fullName(ctx, call, k, public))
	case mcp.KindSkills:
		k = skills
		found, ok = c.findSkill(ctx, call, public)
	case mcp.KindResources:
		found, k, ok = c.findURI(ctx, call, public)
	case mcp.KindTask:
		id, s, ok := c.openTask(public, &call.Caller)
		if !ok {
			return mcp.Target{}, false
		}
		return s.naming.target(tools, id.tool), true
	}
	if !ok {
		return mcp.Target{}, false
	}
	return c.targetOf(k, found), true
}

// InputSchema returns the input schema of a tool as the caller of a call sees it, nil for a
// tool that is on no list. It asks a per-user upstream for its list.
func (c *Catalog) InputSchema(ctx context.Context, call *mcp.Call, public string) mcp.Raw {
	public = c.fullName(ctx, call, tools, public)
	s := c.view(call)
	to, ok := s.named(tools, public)
	if !ok {
		missing, known := s.missing(tools, public)
		from := c.sources[missing.source]
		if !known || from.users == nil {
			return nil
		}
		s, _ = from.users.fetch(ctx, call, from)
		to, _ = c.sessions.laidOver(s, call).named(tools, public)
	}
	schema, _ := to.tool.Member("inputSchema")
	return schema
}

// Structured reports whether the caller of a call may have been told of an output schema of a
// tool, so that results need structured content. It asks no upstream: unknown counts as yes.
func (c *Catalog) Structured(call *mcp.Call, tool mcp.Target) bool {
	for i, n := range c.plan.namings {
		if n.upstream != tool.Upstream {
			continue
		}
		public, err := n.tool(tool.Name)
		to, ok := c.view(call).named(tools, public)
		if err != nil || !ok || to.source != i {
			return true
		}
		schema, _ := to.tool.Member("outputSchema")
		return schema != nil
	}
	return true
}

// targetOf returns the target that policy decides on for a name or URI.
func (c *Catalog) targetOf(k kind, to target) mcp.Target {
	n := c.sources[to.source].naming
	switch {
	case k == skills && to.skill.uri != "":
		return n.file(to.native, to.skill.uri)
	case to.skill.of != "":
		t := n.file(to.skill.of, to.native)
		t.Template = k == templates
		return t
	}
	return n.target(k, to.native)
}

// lookUp finds the public name of a call. A call discloses nothing about an upstream unless
// policy has let it through to exactly this target.
func (c *Catalog) lookUp(ctx context.Context, k kind, call *mcp.Call) (target, error) {
	name := c.fullName(ctx, call, k, call.Name)
	to, ok := c.findName(ctx, call, k, name)
	if err := c.check(ctx, k, to, ok, call); err != nil || !to.unlisted {
		return to, err
	}
	s := c.sources[to.source]
	var own *snapshot
	var why error
	if s.users != nil {
		own, why = s.users.fetch(ctx, call, s)
		own = c.sessions.laidOver(own, call)
	} else {
		s.ask(ctx)
		own = c.view(call)
	}
	if to, ok = own.named(k, name); ok {
		return to, c.check(ctx, k, to, ok, call)
	}
	if _, missing := own.missing(k, name); !missing || ctx.Err() != nil {
		return to, c.check(ctx, k, to, false, call)
	}
	if e, ok := errors.AsType[*mcp.Error](why); ok {
		return to, e
	}
	return to, c.unavailable(s, k)
}

// unavailable is the answer for an item that may be on a list that did not come.
func (c *Catalog) unavailable(s *source, k kind) error {
	name := s.naming.upstream
	if state := &c.snap.Load().states[s.index]; state.failure != "" && state.failed == failure.UpstreamDisabled {
		return mcp.ErrDisabled(name)
	}
	return mcp.UpstreamError(failure.UpstreamDown, name, mcp.ExecutedNo,
		"Upstream %s is not available: the gateway has no list of its %s. Try again in a minute; if it stays so, ask the operator to look at upstream %s.", name, k, name)
}

// lookUpURI finds the URI of a call. It may be a template only if k is templates.
func (c *Catalog) lookUpURI(ctx context.Context, k kind, call *mcp.Call) (target, error) {
	to, found, ok := c.findURI(ctx, call, call.Name)
	ok = ok && (found == resources || k == templates)
	return to, c.check(ctx, found, to, ok, call)
}

// check refuses a call whose name was not found, or whose target differs from the one that
// policy decided on.
func (c *Catalog) check(ctx context.Context, k kind, to target, ok bool, call *mcp.Call) error {
	if ok && call.Target == c.targetOf(k, to) {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return mcp.ErrUnknown(call.Method, call.Name)
}

// findName finds a public name of a tool or prompt. Right after the start it waits, as a
// list would, for the upstream that the name may belong to. It asks a per-user upstream
// only if the name alone does not tell what it stands for: policy decides before anything
// is done there.
func (c *Catalog) findName(ctx context.Context, call *mcp.Call, k kind, public string) (target, bool) {
	s := c.view(call)
	if to, ok := s.named(k, public); ok {
		return to, true
	}
	to, missing := s.missing(k, public)
	if !missing {
		if c.awaitClass(ctx, call) != nil { // the client may be the first of its class
			return target{}, false
		}
		c.sessions.renew(ctx, call, setOf(k), false) // only its session may have it
		return c.view(call).named(k, public)
	}
	switch from := c.sources[to.source]; {
	case from.users == nil:
		if c.wait(ctx) != nil {
			return target{}, false
		}
		s = c.view(call)
	case mayBeClosed(public), k == skills: // policy has to know the original name or URI
		s, _ = from.users.fetch(ctx, call, from)
		s = c.sessions.laidOver(s, call)
	default:
		return to, true
	}
	if to, ok := s.named(k, public); ok {
		return to, true
	}
	return s.missing(k, public)
}

// fullName returns the full name of what a call's view may have shortened. Names that mean
// nothing there are returned as they are. Like a list, it waits right after the start, and asks
// per-user upstreams of which the view may show something.
func (c *Catalog) fullName(ctx context.Context, call *mcp.Call, k kind, name string) string {
	v := c.plan.viewOf(call)
	if v == nil || !v.Shortens() || k != tools && k != prompts {
		return name
	}
	s := c.view(call)
	if full, ok := s.shortened(k, call, name); ok {
		return full
	}
	if _, ok := s.named(k, name); ok || c.wait(ctx) != nil || c.awaitClass(ctx, call) != nil {
		return name
	}
	c.sessions.renew(ctx, call, setOf(k), false)
	s = c.view(call)
	if c.users != nil {
		sees := make(visible, len(c.sources))
		for i, source := range c.sources {
			sees[i] = v.About(k.policyKind(), source.naming.upstream)
		}
		var err error
		if s, err = c.users.look(ctx, call, sees); err != nil {
			return name
		}
		s = c.sessions.laidOver(s, call)
	}
	if full, ok := s.shortened(k, call, name); ok {
		return full
	}
	return name
}

// findURI finds the upstream of a public URI or of a template, that is, a text with an
// expression that is not a listed resource. It does not ask an upstream that certainly has
// no resources.
func (c *Catalog) findURI(ctx context.Context, call *mcp.Call, public string) (to target, k kind, ok bool) {
	s := c.view(call)
	source, native, ok := s.uris.find(public)
	if !ok && c.wait(ctx) == nil { // an upstream that has not answered yet may list it
		s = c.view(call)
		source, native, ok = s.uris.find(public)
	}
	if !ok {
		c.sessions.renew(ctx, call, setOf(resources, templates), false)
		s = c.view(call)
		source, native, ok = s.uris.find(public)
	}
	if !ok {
		return to, resources, false
	}
	to, k = target{source: source, native: native}, resources
	state := &s.states[source]
	if state.offers.kinds.has(skills) || strings.HasPrefix(strings.ToLower(native), mcp.SkillScheme) {
		c.sessions.renew(ctx, call, setOf(skills), false) // it may be a file of a skill that only its session has
		state = &c.view(call).states[source]
	}
	of, certain := state.skillOf(native)
	if !certain {
		state = c.settle(ctx, call, source)
		if of, certain = state.skillOf(native); !certain {
			return to, k, false
		}
	}
	if strings.Contains(native, "{") {
		listed := s.plan.namings[source].uri(native)
		if _, ok := state.lists[resources].find(listed); !ok {
			k = templates
			if _, ok := state.lists[templates].find(listed); !ok && state.lists[templates] != nil {
				return to, k, false // the client made it up
			}
		}
	}
	to.skill.of = of
	return to, k, !state.heard || state.offers.kinds.has(resources)
}

// Keeps reports whether a call of a client without a session may go to an upstream that
// keeps something for that client (Source.Keeps). It uses only what is known here and asks
// no upstream. It affects where a call is made, not whether: unknown counts as kept.
func (c *Catalog) Keeps(call *mcp.Call) bool {
	switch call.Method {
	case mcp.MethodToolsCall:
		return c.keepsNamed(tools, call)
	case mcp.MethodPromptsGet:
		return c.keepsNamed(prompts, call)
	case mcp.MethodResourcesRead, mcp.MethodDirectoryRead:
		return c.keepsURI(call, call.Name)
	case mcp.MethodSkillsGet:
		if _, byURI := mcp.SkillKey(call.Params); byURI {
			return c.keepsURI(call, call.Name)
		}
		return c.keepsNamed(skills, call)
	case mcp.MethodComplete:
		ref, _ := call.Params.Member("ref")
		if kind, _ := ref.Member("type"); kind.Text() == "ref/prompt" {
			return c.keepsNamed(prompts, call)
		}
		return c.keepsURI(call, call.Name)
	case mcp.MethodListen:
		return c.keepsListened(call)
	}
	if !mcp.IsTaskMethod(call.Method) {
		return false // lists, but see Differs, and other answers made from lists
	}
	return c.keepsTask(call, call.Name)
}

func (c *Catalog) keepsNamed(k kind, call *mcp.Call) bool {
	s := c.view(call)
	name := call.Name
	if full, ok := s.shortened(k, call, name); ok {
		name = full
	}
	to, ok := s.named(k, name)
	if !ok {
		to, ok = s.missing(k, name)
	}
	return !ok || c.sources[to.source].keeps()
}

func (c *Catalog) keepsURI(call *mcp.Call, uri string) bool {
	source, _, ok := c.view(call).uris.find(uri)
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

// keepsListened implements Keeps for subscriptions/listen, whose resources and tasks are
// followed in sessions at the upstreams, and lists, which may change there.
func (c *Catalog) keepsListened(call *mcp.Call) (keeps bool) {
	want, _ := mcp.FilterOf(call.Params)
	if want.Lists != 0 && c.keepAny() {
		return true
	}
	filter, _ := call.Params.Member("notifications")
	uris, _ := filter.Member("resourceSubscriptions")
	uris.Elements(func(uri mcp.Raw) bool {
		keeps = c.keepsURI(call, uri.Text())
		return !keeps
	})
	tasks, _ := filter.Member("taskIds")
	tasks.Elements(func(id mcp.Raw) bool {
		keeps = keeps || c.keepsTask(call, id.Text())
		return !keeps
	})
	return keeps
}

// uriIndex finds the upstream of a URI. An upstream's name in the URI decides, whether the
// URI is listed or not: it may come from a template or a tool. Unmarked URIs belong to the
// upstreams that keep their URIs unchanged, if there are any. Otherwise such a URI counts
// as copied from some text, and is accepted if exactly one upstream lists it. Upstreams are
// never tried one after the other.
type uriIndex struct {
	plan    *plan
	kept    map[string]int      // listed by upstreams that keep their URIs unchanged
	copied  map[string]int      // originals listed by the others
	spelled []map[string]string // by upstream: originals whose scheme has capitals, by what clients may make of them
	keepers []keeper            // upstreams that keep their URIs unchanged and may have resources
}

type keeper struct {
	source   int
	literals []string // the beginnings of its templates
}

func newURIIndex(p *plan, states []sourceState) uriIndex {
	x := uriIndex{plan: p, kept: make(map[string]int), copied: make(map[string]int), spelled: make([]map[string]string, len(states))}
	for i, state := range states {
		plain := p.namings[i].plain()
		into := x.copied
		if plain {
			into = x.kept
			if !state.heard || state.offers.kinds.has(resources) {
				x.keepers = append(x.keepers, keeper{source: i})
			}
		}
		for _, k := range [...]kind{resources, templates} {
			for _, list := range state.every(k) { // a URI has the same upstream for all classes
				for _, e := range list.entries {
					if owner, taken := into[e.native]; taken && owner != i {
						into[e.native] = conflict
					} else {
						into[e.native] = i
					}
					if low := lowerScheme(e.native); low != e.native {
						if x.spelled[i] == nil {
							x.spelled[i] = make(map[string]string)
						}
						x.spelled[i][low] = e.native
					}
					if plain && k == templates && len(x.keepers) > 0 {
						last := &x.keepers[len(x.keepers)-1]
						literal, _, _ := strings.Cut(e.native, "{")
						last.literals = append(last.literals, literal)
					}
				}
			}
		}
	}
	return x
}

// find returns the upstream of a public URI and the URI as that upstream knows it.
func (x *uriIndex) find(public string) (source int, native string, ok bool) {
	if source, native, ok = x.split(public); ok {
		if listed, differs := x.spelled[source][native]; differs {
			native = listed
		}
	}
	return source, native, ok
}

func (x *uriIndex) split(public string) (source int, native string, ok bool) {
	if tag, native, whole := splitURI(public); tag != "" {
		if source, ok := x.plan.tagged[tag]; ok {
			return source, native, whole
		}
	}
	if source, ok := x.kept[public]; ok {
		return source, public, source != conflict
	}
	switch len(x.keepers) {
	case 0:
		source, ok := x.copied[public]
		return source, public, ok && source != conflict
	case 1:
		return x.keepers[0].source, public, public != ""
	}
	source = conflict
	for _, k := range x.keepers {
		if !k.matches(public) {
			continue
		}
		if source != conflict {
			return conflict, "", false
		}
		source = k.source
	}
	return source, public, source != conflict
}

// matches reports whether a URI could be an expansion of one of the upstream's templates.
func (k keeper) matches(uri string) bool {
	for _, literal := range k.literals {
		if strings.HasPrefix(uri, literal) {
			return true
		}
	}
	return false
}
