package live

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Causes of a cancelled call. Handlers return them, and know them for what they are.
var (
	ErrCancelled = fmt.Errorf("front: cancelled by its client: %w", context.Canceled)
	ErrEnded     = fmt.Errorf("front: its session has ended: %w", context.Canceled)
	ErrClosing   = fmt.Errorf("front: the gateway is closing: %w", context.Canceled)
	ErrMoved     = fmt.Errorf("front: another replica owns its session: %w", context.Canceled)
	ErrExpired   = fmt.Errorf("front: its caller's proof has expired: %w", context.Canceled)
)

// ErrLeaving is why no call begins in a session that is being given up.
var ErrLeaving = errors.New("live: the session is being given up")

// Call is a call in flight of a session. The zero value is none yet.
type Call struct {
	session   *Session
	id        string // the request's, as it stands on the wire
	ctx       context.Context
	cancel    context.CancelCauseFunc
	retracted map[string]bool // keys of questions that the server withdrew before they were put; guarded by Session.mu
}

// Start counts a call in. Its context ends by notifications/cancelled, with the session or
// with the endpoint, not when its client goes away: a disconnect is no cancellation
// (2025-11-25 basic/transports#sending-messages-to-the-server). Errors: ErrEnded,
// ErrLeaving.
func (s *Session) Start(ctx context.Context, id mcp.Raw, c *Call) error {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.leaving:
		cancel(ErrLeaving)
		return ErrLeaving
	case s.gone.Err() != nil:
		cancel(ErrEnded)
		return ErrEnded
	}
	*c = Call{session: s, id: string(id), ctx: ctx, cancel: cancel}
	s.calls[c] = struct{}{}
	return nil
}

// Context is that of the call.
func (c *Call) Context() context.Context { return c.ctx }

// Cancel ends the context.
func (c *Call) Cancel(why error) { c.cancel(why) }

// Stop counts the call out.
func (c *Call) Stop() {
	s := c.session
	s.mu.Lock()
	delete(s.calls, c)
	s.mu.Unlock()
	c.cancel(nil)
	if s.all.leaving.Load() {
		s.deps.Running.Go(func() { s.leave() }) // the answer does not wait for it, but Close does
	}
}

// Cancel cancels the calls whose request has this id, all of them if a client used
// one twice. Ids that are not in flight are ignored.
func (s *Session) Cancel(id mcp.Raw) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.calls {
		if c.id == string(id) {
			c.cancel(ErrCancelled)
		}
	}
}

func (s *Session) cancelAll(why error) (count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.calls {
		c.cancel(why)
	}
	return len(s.calls)
}

// Who a caller is was proven when the request came. What outlives that proof ends with
// it, so that a user who may not come in any more hears nothing more; a call that runs
// is brought to its end.

// Expired reports whether a caller's proof is good no more.
func Expired(c mcp.Caller) bool { return !c.Expires.IsZero() && !time.Now().Before(c.Expires) }

// WhileGood returns a context that ends with the caller's proof, for ErrExpired.
func WhileGood(ctx context.Context, c mcp.Caller) (context.Context, context.CancelFunc) {
	if c.Expires.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, c.Expires, ErrExpired)
}
