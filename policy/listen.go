package policy

import (
	"context"
	"slices"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// listen lets a caller subscribe to resources that they may read, tasks that they may follow, and
// lists of upstreams that they may know of; gateway/feature/listchange decides who hears of a
// changed list. Everything else is removed, and therefore missing in the acknowledgement, as if it
// did not exist. Resources that can only be read with the user's approval are removed too: users
// are not asked about later events.
func (g *Guard) listen(ctx context.Context, c *mcp.Call, next mcp.Handler) (*mcp.Reply, error) {
	inner := g.withVisible(c)
	if g.policy.openTo(&c.Caller) {
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
			// An upstream may report a part of the subscribed resource, with a URI of its own.
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

// mayRead reports whether the caller may read a resource without an approval.
func (g *Guard) mayRead(ctx context.Context, c *mcp.Call, uri string) bool {
	target, ok := c.Lens.Now().Target(ctx, mcp.KindResources, uri)
	return ok && !target.Template && g.policy.Decide(ctx, &c.Caller, target, nil).Effect == Allow
}

// upstreams returns a function that reports whether the caller may know of something of these
// kinds, or of any kind, at an upstream: rules allow some of it and do not deny all of it. It is
// nil if the caller may know of all. Call the function only with upstreams that exist: it caches
// its results.
func (p *Policy) upstreams(caller *mcp.Caller, of ...string) func(upstream string) bool {
	if p.openTo(caller) {
		return nil
	}
	if of == nil {
		of = kinds
	}
	c := p.subjectOf(caller).class
	return func(upstream string) bool {
		key := mcp.Target{Kind: of[0], Upstream: upstream}
		if len(of) > 1 {
			key.Kind = ""
		}
		if known, ok := c.upstreams.Load(key); ok {
			return known == true
		}
		visible := slices.ContainsFunc(of,
			func(kind string) bool { return p.offers(c, mcp.Target{Kind: kind, Upstream: upstream}) })
		c.upstreams.Store(key, visible)
		return visible
	}
}

// Knows reports whether a caller may know of an upstream: could be allowed something of it.
func (p *Policy) Knows(caller *mcp.Caller, upstream string) bool {
	sees := p.upstreams(caller)
	return sees == nil || sees(upstream)
}

// offers reports whether a class of callers could be allowed something of this kind and
// upstream.
func (p *Policy) offers(c *callerClass, of mcp.Target) bool {
	allowed := p.fallback == Allow
	if c.frame != nil && !slices.ContainsFunc(c.frame.shows, func(p pattern) bool { return p.of(of) }) {
		return false
	}
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
