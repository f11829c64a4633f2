package live

import (
	"context"
	"fmt"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Causes of a cancelled call. Handlers return them.
var (
	ErrCancelled = fmt.Errorf("front: cancelled by its client: %w", context.Canceled)
	ErrEnded     = fmt.Errorf("front: its session has ended: %w", context.Canceled)
	ErrClosing   = fmt.Errorf("front: the gateway is closing: %w", context.Canceled)
	ErrMoved     = fmt.Errorf("front: another replica owns its session: %w", context.Canceled)
)

// Call is a running call of a session. The zero value has not started.
type Call struct {
	session   *Session
	id        string // the request's id, in its wire form
	ctx       context.Context
	cancel    context.CancelCauseFunc
	retracted []string // keys of questions that the server withdrew before they were put; guarded by Session.mu
}

// Start counts a call in. Its context ends with notifications/cancelled, with the session or
// with the endpoint, but not when its client goes away: a disconnect does not cancel
// (2025-11-25 basic/transports#sending-messages-to-the-server). Errors: ErrEnded.
func (s *Session) Start(ctx context.Context, id mcp.Raw, c *Call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.home.IsOver() {
		return ErrEnded
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	*c = Call{session: s, id: string(id), ctx: ctx, cancel: cancel}
	s.calls[c] = struct{}{}
	return nil
}

// Context returns the context of the call.
func (c *Call) Context() context.Context { return c.ctx }

// Cancel ends the context, with this cause.
func (c *Call) Cancel(why error) { c.cancel(why) }

// Stop counts the call out.
func (c *Call) Stop() {
	s := c.session
	s.mu.Lock()
	delete(s.calls, c)
	s.mu.Unlock()
	c.cancel(nil)
}

// maxReason bounds the reason of a cancellation, in bytes.
const maxReason = 1000

// Cancel cancels the calls with this request id: all of them, if a client used one twice. The
// reason, "" for none, is the client's.
func (s *Session) Cancel(id mcp.Raw, reason string) {
	why := ErrCancelled
	if reason != "" {
		why = fmt.Errorf("%w: %w", why, mcp.CancelReason(reason[:min(len(reason), maxReason)]))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.calls {
		if c.id == string(id) {
			c.cancel(why)
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

// Expired reports whether a caller's proof has expired.
func Expired(c mcp.Caller) bool { return !c.Expires.IsZero() && !time.Now().Before(c.Expires) }
