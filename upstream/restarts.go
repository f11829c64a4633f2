package upstream

import (
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
)

const (
	crashWindow = time.Minute
	crashLimit  = 5 // crashes within the window
	// steady is how long an event stream lives that does not count as one that fails.
	steady = 10 * time.Second
)

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
		r.pauses, r.crashes = admit.NewBackoff(), nil
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
