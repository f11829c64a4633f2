package disclosure

import (
	"context"
	"log/slog"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// call lets a call through whose caller has fetched the description of the tool. What
// does not exist for the caller is left to those below to say.
func (s stage) call(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	if c.Name == ToolName {
		return s.callOwn(ctx, c)
	}
	to, ok := s.resolver.Resolve(ctx, mcp.KindTools, c.Name)
	if !ok || !s.profile.minimal[to.Upstream] {
		return s.next.Handle(ctx, c)
	}
	if !goesOn(c) {
		if refusal, err := s.check(ctx, c); refusal != nil || err != nil {
			return refusal, err
		}
	}
	if c.ParamHeaders != nil { // the client does not know the schema by which it would send them
		c = c.Clone()
		c.ParamHeaders = nil
	}
	return s.next.Handle(ctx, c)
}

// goesOn reports whether the call is a later round of one that was let through. Clients
// without sessions show that by a state that was sealed for them; for others it is the
// front that comes back.
func goesOn(c *mcp.Call) bool {
	return c.State != "" || c.Refused != nil || c.Answers != nil && !c.Ephemeral
}

// check returns the refusal of a call whose tool is not described yet, nil for one that
// may go on.
func (s stage) check(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	var tool *mcp.Item
	err := s.eachTool(ctx, c, func() { tool = nil }, func(item mcp.Item) bool {
		if item.Name == c.Name {
			tool = &item
		}
		return tool == nil
	})
	if err != nil || tool == nil {
		return nil, err
	}
	granted, err := s.grants.Granted(ctx, c.Session, c.Name, s.digest(*tool))
	if err != nil { // no security hangs on it, and calls do
		s.log.DebugContext(ctx, "it is not known which descriptions were shown", slog.Any("error", err))
		return nil, nil
	}
	if granted {
		return nil, nil
	}
	s.metrics.refused.Inc()
	// The description comes at once, and the next call passes: a way round by the resource
	// would tell the model nothing more.
	body := required(c.Name).With("tool_descriptions", mcp.Object(c.Name, s.full(*tool)))
	s.grantTo(ctx, c, map[string]string{c.Name: s.digest(*tool)})
	return &mcp.Reply{Result: textResult(body, true)}, nil
}

// required is the answer to a call before its description was fetched (2.1 §6.2).
func required(tool string) mcp.Raw {
	return mcp.Object("error", mcp.Object("code", mcp.Raw(`"TOOL_DESCRIPTION_REQUIRED"`),
		"message", mcp.String("Tool '"+tool+"' requires fetching its description before use."),
		"resource_uri", mcp.String(URI+"?tools="+escaped(tool))))
}

// callOwn answers a call of our tool.
func (s stage) callOwn(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	if c.Task != nil {
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "Tool %s does not run as a task", ToolName)
	}
	answer, err := s.describe(ctx, c, named(c.Params), missingNames())
	if err != nil {
		return nil, err
	}
	return &mcp.Reply{Result: textResult(answer.body, answer.error)}, nil
}

// textResult is the result of a tool that says just this.
func textResult(body mcp.Raw, isError bool) mcp.Raw {
	result := mcp.Object("content", mcp.Raw(`[{"type":"text","text":`+string(mcp.String(string(body)))+`}]`))
	if isError {
		result = result.With("isError", mcp.Raw("true"))
	}
	return result
}
