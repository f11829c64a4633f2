package catalog

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/gateway/catalog/fit"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Handle answers a call. It is the last handler of the chain. A method of a kind that
// no upstream offers does not exist.
func (c *Catalog) Handle(ctx context.Context, call *mcp.Call) (*mcp.Reply, error) {
	l := c.lensOf(call)
	k, isList := kindOf(call.Method)
	if isList { // the lens of the call may be old
		l = c.lens(call)
	}
	if k, ok := kindNeeded(call.Method); ok && !l.whole.offers.kinds.has(k) {
		return nil, mcp.ErrMethod(call.Method)
	}
	switch call.Method {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet:
		return l.callByName(ctx)
	case mcp.MethodResourcesRead:
		return l.read(ctx)
	case mcp.MethodSkillsGet:
		return l.skill(ctx)
	case mcp.MethodDirectoryRead:
		return l.directory(ctx)
	case mcp.MethodComplete:
		return l.complete(ctx)
	case mcp.MethodTasksGet, mcp.MethodTasksUpdate, mcp.MethodTasksCancel, mcp.MethodTasksResult:
		return l.task(ctx)
	case mcp.MethodListen:
		return c.listen(ctx, call)
	}
	if !isList && call.Method != mcp.MethodDiscover {
		return nil, mcp.ErrMethod(call.Method)
	}
	if err := c.awaitLists(ctx, call); err != nil {
		return nil, err
	}
	if isList {
		c.sessions.renew(ctx, call, setOf(k), true)
		return c.lens(call).page(k)
	}
	l = c.lens(call)
	sees, skillsOf := l.plan.visibleTo(call), l.plan.visible(call.VisibleSkills)
	return &mcp.Reply{Result: l.summaryFor(sees, skillsOf, l.view, call.Preface).result}, nil
}

// route finds what a call names. A call discloses nothing about an upstream unless
// policy has let it through to exactly this target. The upstream is asked for a list that did not come.
func (l Lens) route(ctx context.Context) (Lens, found, error) {
	c, call := l.c, l.call
	l, f := l.resolve(ctx, call.Kind(), call.Name)
	if err := l.check(ctx, f); err != nil || !f.unlisted {
		return l, f, err
	}
	s := c.sources[f.source]
	why := c.ask(ctx, call, s)
	l = c.lens(call)
	switch f = l.lookUp(call.Kind(), call.Name); {
	case !f.ok || !f.unlisted || ctx.Err() != nil:
		f.ok = f.ok && !f.unlisted
		return l, f, l.check(ctx, f)
	case why != nil:
		if e, ok := errors.AsType[*mcp.Error](why); ok {
			return l, f, e
		}
	}
	return l, f, c.unavailable(s, f.kind)
}

// routeURI is route for a URI that can be read, which a template cannot.
func (l Lens) routeURI(ctx context.Context) (Lens, found, error) {
	l, f, err := l.route(ctx)
	if err == nil && f.kind == templates {
		err = mcp.ErrUnknown(l.call.Method, l.call.Name)
	}
	return l, f, err
}

