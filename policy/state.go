package policy

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// round is the guard's part of a call's Round.
type round struct {
	kind  mcp.FrameKind // FrameAsked, FrameApproved, "" for neither
	nonce string        // what the frame is remembered by
	inner mcp.Round     // of the stages below
}

// roundLife is how long a question, and an approved call with its rounds, is kept. The front
// has shorter limits of its own.
const roundLife = time.Hour

// roundOf takes the guard's frame off a call's Round.
func roundOf(c *mcp.Call) round {
	for _, kind := range [...]mcp.FrameKind{mcp.FrameAsked, mcp.FrameApproved} {
		if nonce, inner, ok := c.Round.Pop(kind); ok {
			return round{kind, nonce, inner}
		}
	}
	return round{inner: c.Round}
}

// remember makes a round to which the same call can return once.
func (g *Guard) remember(
	ctx context.Context, c *mcp.Call, kind mcp.FrameKind, digest string, inner mcp.Round,
) (mcp.Round, error) {
	nonce := rand.Text()
	if err := g.approvals.Put(ctx, c.Caller.User(), string(kind)+nonce, digest, roundLife); err != nil {
		return nil, unavailable(err)
	}
	return inner.Push(kind, nonce), nil
}

// recall reports whether the round belongs to this call and is used for the first time.
func (g *Guard) recall(ctx context.Context, c *mcp.Call, r round, digest string) (bool, error) {
	known, ok, err := g.approvals.Take(ctx, c.Caller.User(), string(r.kind)+r.nonce)
	if err != nil {
		return false, unavailable(err)
	}
	return ok && known == digest, nil
}

// pass passes a call on to the catalog. If the user has approved it, digest is the call's
// digest, so that its later rounds need no new approval; else digest is "".
func (g *Guard) pass(ctx context.Context, c *mcp.Call, next mcp.Handler, target mcp.Target, r round,
	digest string) (*mcp.Reply, error) {
	inner := g.bare(c)
	inner.Target, inner.Round = target, r.inner
	if c.Task != nil || mcp.IsTaskMethod(c.Method) {
		inner.Visible = g.policy.upstreams(&c.Caller) // whether they were told of tasks at all
	}
	if r.kind == mcp.FrameAsked {
		inner.Answers, inner.Refused = nil, nil // they were for us
	}
	reply, err := next.Handle(ctx, inner)
	if err != nil || reply == nil || reply.Ask == nil || digest == "" {
		return reply, err
	}
	ask := *reply.Ask
	if ask.Round, err = g.remember(context.WithoutCancel(ctx), c, mcp.FrameApproved, digest, ask.Round); err != nil {
		return nil, err
	}
	return &mcp.Reply{Ask: &ask, Release: reply.Release}, nil
}
