package upstream

import (
	"errors"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	// maxRetryAfter bounds for how long a server can have a user wait.
	maxRetryAfter = 300 * time.Second
	// maxPauses bounds of how many users it is known. Of one more the server has to say
	// so again.
	maxPauses = 10_000
)

// pauses are the users of whom a server takes no requests for a while, as it has said with
// 429 and Retry-After (RFC 9110, 10.2.3). Who they are is what servers count by, whatever
// credential they are shown: that of one user who calls too often must not end the calls of
// others, and a server that limits the gateway as a whole says so to each.
//
// Without authentication there is one user, "", and so are the gateway's own requests. The
// zero pauses has none.
type pauses struct {
	some atomic.Bool // the usual case needs no lock

	mu    sync.Mutex // guards until
	until map[string]time.Time
}

// begin has the calls of a user refused for so long.
func (p *pauses) begin(user string, now time.Time, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.until == nil {
		p.until = make(map[string]time.Time)
	}
	if _, known := p.until[user]; !known && len(p.until) >= maxPauses {
		p.expire(now)
		if len(p.until) >= maxPauses {
			return
		}
	}
	if until := now.Add(d); until.After(p.until[user]) {
		p.until[user] = until
	}
	p.some.Store(true)
}

// left is for how long calls of a user are still refused, 0 when they are not.
func (p *pauses) left(user string, now time.Time) time.Duration {
	if !p.some.Load() {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	left := p.until[user].Sub(now)
	if left > 0 {
		return left
	}
	if _, over := p.until[user]; over {
		p.expire(now)
		p.some.Store(len(p.until) > 0)
	}
	return 0
}

// expire is called with mu held.
func (p *pauses) expire(now time.Time) {
	for user, until := range p.until {
		if !until.After(now) {
			delete(p.until, user)
		}
	}
}

// paused returns the error of a call whose user the server wants to hear nothing from for
// now, nil for one that may be made. What goes on with a call that the server has taken is
// not held up, nor is what asks how the server is.
func (u *Upstream) paused(c *mcp.Call) error {
	if c.State != "" || c.Method == mcp.MethodDiscover {
		return nil
	}
	left := u.pauses.left(userOf(c), time.Now())
	if left <= 0 {
		return nil
	}
	return u.limited(left)
}

// slowDown begins the pause that a server asks for with the error of a call.
func (u *Upstream) slowDown(c *mcp.Call, cause error) {
	status, ok := errors.AsType[*statusError](cause)
	if ok && status.Status == http.StatusTooManyRequests && status.RetryAfter > 0 {
		u.pauses.begin(userOf(c), time.Now(), status.RetryAfter)
	}
}

// limited is the error for 429; after is 0 where the server did not say how long to wait.
func (u *Upstream) limited(after time.Duration) *mcp.Error {
	e := mcp.UpstreamError(mcp.CodeRateLimited, u.cfg.Name, mcp.ExecutedNo,
		"Upstream %s takes no more requests for the moment; try again later", u.cfg.Name)
	if after > 0 {
		inFull := func(unit time.Duration) mcp.Raw { return mcp.Int(int64((after + unit - 1) / unit)) }
		e.Data = e.Data.With("retryAfterMs", inFull(time.Millisecond)).With("retry_after", inFull(time.Second))
	}
	return e
}

// readRetryAfter reads how long a server wants to be left alone: seconds, or a date by its
// own clock. 0 is for what is neither, and for what is over.
func readRetryAfter(h http.Header, now time.Time) time.Duration {
	value := h.Get("Retry-After")
	seconds, err := strconv.ParseUint(value, 10, 64)
	switch {
	case err == nil:
		return time.Duration(min(seconds, uint64(maxRetryAfter/time.Second))) * time.Second
	case errors.Is(err, strconv.ErrRange):
		return maxRetryAfter
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	if theirs, err := http.ParseTime(h.Get("Date")); err == nil {
		now = theirs
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}
