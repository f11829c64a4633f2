package upstream

import (
	"errors"
	"fmt"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// Tasks, on the side of the servers. A task that a caller asked for, or has declared to
// know, is handed to them as it is, and what they ask about it is relayed. Where the
// server wants a task and the caller knows none, or none of the server's form, it is
// made here and waited for: the call then takes as long as its task, ends it when it is
// cancelled or takes too long, and puts the task's questions as its own.
//
//	tasks_stateful.go   2025-11-25: made by the member task, waited for by tasks/result
//	tasks_stateless.go  the extension: declared when the server insists, and polled

// Bounds of how often a task is asked for that is waited for.
const (
	usualPoll = time.Second
	leastPoll = 100 * time.Millisecond
	mostPoll  = 30 * time.Second
)

// pollPause is how long the server wants us to wait before the task is asked for again.
func pollPause(task mcp.Raw) time.Duration {
	raw, _ := task.Member("pollIntervalMs")
	pause, ok := dialect.Milliseconds(raw)
	if !ok {
		return usualPoll
	}
	return min(max(pause, leastPoll), mostPoll)
}

// begun makes of the error of a call whose task has begun to run one after which it is not
// made again.
func begun(err error) error {
	if errors.Is(err, admit.ErrDraining) {
		return errClosed
	}
	if errors.Is(err, errWrongEra) || errors.Is(err, transport.ErrSessionGone) || errors.Is(err, errNotStarted) || errors.Is(err, transport.ErrNotSent) {
		return fmt.Errorf("%w: %v", transport.ErrBroken, err)
	}
	return err
}

// taskOver is the error of a call that waited for a task which did not end with a result.
func (u *Upstream) taskOver(task mcp.Raw) *mcp.Error {
	status, _ := task.Member("status")
	message, _ := task.Member("statusMessage")
	text := "The task of this call at upstream " + u.cfg.Name + " has ended as " + clip(status.Text())
	if why := clip(message.Text()); why != "" {
		text += ": " + why
	}
	return mcp.UpstreamError(mcp.CodeInternal, u.cfg.Name, mcp.ExecutedUnknown, "%s", text)
}
