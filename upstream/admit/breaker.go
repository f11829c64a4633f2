package admit

import (
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	// FirstPause is the pause before a second attempt.
	FirstPause = time.Second
	// openAfter is how many calls in a row must find the server unreachable before the next ones
	// are refused.
	openAfter = 5
	// trialTime is how long a trial keeps all other calls back. One that takes longer has
	// most likely reached the server, which may work on it for hours.
	trialTime = 30 * time.Second
)

// NewBackoff returns the pauses between attempts: 1 s to 60 s, with jitter so that many who
// wait for one thing do not come back at once.
func NewBackoff() *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{
		InitialInterval: FirstPause, RandomizationFactor: 0.2, Multiplier: 2, MaxInterval: time.Minute,
	}
}

// breaker keeps calls from a server that cannot be reached: they would wait in vain, and all
// reach the server at once when it comes back. After a pause, which grows, one call is let
// through as a trial. The zero breaker is closed: calls pass.
type breaker struct {
	mu       sync.Mutex // guards the fields below
	failures int        // in a row
	reason   string     // of the last one, for the client
	pauses   *backoff.ExponentialBackOff
	until    time.Time
	tried    time.Time // when the trial that is under way began; zero for none
}

// admit returns why a call may not be made, and how long that stays so at least; "" for one
// that may. trial reports that it is the trial.
func (b *breaker) admit(now time.Time) (trial bool, wait time.Duration, why string) {
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

// letTry ends the pause.
func (b *breaker) letTry() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.until = time.Time{}
}

// done takes what a call has shown. It reports whether that opens the breaker.
func (b *breaker) done(now time.Time, trial bool, shown Outcome) (opens bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if trial {
		b.tried = time.Time{}
	}
	if shown.Gone != "" {
		b.reason = shown.Gone
	}
	switch {
	case shown.There:
		b.failures, b.pauses = 0, nil
	case shown.Gone == "":
	case b.failures < openAfter:
		b.failures++
		if opens = b.failures == openAfter; opens {
			b.pauses = NewBackoff()
			b.until = now.Add(b.pauses.NextBackOff())
		}
	case trial: // calls that began before it opened say nothing new
		b.until = now.Add(b.pauses.NextBackOff())
	}
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
