package dialect

import (
	"errors"
	"fmt"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// Bounds of how often a task is asked for that is waited for.
const (
	usualPoll = time.Second
	LeastPoll = 100 * time.Millisecond
	mostPoll  = 30 * time.Second
)

// PollPause is how long the server wants us to wait before the task is asked for again.
func PollPause(task mcp.Raw) time.Duration {
	raw, _ := task.Member("pollIntervalMs")
	pause, ok := Milliseconds(raw)
	if !ok {
		return usualPoll
	}
	return min(max(pause, LeastPoll), mostPoll)
}

// Begun makes of the error of a call whose task has begun to run one after which it is not
// made again.
func Begun(err error) error {
	if errors.Is(err, admit.ErrDraining) {
		return ErrClosed
	}
	if errors.Is(err, ErrWrongEra) || errors.Is(err, transport.ErrSessionGone) || errors.Is(err, ErrNotStarted) || errors.Is(err, transport.ErrNotSent) {
		return fmt.Errorf("%w: %v", transport.ErrBroken, err)
	}
	return err
}

// TaskOver is the error of a call that waited for a task which did not end with a result.
func TaskOver(upstream string, task mcp.Raw) *mcp.Error {
	status, _ := task.Member("status")
	message, _ := task.Member("statusMessage")
	text := "The task of this call at upstream " + upstream + " has ended as " + Clip(status.Text())
	if why := Clip(message.Text()); why != "" {
		text += ": " + why
	}
	return mcp.UpstreamError(mcp.CodeInternal, upstream, mcp.ExecutedUnknown, "%s", text)
}
