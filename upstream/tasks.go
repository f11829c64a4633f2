package upstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
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

// validTasks returns a ServerCapabilities object without the form of tasks that is void in
// the server's revision.
func validTasks(rev *wire.Revision, caps mcp.Raw) mcp.Raw {
	if !rev.CoreTasks {
		caps = caps.Without("tasks")
	}
	if extensions, ok := caps.Member("extensions"); ok && rev.Stateful && mcp.DeclaresTasks(caps) {
		caps = caps.With("extensions", extensions.Without(mcp.TasksExtension))
	}
	return caps
}

// pollPause is how long the server wants us to wait before the task is asked for again.
func pollPause(task mcp.Raw) time.Duration {
	raw, _ := task.Member("pollIntervalMs")
	pause, ok := milliseconds(raw)
	if !ok {
		return usualPoll
	}
	return min(max(pause, leastPoll), mostPoll)
}

// waits are the calls that wait for the ends of tasks on their callers' behalf, which may
// take long: they take no turn of other calls, but each user has only so many.
type waits struct {
	mu    sync.Mutex // guards users
	users map[string]int
}

func (w *waits) begin(user string, most int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.users[user] >= most {
		return false
	}
	if w.users == nil {
		w.users = make(map[string]int)
	}
	w.users[user]++
	return true
}

func (w *waits) end(user string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.users[user]--; w.users[user] == 0 {
		delete(w.users, user)
	}
}

// taskResult makes a tasks/result call.
func (u *Upstream) taskResult(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	user := c.Caller.User()
	if !u.waits.begin(user, u.cfg.Limits.asks(&c.Caller)) {
		return nil, mcp.UpstreamError(mcp.CodeOverloaded, u.cfg.Name, mcp.ExecutedNo,
			"Too many calls of this user wait for tasks of upstream %s; ask for their states by tasks/get", u.cfg.Name)
	}
	defer u.waits.end(user)
	return u.tried(ctx, c, u.call)
}

// begun makes of the error of a call whose task has begun to run one after which it is not
// made again.
func begun(err error) error {
	if errors.Is(err, errDraining) {
		return errClosed
	}
	if errors.Is(err, errWrongEra) || errors.Is(err, errSessionGone) || errors.Is(err, errNotStarted) || errors.Is(err, errNotSent) {
		return fmt.Errorf("%w: %v", errBroken, err)
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
