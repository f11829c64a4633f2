package policy

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// The front seals Ask.State, so what comes back was made in this gateway. But an upstream
// could have made it, with any text. So the guard puts a head of its own in front of an
// upstream's state. A state without the head never passed here, and an upstream that gave no
// state gets none back.

// round is a parsed State of a call.
type round struct {
	kind  string
	nonce string // what it is remembered by, where we remember something
	inner string // the upstream's state
}

// Kinds of rounds; the first round has the kind "".
const (
	relayed  = "p1r" // an upstream asks
	asked    = "p1q" // we ask
	approved = "p1a" // an upstream asks within a call that the user approved of
)

// roundLife is how long a question, and an approved call with its rounds, is kept. The front
// has shorter limits of its own.
const roundLife = time.Hour

func (r round) String() string { return r.kind + r.nonce + ":" + r.inner }

// openState parses a State.
func openState(state string) (round, error) {
	if state == "" {
		return round{}, nil
	}
	head, inner, found := strings.Cut(state, ":")
	for _, kind := range []string{relayed, asked, approved} {
		if nonce, ok := strings.CutPrefix(head, kind); ok && found && (nonce == "") == (kind == relayed) {
			return round{kind, nonce, inner}, nil
		}
	}
	return round{}, expired()
}

func expired() error {
	return mcp.Errorf(failure.StateInvalid, "Invalid params: requestState is not one that waits for answers; make the call anew").
		WithData(mcp.Object("reason", mcp.String("expired")))
}

// remember makes the state of a round to which the same call can return once.
func (g *Guard) remember(ctx context.Context, c *mcp.Call, kind, digest, inner string) (string, error) {
	r := round{kind, rand.Text(), inner}
	if err := g.approvals.Put(ctx, c.Caller.User(), kind+r.nonce, digest, roundLife); err != nil {
		return "", unavailable(err)
	}
	return r.String(), nil
}

// recall reports whether the round belongs to this call and is used for the first time.
func (g *Guard) recall(ctx context.Context, c *mcp.Call, r round, digest string) (bool, error) {
	known, ok, err := g.approvals.Take(ctx, c.Caller.User(), r.kind+r.nonce)
	if err != nil {
		return false, unavailable(err)
	}
	return ok && known == digest, nil
}

// pass passes a call on to the catalog. If the user has approved it, digest is the call's
// digest, so that its later rounds need no new approval; else digest is "".
func (g *Guard) pass(ctx context.Context, c *mcp.Call, next mcp.Handler, target mcp.Target, r round, digest string) (*mcp.Reply, error) {
	inner := g.bare(c)
	inner.Target, inner.State = target, r.inner
	if c.Task != nil || mcp.IsTaskMethod(c.Method) {
		inner.Visible = g.policy.upstreams(&c.Caller) // whether they were told of tasks at all
	}
	if r.kind == asked {
		inner.Answers, inner.Refused = nil, nil // they were for us
	}
	reply, err := next.Handle(ctx, inner)
	if err != nil || reply == nil || reply.Ask == nil {
		return reply, err
	}
	ask := *reply.Ask
	switch {
	case digest != "":
		if ask.State, err = g.remember(context.WithoutCancel(ctx), c, approved, digest, ask.State); err != nil {
			return nil, err
		}
	case ask.State != "":
		ask.State = round{kind: relayed, inner: ask.State}.String()
	}
	return &mcp.Reply{Ask: &ask, Release: reply.Release}, nil
}
