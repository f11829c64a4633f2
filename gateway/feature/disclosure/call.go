package disclosure

import (
	"context"
	"log/slog"
	"slices"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// call passes a call on if its caller has fetched the description of the tool. Errors about
// tools that do not exist for the caller are left to the stages below.
func (s stage) call(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	if c.Name == ToolName {
		return s.callOwn(ctx, c)
	}
	to, ok := c.Lens.Target(ctx, mcp.KindTools, c.Name)
	if !ok || !s.profile.minimal[to.Upstream] {
		return s.next.Handle(ctx, c)
	}
	if !goesOn(c) {
		if refusal, err := s.check(ctx, c, to); refusal != nil || err != nil {
			return refusal, err
		}
	}
	if c.ParamHeaders != nil { // the client does not know the schema that defines these headers
		c = c.Clone()
		c.ParamHeaders = nil
	}
	return s.next.Handle(ctx, c)
}

// goesOn reports whether the call is a later round of a call that was passed on. Clients
// without sessions prove that with a requestState sealed for them; for other clients the front end
// itself comes back.
func goesOn(c *mcp.Call) bool {
	return len(c.Round) > 0 || c.Refused != nil || c.Answers != nil && !c.Ephemeral
}

// check returns the refusal of a call to a tool that is not described yet, nil for a call that may
// pass. The tool is the target, under any of its names.
func (s stage) check(ctx context.Context, c *mcp.Call, to mcp.Target) (*mcp.Reply, error) {
	all, err := s.tools(ctx, c)
	at := slices.IndexFunc(all, func(item mcp.Item) bool { return item.Target == to })
	if at < 0 {
		return nil, err
	}
	tool := all[at]
	granted, err := s.grants.Granted(ctx, c.Session, c.Name, s.digest(tool))
	if err != nil { // this is no security boundary, and calls must go on
		s.log.DebugContext(ctx, "it is not known which descriptions were shown", slog.Any("error", err))
		return nil, nil
	}
	if granted {
		return nil, nil
	}
	s.metrics.refused.Inc()
	// The refusal carries the description, and the next call passes: a detour through the
	// resource would tell the model nothing more.
	body := required(c.Name).With("tool_descriptions", mcp.Object(c.Name, s.full(tool)))
	s.grantTo(ctx, c, map[string]string{c.Name: s.digest(tool)})
	return &mcp.Reply{Result: mcp.ToolResult(true, mcp.TextContent(string(body)))}, nil
}

// required returns the answer to a call before its tool's description was fetched (2.1 §6.2).
func required(tool string) mcp.Raw {
	return mcp.Object("error", mcp.Object("code", mcp.Raw(`"TOOL_DESCRIPTION_REQUIRED"`),
		"message", mcp.String("Tool '"+tool+"' requires fetching its description before use."),
		"resource_uri", mcp.String(URI+"?tools="+escaped(tool))))
}

// callOwn answers a call of describe_tools.
func (s stage) callOwn(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	if c.Task != nil {
		return nil, mcp.Errorf(failure.NoTask, "Tool %s does not run as a task", ToolName)
	}
	answer, err := s.describe(ctx, c, named(c.Params), missingNames())
	if err != nil {
		return nil, err
	}
	return &mcp.Reply{Result: mcp.ToolResult(answer.error, mcp.TextContent(string(answer.body)))}, nil
}
