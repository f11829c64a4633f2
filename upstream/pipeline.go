package upstream

import (
	"context"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/tracing"
)

// pipeline returns the handler that every call to the server passes, the outermost stage
// first.
func (u *Upstream) pipeline(tracer *tracing.Tracer) mcp.Handler {
	return mcp.Chain(mcp.HandlerFunc(u.call), // probe, then the dialect
		u.again,                              // a retry finds its call, or is made again after its user's page
		u.admit.Middleware,                   // 429, queue, breaker; notes how it went
		unfolding(u.log, u.learnUnfolded),    // tools that the server describes only in short
		u.skills.Middleware,                  // the server's own skills, in either form
		traced(tracer, peerOf(u.cfg), u.Era), // a CLIENT span for what goes to the server
	)
}

// Handle makes a call. Errors are an *mcp.Error, or the context's if the caller has left.
//
// A list method returns one page. subscriptions/listen reports events, first the
// acknowledgement, until its context ends, the server ends it (an empty result) or the
// connection is lost (an error: listen again).
func (u *Upstream) Handle(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	switch c.Method {
	case mcp.MethodDiscover, mcp.MethodListen, mcp.MethodToolsList, mcp.MethodToolsCall,
		mcp.MethodResourcesList, mcp.MethodResourceTemplatesList, mcp.MethodResourcesRead, mcp.MethodDirectoryRead,
		mcp.MethodPromptsList, mcp.MethodPromptsGet, mcp.MethodComplete, mcp.MethodSkillsList, mcp.MethodSkillsGet,
		mcp.MethodTasksGet, mcp.MethodTasksUpdate, mcp.MethodTasksCancel, mcp.MethodTasksResult:
		reply, err := u.handler.Handle(ctx, c)
		c.Verdict.Answered(c.Method, reply, err)
		return reply, err
	}
	return nil, mcp.ErrMethod(c.Method)
}

// again takes retries to the calls that wait for them. It makes calls again after users were sent
// to a page. It stands above the queue, because calls in the queue may be waiting for these.
func (u *Upstream) again(next mcp.Handler) mcp.Handler {
	return mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
		if len(c.Round) == 0 || c.Method == mcp.MethodListen {
			return next.Handle(ctx, c)
		}
		if older := u.former.of(c.Round); older != nil {
			return older.Handle(ctx, c)
		}
		if c.Round.Top().Kind == mcp.FramePages {
			fresh, reply, err := u.stateful.Restart(ctx, c)
			if fresh == nil {
				return reply, err
			}
			c = fresh
		}
		return next.Handle(ctx, c)
	})
}
