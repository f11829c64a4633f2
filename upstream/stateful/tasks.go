package stateful

import (
	"context"
	"errors"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// Tasks of 2025-11-25 are made with the member task and waited for with tasks/result. A
// caller that asked for a task, or declares that it knows tasks, gets the task as it is,
// and its requests about the task are relayed. If the server requires a task and the caller
// knows none, the task is made and waited for here. The call then takes as long as its
// task, ends it when it is cancelled or takes too long, and puts the task's questions as
// its own.

// taskParams is the member task of a tools/call that is to run as a task, otherwise nil. A
// task that is waited for here need not live longer than the wait.
func (s *session) taskParams(c *mcp.Call) mcp.Raw {
	switch {
	case c.Method != mcp.MethodToolsCall || !s.server.Tasks:
		return nil
	case c.Task != nil && c.Tasks == mcp.NoTasks:
		return mcp.Object("ttl", mcp.Int(s.env.Timeout.Total.Milliseconds()))
	}
	return c.Task
}

// created handles the task that a tools/call has made: it goes to the caller, or is waited
// for.
func (x *exchange) created(ctx context.Context, task mcp.Raw) (*mcp.Reply, error) {
	s, c, id := x.s, x.call, mcp.TaskID(task)
	switch {
	case id == "":
		x.free()
		return nil, transport.Garbage("a task without an id that can be used")
	case c.Tasks != mcp.NoTasks:
		if c.Ephemeral {
			s.lastsFor(task)
		}
		x.free()
		return &mcp.Reply{Result: task, Task: true}, nil
	}
	s.hold() // until the task is over
	x.free()
	y := &exchange{call: c, task: id, ours: true, token: x.id}
	request := &mcp.Call{Method: mcp.MethodTasksResult, Name: id, Caller: c.Caller, Trace: c.Trace}
	reply, err := s.begin(ctx, y, request, func() { s.reportTask(y, dialect.PollPause(task)) })
	if errors.Is(err, transport.ErrSessionGone) {
		s.lose()
	}
	return reply, dialect.Begun(err)
}

// reportTask reports the state of a task that is waited for here to a caller that wants
// progress.
func (s *session) reportTask(x *exchange, pause time.Duration) {
	if x.call.Params.At("_meta", wire.MetaProgressToken).IsNull() {
		return
	}
	s.env.Spawn(func() {
		said := ""
		for progress := int64(1); dialect.Wait(x.life, pause) == nil; {
			if !x.life.WaitedFor() {
				continue // its caller answers a question
			}
			result, err := s.request(x.life, mcp.MethodTasksGet, mcp.Object("taskId", mcp.String(x.task)))
			if err != nil {
				continue // tasks/result reports it
			}
			task := wire.ReadTask(result)
			pause = dialect.PollPause(task)
			message, _ := task.Member("statusMessage")
			if text := message.Text(); text != "" && text != said {
				said = text
				x.tell(mcp.Event{Method: mcp.NoteProgress, Params: mcp.Object(
					wire.MetaProgressToken, mcp.Int(x.id), "progress", mcp.Int(progress), "message", message)})
				progress++
			}
		}
	})
}

// taskReply translates the answer about a task into the inner language.
func (x *exchange) taskReply(result mcp.Raw) mcp.Raw {
	switch x.call.Method {
	case mcp.MethodTasksGet, mcp.MethodTasksCancel:
		return wire.ReadTask(result)
	}
	if x.ours { // its caller knows of no task
		return unrelate(result)
	}
	return result
}

// dropTask ends the task of a call that waited for it here, however the call ended.
func (x *exchange) dropTask() {
	if !x.ours {
		return
	}
	s := x.s
	s.env.Farewell(func() {
		ctx, cancel := s.env.Goodbye()
		defer cancel()
		if _, err := s.request(ctx, mcp.MethodTasksCancel, mcp.Object("taskId", mcp.String(x.task))); err != nil {
			s.env.Log.Debug("task not cancelled", "error", err)
		}
	})
}

// overdue turns the time limit of a call that waits for a task into a useful error: the task itself
// has no time limit.
func (x *exchange) overdue(err error) error {
	if x.task == "" || x.ours || !errors.Is(err, transport.ErrTimeout) {
		return err
	}
	return mcp.UpstreamError(failure.UpstreamTimeout, x.s.env.Upstream, mcp.ExecutedUnknown,
		"The task at upstream %s has not ended within %s; ask for its result again", x.s.env.Upstream, x.s.env.Timeout.Total)
}
