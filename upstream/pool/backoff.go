package pool

import (
	"slices"
	"time"

	exponential "github.com/cenkalti/backoff/v5"

	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
)

const (
	crashWindow = time.Minute
	crashLimit  = 5 // crashes within the window
)

// backoff decides when a value that ended by itself may be opened again.
type backoff struct {
	pauses  *exponential.ExponentialBackOff
	crashes []time.Time // those within the window
	until   time.Time
}

// crashed records that a value ended after the time lived.
func (b *backoff) crashed(now time.Time, lived time.Duration) {
	if b.pauses == nil || lived > crashWindow {
		b.pauses, b.crashes = admit.NewBackoff(), nil
	}
	b.crashes = slices.DeleteFunc(append(b.crashes, now), func(at time.Time) bool { return now.Sub(at) >= crashWindow })
	b.until = now.Add(b.pauses.NextBackOff())
}

// pause returns how long to wait before the next attempt. down says that the value crashed so often
// that callers should not wait.
func (b *backoff) pause(now time.Time) (pause time.Duration, down bool) {
	pause = b.until.Sub(now)
	return pause, pause > 0 && len(b.crashes) >= crashLimit
}
