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
	if call, err = c.asTask(call, to); err != nil {
		return nil, err
	}
	s := c.sources[to.source]
	reply, err := c.forward(ctx, s, call, to.native)
	if err == nil && reply != nil && reply.Task {
		return c.handOut(s, call, to.native, reply)
	}
	return reply, err
}

// read routes resources/read by the URI.
func (c *Catalog) read(ctx context.Context, call *mcp.Call) (*mcp.Reply, error) {
	to, err := c.lookUpURI(ctx, resources, call)
	if err != nil {
		return nil, err
	}
	return c.forward(ctx, c.sources[to.source], call, to.native)
}

// complete routes completion/complete by what its ref refers to.
func (c *Catalog) complete(ctx context.Context, call *mcp.Call) (*mcp.Reply, error) {
	ref, _ := call.Params.Member("ref")
	kind, _ := ref.Member("type")
	var to target
	var err error
	switch kind.Text() {
	case "ref/prompt":
		to, err = c.lookUp(ctx, prompts, call)
	case "ref/resource":
		to, err = c.lookUpURI(ctx, templates, call)
	default:
		err = mcp.Errorf(mcp.CodeInvalidParams, "Unknown reference type: want ref/prompt or ref/resource")
	}
	if err != nil {
		return nil, err
	}
	// The client saw the merged capability, so an upstream without it has nothing to
	// suggest.
	none := &mcp.Reply{Result: mcp.Raw(`{"completion":{"values":[]}}`)}
	if state := c.view(&call.Caller).states[to.source]; state.heard && !state.offers.completions {
		return none, nil
	}
	reply, err := c.forward(ctx, c.sources[to.source], call, to.native)
	if errors.Is(err, &mcp.Error{Code: mcp.CodeMethodNotFound}) {
		return none, nil
	}
	return reply, err
}

// forward sends a call to its upstream under the original name, and brings back what
// it says with public URIs.
func (c *Catalog) forward(ctx context.Context, s *source, call *mcp.Call, native string) (*mcp.Reply, error) {
	inner := call.Clone()
	inner.Name = native
	inner.Notify = func(e mcp.Event) {
		// That a list changed is for our own watch; clients hear of it where they listen.
		if kinds := changedBy(e.Method); kinds != 0 {
			s.told(call.Caller, kinds)
			return
		}
		call.Notify(s.naming.event(e))
	}
	reply, err := s.upstream.Handle(ctx, inner)
	if err != nil {
		return nil, s.naming.failure(err)
	}
	return s.naming.reply(call.Method, reply), nil
}
