package policy

import (
	"context"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// task lets a caller follow a task as long as they may see the tool that made it: the call
// itself, with its arguments and approval, was decided when it was made. A caller who may not
// see the tool any more gets the answer for a task that does not exist; the task keeps
// running.
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
