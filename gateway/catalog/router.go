package catalog

import (
	"bytes"
	"context"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/gateway/catalog/fit"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// callByName routes tools/call and prompts/get by the table of public names.
func (c *Catalog) callByName(ctx context.Context, call *mcp.Call) (*mcp.Reply, error) {
	l, to, err := c.route(ctx, call)
	if err != nil {
		return nil, err
	}
	if err := checkParams(to.params, call); err != nil {
		return nil, err
	}
	if call, err = l.asTask(call, to.target); err != nil {
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
	_, to, err := c.routeURI(ctx, call)
	if err != nil {
		return nil, err
	}
	return c.forward(ctx, c.sources[to.source], call, to.native)
}

// routeURI is route for what can be read, which a template cannot.
func (c *Catalog) routeURI(ctx context.Context, call *mcp.Call) (Lens, found, error) {
	l, f, err := c.route(ctx, call)
	if err == nil && f.kind == templates {
		err = mcp.ErrUnknown(call.Method, call.Name)
	}
	return l, f, err
}

// complete routes completion/complete by its ref.
func (c *Catalog) complete(ctx context.Context, call *mcp.Call) (*mcp.Reply, error) {
	if call.Kind() == "" {
		return nil, mcp.Errorf(failure.InvalidParams, "Unknown reference type: want ref/prompt or ref/resource")
	}
	l, to, err := c.route(ctx, call)
	if err != nil {
		return nil, err
	}
	// The client saw the merged capability, so an upstream without it has nothing to
	// suggest.
	none := &mcp.Reply{Result: mcp.Raw(`{"completion":{"values":[]}}`)}
	if state := l.states[to.source]; state.heard && !state.offers.completions {
		return none, nil
	}
	reply, err := c.forward(ctx, c.sources[to.source], call, to.native)
	switch {
	case mcp.HasCode(err, mcp.CodeMethodNotFound):
		return none, nil
	case err != nil || reply == nil || reply.Result == nil:
		return reply, err
	}
	result, err := fit.Completion(reply.Result)
	if err != nil {
		name := c.sources[to.source].naming.upstream
		return nil, mcp.UpstreamError(failure.UpstreamBadAnswer, name, mcp.ExecutedUnknown, "Upstream %s answered with what is no completion: %s", name, err)
	}
	return &mcp.Reply{Result: result}, nil
}

// forward sends a call to its upstream under the original name, and returns the reply with
// public URIs.
func (c *Catalog) forward(ctx context.Context, s *source, call *mcp.Call, native string) (*mcp.Reply, error) {
	inner := call.Clone()
	inner.Name = native
	inner.Notify = func(e mcp.Event) {
		// Changes of lists are for our own watch; clients are told of them when they
		// listen.
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

// param is a parameter that clients of 2026-07-28 mirror into a header.
type param struct {
	wire.ParamHeader
	key string // its name in Call.ParamHeaders
}

// mirrored returns the mirrored parameters of a tool. An error means that its annotations
// break the rules; clients must drop such a tool, and so does the gateway.
func mirrored(tool mcp.Raw) ([]param, error) {
	if !bytes.Contains(tool, []byte("x-mcp-header")) {
		return nil, nil
	}
	schema, _ := tool.Member("inputSchema")
	headers, err := wire.ParamHeaders(schema)
	if err != nil {
		return nil, err
	}
	params := make([]param, len(headers))
	for i, h := range headers {
		params[i] = param{h, strings.ToLower(h.Name)}
	}
	return params, nil
}

// checkParams compares the headers of a call with its arguments, by the schema that we list
// (2026-07-28 basic/transports/streamable-http#server-behavior-for-custom-headers). It
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
			return mcp.Errorf(failure.HeaderMismatch, "Header Mcp-Param-%s is missing: it must repeat argument %s", p.Name, strings.Join(p.Path, "."))
		case !wanted && present:
			return mcp.Errorf(failure.HeaderMismatch, "Header Mcp-Param-%s must be absent: argument %s is null or absent", p.Name, strings.Join(p.Path, "."))
		case wanted && !p.Matches(sent, arguments):
			return mcp.Errorf(failure.HeaderMismatch, "Header Mcp-Param-%s does not match argument %s", p.Name, strings.Join(p.Path, "."))
		}
	}
	return nil
}