// check refuses a call if its name was not found, or its target differs from the one that policy
// decided on.
func (l Lens) check(ctx context.Context, f found) error {
	if f.ok && l.call.Target == l.c.targetOf(f) {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return mcp.ErrUnknown(l.call.Method, l.call.Name)
}

// callByName answers tools/call and prompts/get.
func (l Lens) callByName(ctx context.Context) (*mcp.Reply, error) {
	l, to, err := l.route(ctx)
	if err != nil {
		return nil, err
	}
	if err := checkParams(to.params, l.call); err != nil {
		return nil, err
	}
	call, err := l.asTask(to.target)
	if err != nil {
		return nil, err
	}
	s := l.c.sources[to.source]
	reply, err := forward(ctx, s, call, to.native)
	if err == nil && reply != nil && reply.Task {
		return l.c.handOut(s, call, to.native, reply)
	}
	return reply, err
}

// read answers resources/read.
func (l Lens) read(ctx context.Context) (*mcp.Reply, error) {
	l, to, err := l.routeURI(ctx)
	if err != nil {
		return nil, err
	}
	return forward(ctx, l.c.sources[to.source], l.call, to.native)
}

// complete answers completion/complete.
func (l Lens) complete(ctx context.Context) (*mcp.Reply, error) {
	if l.call.Kind() == "" {
		return nil, mcp.Errorf(failure.InvalidParams, "Unknown reference type: want ref/prompt or ref/resource")
	}
	l, to, err := l.route(ctx)
	if err != nil {
		return nil, err
	}
	// The client saw the merged capability, so an upstream without it has nothing to
	// suggest.
	none := &mcp.Reply{Result: mcp.Raw(`{"completion":{"values":[]}}`)}
	if state := l.states[to.source]; state.heard && !state.offers.completions {
		return none, nil
	}
	reply, err := forward(ctx, l.c.sources[to.source], l.call, to.native)
	switch {
	case mcp.HasCode(err, mcp.CodeMethodNotFound):
		return none, nil
	case err != nil || reply == nil || reply.Result == nil:
		return reply, err
	}
	result, err := fit.Completion(reply.Result)
	if err != nil {
		name := l.c.sources[to.source].naming.upstream
		return nil, mcp.UpstreamError(failure.UpstreamBadAnswer, name, mcp.ExecutedUnknown,
			"Upstream %s answered with what is no completion: %s", name, err)
	}
	return &mcp.Reply{Result: result}, nil
}

// skill answers skills/get. A URI may name an unlisted skill: a server answers for all its skills
// (SEP-2640, Retrieval).
func (l Lens) skill(ctx context.Context) (*mcp.Reply, error) {
	call := l.call
	_, byURI := mcp.SkillKey(call.Params)
	if !byURI && strings.Contains(call.Name, "://") {
		return nil, mcp.ErrUnknown(call.Method, call.Name)
	}
	l, to, err := l.route(ctx)
	if err != nil {
		return nil, err
	}
	inner := call.Clone()
	if byURI {
		inner.Params = call.Params.With("uri", mcp.String(to.skill.uri))
	} else if err := required(to.skill.arguments, call); err != nil {
		return nil, err
	} else {
		inner.Params = call.Params.With("name", mcp.String(to.native))
	}
	s := l.c.sources[to.source]
	reply, err := forward(ctx, s, inner, to.native)
	if err != nil || reply == nil || reply.Result == nil {
		return reply, err
	}
	root, _ := mcp.SkillRoot(to.skill.uri)
	name := to.native
	if to.skill.unlisted {
		name = mcp.SkillPath(root)
	}
	result, err := l.plan.skillResult(s.naming, reply.Result, name)
	if err != nil {
		return nil, mcp.UpstreamError(failure.UpstreamBadAnswer, s.naming.upstream, mcp.ExecutedUnknown,
			"Upstream %s described the skill in a way that cannot be shown: %s", s.naming.upstream, err)
	}
	return &mcp.Reply{Result: result}, nil
}

// required checks that the required arguments of a skill are present (SEP-2076 §6).
func required(names []string, call *mcp.Call) error {
	arguments, _ := call.Params.Member("arguments")
	for _, name := range names {
		if value, ok := arguments.Member(name); !ok || value.IsNull() {
			return mcp.Errorf(failure.InvalidParams, "Missing required argument %q of skill %s", name, call.Name)
		}
	}
	return nil
}

// forward sends a call to its upstream under the original name, and returns the reply with
// public URIs.
func forward(ctx context.Context, s *source, call *mcp.Call, native string) (*mcp.Reply, error) {
	inner := call.Clone()
	inner.Name = native
	inner.Notify = func(e mcp.Event) {
		// Changes of lists are for the source's watch; clients hear of them when they listen.
		if kinds := changedBy(e.Method); kinds != 0 {
			s.told(call.Caller, kinds)
			return
		}
		if e, ok := s.naming.event(e); ok {
			call.Notify(e)
		}
	}
	reply, err := s.upstream.Handle(ctx, inner)
	if err != nil {
		return nil, s.naming.failure(err)
	}
	return s.naming.reply(call.Method, reply), nil
}

// checkParams compares the headers of a call with its arguments, by the schema that the gateway
// lists (2026-07-28 basic/transports/streamable-http#server-behavior-for-custom-headers). It
// ignores headers that the schema does not define.
func checkParams(params []param, call *mcp.Call) error {
	if call.ParamHeaders == nil || len(params) == 0 {
		return nil
	}
	arguments, _ := call.Params.Member("arguments")
	for _, p := range params {
		sent, present := call.ParamHeaders[p.key]
		_, wanted := p.Value(arguments)
		switch {
		case wanted && !present:
			return mcp.Errorf(failure.HeaderMismatch, "Header Mcp-Param-%s is missing: it must repeat argument %s", p.Name,
				strings.Join(p.Path, "."))
		case !wanted && present:
			return mcp.Errorf(failure.HeaderMismatch, "Header Mcp-Param-%s must be absent: argument %s is null or absent",
				p.Name, strings.Join(p.Path, "."))
		case wanted && !p.Matches(sent, arguments):
			return mcp.Errorf(failure.HeaderMismatch, "Header Mcp-Param-%s does not match argument %s", p.Name,
				strings.Join(p.Path, "."))
		}
	}
	return nil
}

// page answers a list method. A page is the same for all users of an audience, but for the cursor of the
// next one.
func (l Lens) page(k kind) (*mcp.Reply, error) {
	c, call, list, at := l.c, l.call, l.list(k), 0
	if cursor, ok := call.Params.Member("cursor"); ok {
		var err error
		if at, err = openCursor(c, cursor, call, list); err != nil {
			return nil, err
		}
	}
	page := list.pages[at]
	if at < len(list.pages)-1 {
		next := sealCursor(c, at+1, call, list)
		page = page.WithNext(&next)
	}
	return &mcp.Reply{List: page}, nil
}

// A cursor is the number of a page, sealed and bound to the user, the method and the
// generation of the list. Nothing else opens: not an altered cursor, not one of another
// user or of an upstream, and not one of an older generation.

func sealCursor(c *Catalog, page int, call *mcp.Call, l *listing) string {
	return c.seal.Seal(binary.AppendUvarint(nil, uint64(page)), call.Caller.User(), call.Method, l.generation)
}

// openCursor returns the page that a cursor refers to.
func openCursor(c *Catalog, cursor mcp.Raw, call *mcp.Call, l *listing) (int, error) {
	invalid := mcp.Errorf(failure.InvalidCursor,
		"Invalid cursor: it is unknown, or the list has changed; start again without a cursor")
	sealed, ok := cursor.StringValue()
	if !ok {
		return 0, invalid
	}
	plain, err := c.seal.Open(sealed, call.Caller.User(), call.Method, l.generation)
	if err != nil {
		return 0, invalid
	}
	page, n := binary.Uvarint(plain)
	if n <= 0 || n != len(plain) || page >= uint64(len(l.pages)) {
		return 0, invalid
	}
	return int(page), nil
}
