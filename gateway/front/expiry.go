package front

import (
	"context"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Who a caller is was proven when the request came. What outlives that proof ends with
// it, so that a user who may not come in any more hears nothing more; a call that runs
// is brought to its end.

// past reports whether a time has come; zero never does.
func past(t time.Time) bool { return !t.IsZero() && !time.Now().Before(t) }

// expired reports whether a caller's proof is good no more.
func expired(c mcp.Caller) bool { return past(c.Expires) }

// whileGood returns a context that ends with the caller's proof.
func whileGood(ctx context.Context, c mcp.Caller) (context.Context, context.CancelFunc) {
	if c.Expires.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, c.Expires, errExpired)
}
