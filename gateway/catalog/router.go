package catalog

import (
	"context"
	"errors"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// callByName routes tools/call and prompts/get by the table of public names.
func (c *Catalog) callByName(ctx context.Context, call *mcp.Call) (*mcp.Reply, error) {
	k := tools
	if call.Method == mcp.MethodPromptsGet {
		k = prompts
	}
	to, err := c.lookUp(ctx, k, call)
	if err != nil {
		return nil, err
	}
	if err := checkParams(to.params, call); err != nil {
		return nil, err
	}
	return c.forward(ctx, c.sources[to.source], call, to.native)
}

// read routes resources/read by the URI.
func (c *Catalog) read(ctx context.Context, call *mcp.Call) (*mcp.Reply, error) {
	to, native, ok := c.findURI(ctx, call.Name)
	if !ok {
		return nil, mcp.ErrUnknown(call.Method, call.Name)
	}
	return c.forward(ctx, c.sources[to], call, native)
}

// complete routes completion/complete by what its ref refers to.
func (c *Catalog) complete(ctx context.Context, call *mcp.Call) (*mcp.Reply, error) {
	ref, _ := call.Params.Member("ref")
	kind, _ := ref.Member("type")
	var to target
	switch kind.Text() {
	case "ref/prompt":
		var err error
		if to, err = c.lookUp(ctx, prompts, call); err != nil {
			return nil, err
		}
	case "ref/resource":
		source, native, ok := c.findURI(ctx, call.Name)
		if !ok {
			return nil, mcp.ErrUnknown(call.Method, call.Name)
		}
		to = target{source: source, native: native}
	default:
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "Unknown reference type: want ref/prompt or ref/resource")
	}
	// The client saw the merged capability, so an upstream without it has nothing to
	// suggest.
	none := &mcp.Reply{Result: mcp.Raw(`{"completion":{"values":[]}}`)}
	if state := c.snap.Load().states[to.source]; state.heard && !state.offers.completions {
		return none, nil
	}
	reply, err := c.forward(ctx, c.sources[to.source], call, to.native)
	if errors.Is(err, &mcp.Error{Code: mcp.CodeMethodNotFound}) {
		return none, nil
	}
	return reply, err
}

// lookUp finds a public name. Right after the start it gives the upstream that the
// name may belong to the time to answer that a list would.
func (c *Catalog) lookUp(ctx context.Context, k kind, call *mcp.Call) (target, error) {
	s := c.snap.Load()
	to, ok := s.named(k, call.Name)
	if ok {
		return to, nil
	}
	source, missing := s.missing(k, call.Name)
	if missing {
		if err := c.wait(ctx); err != nil {
			return to, err
		}
		s = c.snap.Load()
		if to, ok = s.named(k, call.Name); ok {
			return to, nil
		}
		source, missing = s.missing(k, call.Name)
	}
	if !missing {
		return to, mcp.ErrUnknown(call.Method, call.Name)
	}
	name := s.plan.namings[source].upstream
	return to, mcp.UpstreamError(mcp.CodeUpstreamUnreachable, name, mcp.ExecutedNo,
		"Upstream %s is not available: the gateway has no list of its %s. Try again in a minute; if it stays so, ask the operator to look at upstream %s.", name, k, name)
}

func (s *snapshot) named(k kind, public string) (target, bool) {
	table := s.tools
	if k == prompts {
		table = s.prompts
	}
	to, ok := table[public]
	return to, ok
}

// findURI finds the upstream of a URI. One that certainly has no resources is not
// asked for any.
func (c *Catalog) findURI(ctx context.Context, public string) (source int, native string, ok bool) {
	s := c.snap.Load()
	source, native, ok = s.uris.find(public)
	if !ok && c.wait(ctx) == nil { // it may be listed by an upstream that is still to answer
		s = c.snap.Load()
		source, native, ok = s.uris.find(public)
	}
	if !ok {
		return 0, "", false
	}
	state := &s.states[source]
	return source, native, !state.heard || state.offers.kinds.has(resources)
}

// forward sends a call to its upstream under the original name, and brings back what
// it says with public URIs.
func (c *Catalog) forward(ctx context.Context, s *source, call *mcp.Call, native string) (*mcp.Reply, error) {
	inner := call.Clone()
	inner.Name = native
	notify := call.Notify
	inner.Notify = func(e mcp.Event) {
		// That a list changed is for our own watch; clients hear of it where they listen.
		if kinds := changedBy(e.Method); kinds != 0 {
			s.changes.add(kinds)
			return
		}
		notify(s.naming.event(e))
	}
	reply, err := s.upstream.Handle(ctx, inner)
	if err != nil {
		return nil, s.naming.failure(err)
	}
	return s.naming.reply(call.Method, reply), nil
}
