package upstream

import (
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	firstPause   = time.Second
	longestPause = time.Minute
	crashWindow  = time.Minute
	crashLimit   = 5 // crashes within the window
	// steady is how long an event stream lives that does not count as one that fails.
	steady = 10 * time.Second
)

// newBackOff returns the pauses between attempts: 1 s to 60 s, with jitter so that
// many who wait for one thing do not come back at once.
func newBackOff() *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{
		InitialInterval: firstPause, RandomizationFactor: 0.2, Multiplier: 2, MaxInterval: longestPause,
	}
}

// restarts says when a process that ended by itself may be started again, or an event
// stream opened.
type restarts struct {
	pauses  *backoff.ExponentialBackOff
	crashes []time.Time // those within the window
	until   time.Time
}

// crashed notes that a process ended that had lived that long.
func (r *restarts) crashed(now time.Time, lived time.Duration) {
	if r.pauses == nil || lived > crashWindow {
		r.pauses, r.crashes = newBackOff(), nil
	}
	kept := r.crashes[:0]
	for _, at := range append(r.crashes, now) {
		if now.Sub(at) < crashWindow {
			kept = append(kept, at)
		}
	}
	r.crashes = kept
	r.until = now.Add(r.pauses.NextBackOff())
}

// pause returns how long to wait before the next start; down says that it crashed so
// often that nobody should wait.
func (r *restarts) pause(now time.Time) (pause time.Duration, down bool) {
	pause = r.until.Sub(now)
	return pause, pause > 0 && len(r.crashes) >= crashLimit
}
