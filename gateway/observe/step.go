package observe

import (
	"context"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Step records the next stage as a step of the call's trail. The step ends where another one
// begins, or with the answer of the stage.
func Step(name string) mcp.Middleware {
	return func(next mcp.Handler) mcp.Handler {
		return mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
			if c.Trail == nil {
				return next.Handle(ctx, c)
			}
			step := c.Trail.Stage(name)
			reply, err := next.Handle(ctx, c)
			step.End(resultOf(reply, err))
			return reply, err
		})
	}
}

// resultOf describes the answer of a stage, "" for a result.
func resultOf(reply *mcp.Reply, err error) string {
	switch {
	case err != nil:
		return mcp.FailureOf(err).String()
	case reply != nil && reply.Ask != nil:
		return outcomes[outcomeAsk]
	}
	return ""
}
