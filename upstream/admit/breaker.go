package admit

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	// openAfter is how many calls in a row must find the server unreachable for the next
	// ones to be refused at once.
	openAfter = 5
	// trialTime is how long a call that is let through to see keeps all others back. One
	// that takes longer has most likely reached the server, which may work at it for hours.
	trialTime = 30 * time.Second
)

// breaker keeps calls from a server that cannot be reached: they would wait for it in
// vain, and be all over it when it comes back. After a pause, which grows and is never
// quite the same, one call is let through to see. The zero breaker is closed: calls pass.
type breaker struct {
	open     atomic.Bool // the usual case needs no lock
	counting atomic.Bool // failures is not 0

	mu       sync.Mutex // guards the fields below
	failures int        // in a row
	reason   string     // of the last one, for the client
	pauses   *backoff.ExponentialBackOff
	until    time.Time
	tried    time.Time // when a call was let through to see that is still under way; zero for none
}

// admit returns why a call may not be made, and how long that stays so at least; "" for one
// that may. trial says that it is the one that is let through to see.
func (b *breaker) admit(now time.Time) (trial bool, wait time.Duration, why string) {
	if !b.open.Load() {
		return false, 0, ""
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.failures < openAfter:
		return false, 0, ""
	case now.Before(b.tried.Add(trialTime)):
		return false, FirstPause, b.reason
	case now.Before(b.until):
		return false, b.until.Sub(now), b.reason
	}
	b.tried = now
	return true, 0, ""
}

// done takes what a call has shown. It reports whether the breaker opens by that.
func (b *breaker) done(now time.Time, trial bool, shown Outcome) (opens bool) {
	gone := shown.Gone != ""
	if !trial && !gone && !(shown.There && b.counting.Load()) {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if trial {
		b.tried = time.Time{}
	}
	if gone {
		b.reason = shown.Gone
	}
	switch {
	case shown.There:
		b.failures, b.pauses = 0, nil
	case !gone:
	case b.failures < openAfter:
		b.failures++
		if opens = b.failures == openAfter; opens {
			b.pauses = NewBackoff()
			b.until = now.Add(b.pauses.NextBackOff())
		}
	case trial: // calls that began before it opened say nothing new
		b.until = now.Add(b.pauses.NextBackOff())
	}
	b.counting.Store(b.failures > 0)
	b.open.Store(b.failures >= openAfter)
	return opens
}

// opens returns until when calls are refused, zero when they pass.
func (b *breaker) opens() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures < openAfter {
		return time.Time{}
	}
	return b.until
}
