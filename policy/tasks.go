package policy

import (
	"context"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// task lets a caller follow a task as long as they may see the tool that made it: the
// call itself was decided on, with its arguments and the user's approval, when it was
// made. Whoever may not see the tool any more is answered as for a task that does not
// exist; the task itself runs on.
func (g *Guard) task(ctx context.Context, c *mcp.Call, next mcp.Handler) (*mcp.Reply, error) {
	target, ok := g.resolver.Resolve(ctx, mcp.KindTask, c.Name)
	if !ok || !g.policy.Visible(&c.Caller, target) {
		return g.unknown(ctx, c, next)
	}
	if ctx.Err() != nil {
		return g.letGo(ctx, c, next, target)
	}
	round, err := openState(c.State)
	if err != nil {
		return nil, err
	}
	return g.pass(ctx, c, next, target, round, "")
}

// mayFollow reports whether the caller may hear of a task.
func (g *Guard) mayFollow(ctx context.Context, c *mcp.Call, id string) bool {
	target, ok := g.resolver.Resolve(ctx, mcp.KindTask, id)
	return ok && g.policy.Visible(&c.Caller, target)
}
