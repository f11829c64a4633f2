package admit

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// maxPaused bounds how many users with pauses are remembered. The one who has waited longest is
// forgotten until the server says so again.
const maxPaused = 10_000

// retryAfter remembers until when a server wants no calls of a user (429 and Retry-After, RFC 9110,
// 10.2.3). It counts by user, whatever credential the server sees: one user who calls too often
// must not end the calls of others, and a server that limits the gateway as a whole says so to
// each.
//
// Without authentication there is one user, "", and so are the gateway's own requests.
type retryAfter struct {
	mu    sync.Mutex // guards until
	until *simplelru.LRU[string, time.Time]
}

func newRetryAfter() *retryAfter {
	until, _ := simplelru.NewLRU[string, time.Time](maxPaused, nil) // the only error is about the size
	return &retryAfter{until: until}
}

// begin has the calls of a user refused for so long.
func (r *retryAfter) begin(user string, now time.Time, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, _ := r.until.Peek(user)
	if until := now.Add(d); until.After(known) {
		r.until.Add(user, until)
	}
}

// left returns how long calls of a user are still refused, 0 when they are not.
func (r *retryAfter) left(user string, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	until, known := r.until.Peek(user)
	if !known {
		return 0
	}
	left := until.Sub(now)
	if left <= 0 {
		r.until.Remove(user)
	}
	return max(left, 0)
}

// Limited is the error for 429; after is 0 where the server did not say how long to wait.
func (a *Admit) Limited(after time.Duration) *mcp.Error {
	e := mcp.UpstreamError(failure.UpstreamLimited, a.cfg.Upstream, mcp.ExecutedNo,
		"Upstream %s takes no more requests for the moment; try again later", a.cfg.Upstream)
	if after > 0 {
		inFull := func(unit time.Duration) mcp.Raw { return mcp.Int(int64((after + unit - 1) / unit)) }
		e.Data = e.Data.With("retryAfterMs", inFull(time.Millisecond)).With("retry_after", inFull(time.Second))
	}
	return e
}
