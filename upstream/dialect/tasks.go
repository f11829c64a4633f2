package dialect

import (
	"errors"
	"fmt"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// Pauses before a task is polled again.
const (
	usualPoll = time.Second
	LeastPoll = 100 * time.Millisecond // even if the server wants a shorter one
	mostPoll  = 30 * time.Second
)

// PollPause returns how long the server wants us to wait before the next poll of a task.
func PollPause(task mcp.Raw) time.Duration {
	pause, ok := Milliseconds(task.At("pollIntervalMs"))
	if !ok {
		return usualPoll
	}
	return min(max(pause, LeastPoll), mostPoll)
}

// Begun marks the error of a call after its task has begun to run, so that the call is not
// repeated.
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

// TaskOver returns the error of a call if its task ended without a result.
func TaskOver(upstream string, task mcp.Raw) *mcp.Error {
	text := "The task of this call at upstream " + upstream + " has ended as " + Clip(task.At("status").Text())
	if why := Clip(task.At("statusMessage").Text()); why != "" {
		text += ": " + why
	}
	return mcp.UpstreamError(failure.TaskFailed, upstream, mcp.ExecutedUnknown, "%s", text)
}
