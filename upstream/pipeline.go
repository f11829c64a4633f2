package upstream

import (
	"context"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/unfold"
)

// pipeline is the way of every call to the server, the outermost stage first.
func (u *Upstream) pipeline() mcp.Handler {
	return mcp.Chain(mcp.HandlerFunc(u.call), // probe, then the dialect
		u.again,            // a retry finds its call, or makes it anew after its user was sent to a page
		u.admit.Middleware, // 429, queue, breaker; notes how it went
		unfold.New(u.log, u.learnUnfolded).Middleware, // tools that the server tells in short
		u.skills.Middleware,                           // the server's own skills, in whichever form
	)
}

// Handle makes a call. Errors are an *mcp.Error, or the context's when the caller
// has left.
//
// A retry whose context has ended already lets the parked call go that it would have
// taken up: the server is told, and all that it holds is freed.
//
// A list method returns one page. subscriptions/listen reports events, the
// acknowledgement first, until its context ends, the server ends it (an empty
// result), or it is lost (an error: listen again).
func (u *Upstream) Handle(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	switch c.Method {
	case mcp.MethodDiscover, mcp.MethodListen, mcp.MethodToolsList, mcp.MethodToolsCall,
		mcp.MethodResourcesList, mcp.MethodResourceTemplatesList, mcp.MethodResourcesRead, mcp.MethodDirectoryRead,
		mcp.MethodPromptsList, mcp.MethodPromptsGet, mcp.MethodComplete, mcp.MethodSkillsList, mcp.MethodSkillsGet,
		mcp.MethodTasksGet, mcp.MethodTasksUpdate, mcp.MethodTasksCancel, mcp.MethodTasksResult:
		return u.handler.Handle(ctx, c)
	}
	return nil, mcp.ErrMethod(c.Method)
}

// again takes retries to where their calls wait, lets calls go of which a retry will never
// be made, and makes those anew whose users were sent to a page. It stands above the queue:
// none of that must wait for calls that may wait for it.
func (u *Upstream) again(next mcp.Handler) mcp.Handler {
	return mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
		if c.State == "" || c.Method == mcp.MethodListen {
			return next.Handle(ctx, c)
		}
		state := dialect.ParseState(c.State)
		if older := u.former.of(state); older != nil {
			return older.Handle(ctx, c)
		}
		if ctx.Err() != nil {
			u.letGo(c)
			return nil, context.Cause(ctx)
		}
		if state.Kind == dialect.AnewState {
			fresh, reply, err := u.stateful.Anew(ctx, c)
			if fresh == nil {
				return reply, err
			}
			c = fresh
		}
		return next.Handle(ctx, c)
	})
}
