package policy

import (
	"context"
	"slices"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// listen lets a caller hear of resources that they may read, of tasks that they may
// follow, and of lists of upstreams that they may know of; who is told that a list changed
// is up to gateway/feature/listchange. Everything else is left out, and so missing in the acknowledgement, as what
// does not exist is. Resources that are read only with the user's approval are left out
// too: nobody is asked about what may happen later.
func (g *Guard) listen(ctx context.Context, c *mcp.Call, next mcp.Handler) (*mcp.Reply, error) {
	inner := bare(c)
	inner.Visible = g.policy.upstreams(&c.Caller)
	if g.policy.open() {
		return next.Handle(ctx, inner)
	}
	want, err := mcp.FilterOf(c.Params)
	if err != nil {
		return nil, err
	}
	want.URIs = slices.DeleteFunc(want.URIs, func(uri string) bool { return !g.mayRead(ctx, c, uri) })
	want.Tasks = slices.DeleteFunc(want.Tasks, func(id string) bool { return !g.mayFollow(ctx, c, id) })
	inner.Params = want.In(c.Params)
	inner.Notify = func(e mcp.Event) {
		switch e.Method {
		case mcp.NoteResourceUpdated:
			// An upstream may tell of a part of what was subscribed to, by its own URI.
			if uri, ok := e.Params.Member("uri"); !ok || !g.mayRead(ctx, c, uri.Text()) {
				return
			}
		case mcp.NoteTask:
			if id, _ := e.Params.Member("taskId"); !g.mayFollow(ctx, c, id.Text()) {
				return
			}
		}
		c.Notify(e)
	}
	return next.Handle(ctx, inner)
}

// mayRead reports whether the caller may read a resource without being asked.
func (g *Guard) mayRead(ctx context.Context, c *mcp.Call, uri string) bool {
	target, ok := g.resolver.Resolve(ctx, mcp.KindResources, uri)
	return ok && !target.Template && g.policy.Decide(ctx, &c.Caller, target, nil).Effect == Allow
}

// upstreams returns which upstreams the caller may know of: those of which rules allow
// something and do not deny all. Nil for all of them. The function is to be called for
// upstreams that exist: what it says is remembered.
func (p *Policy) upstreams(caller *mcp.Caller) func(upstream string) bool {
	if p.open() {
		return nil
	}
	c := p.subjectOf(caller).class
	return func(upstream string) bool {
		if known, ok := c.upstreams.Load(upstream); ok {
			return known == true
		}
		visible := slices.ContainsFunc(kinds, func(kind string) bool { return p.offers(c, mcp.Target{Kind: kind, Upstream: upstream}) })
		c.upstreams.Store(upstream, visible)
		return visible
	}
}

// offers reports whether something of a kind and upstream could be allowed to a class.
func (p *Policy) offers(c *callerClass, of mcp.Target) bool {
	allowed := p.fallback == Allow
	for _, s := range c.rules {
		about := func(effect Effect, whole bool) bool {
			return slices.ContainsFunc(s.patterns[effect], func(p pattern) bool { return p.of(of) && (!whole || p.name.all()) })
		}
		result := isTrue
		switch {
		case s.broken:
			result = failed
		case s.open:
			result, _ = s.when.eval(context.Background(), facts{subject: c.who, target: &of, nameless: true})
		}
		switch {
		case result == isTrue && about(Deny, true), result == failed && (about(Deny, true) || about(Ask, true)):
			return false
		case result == isTrue || result == isOpen:
			allowed = allowed || about(Allow, false)
		}
	}
	return allowed
}
