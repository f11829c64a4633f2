package admit

import (
	"time"

	"github.com/cenkalti/backoff/v5"
)

// FirstPause is the pause before a second attempt.
const FirstPause = time.Second

// NewBackoff returns the pauses between attempts: 1 s to 60 s, with jitter so that many who
// wait for one thing do not come back at once.
func NewBackoff() *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{
		InitialInterval: FirstPause, RandomizationFactor: 0.2, Multiplier: 2, MaxInterval: time.Minute,
	}
}
