package signin

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
)

// sayEvery is the least time between two lines about an issuer where sign-ins fail: any stranger can
// begin them.
const sayEvery = time.Minute

// Outage logs that sign-ins fail, a line a minute. Its zero value is ready, and safe for concurrent
// use.
type Outage struct {
	mu     sync.Mutex // guards the fields below
	said   time.Time
	silent int // without a line since then
}

// Warn logs why a sign-in at an issuer failed, unless it has just said so. The next line counts the
// others.
func (o *Outage) Warn(ctx context.Context, log *slog.Logger, message, issuer string, why error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Since(o.said) < sayEvery {
		o.silent++
		return
	}
	log.WarnContext(ctx, message, failure.IssuerDown.Attr(), "issuer", issuer, "error", why, "more", o.silent)
	o.said, o.silent = time.Now(), 0
}
