package dialect

import (
	"errors"
	"fmt"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// How long to wait before a task is asked for again.
const (
	usualPoll = time.Second
	LeastPoll = 100 * time.Millisecond // however short the server wants it
	mostPoll  = 30 * time.Second
)

// PollPause returns how long the server wants us to wait before the task is asked for again.
func PollPause(task mcp.Raw) time.Duration {
	pause, ok := Milliseconds(task.At("pollIntervalMs"))
	if !ok {
		return usualPoll
	}
	return min(max(pause, LeastPoll), mostPoll)
}

// Begun returns the error of a call whose task has begun to run as one after which the call
// is not made again.
func Begun(err error) error {
	if errors.Is(err, admit.ErrDraining) {
		return ErrClosed
	}
	for _, notRun := range []error{ErrWrongEra, ErrNotStarted, transport.ErrSessionGone, transport.ErrNotSent} {
		if errors.Is(err, notRun) {
			return fmt.Errorf("%w: %v", transport.ErrBroken, err)
		}
	}
	return err
}

// TaskOver returns the error of a call that waited for a task that ended without a result.
func TaskOver(upstream string, task mcp.Raw) *mcp.Error {
	text := "The task of this call at upstream " + upstream + " has ended as " + Clip(task.At("status").Text())
	if why := Clip(task.At("statusMessage").Text()); why != "" {
		text += ": " + why
	}
	return mcp.UpstreamError(mcp.CodeInternal, upstream, mcp.ExecutedUnknown, "%s", text)
}
