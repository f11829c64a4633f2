package upstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// taskParams is the member task of a tools/call that shall run as a task; nil for one
// that shall not. A task that is waited for here need not live longer than the wait.
func (s *session) taskParams(c *mcp.Call) mcp.Raw {
	switch {
	case c.Method != mcp.MethodToolsCall || !s.server.Tasks:
		return nil
	case c.Task != nil && c.Tasks == mcp.NoTasks:
		return mcp.Object("ttl", mcp.Int(s.u.cfg.Timeout.Total.Milliseconds()))
	}
	return c.Task
}

// created takes the task that a tools/call has made: it is the caller's, or waited for.
func (x *exchange) created(ctx context.Context, task mcp.Raw) (*mcp.Reply, error) {
	s, c, id := x.s, x.call, mcp.TaskID(task)
	switch {
	case id == "":
		x.free()
		return nil, fmt.Errorf("%w: a task without an id that can be used", transport.ErrGarbage)
	case c.Tasks != mcp.NoTasks:
		if c.Ephemeral {
			s.lastsFor(task)
		}
		x.free()
		return &mcp.Reply{Result: task, Task: true}, nil
	}
	s.u.pool.hold(s) // until the task is over
	x.free()
	y := &exchange{call: c, task: id, ours: true, token: x.id}
	request := &mcp.Call{Method: mcp.MethodTasksResult, Name: id, Caller: c.Caller}
	reply, err := s.begin(ctx, y, request, func() { s.reportTask(y, pollPause(task)) })
	if errors.Is(err, transport.ErrSessionGone) {
		s.u.pool.lose(s)
	}
	return reply, begun(err)
}

// reportTask tells the caller of a task that is waited for, if they want to know of the
// progress, what its server says of its state.
func (s *session) reportTask(x *exchange, pause time.Duration) {
	meta, _ := x.call.Params.Member("_meta")
	if token, _ := meta.Member(wire.MetaProgressToken); token.IsNull() {
		return
	}
	s.u.spawn(func() {
		said := ""
		for progress := int64(1); wait(x.life, pause) == nil; {
			if !x.life.WaitedFor() {
				continue // its caller answers a question
			}
			m, err := s.request(x.life, mcp.MethodTasksGet, mcp.Object("taskId", mcp.String(x.task)))
			if err != nil || m.Error != nil {
				continue // tasks/result will tell
			}
			task := wire.ReadTask(m.Result)
			pause = pollPause(task)
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

// taskReply returns the answer about a task in the words of the inner language.
func (x *exchange) taskReply(result mcp.Raw) mcp.Raw {
	switch x.call.Method {
	case mcp.MethodTasksGet, mcp.MethodTasksCancel:
		return wire.ReadTask(result)
	}
	if x.ours { // for its caller there is no task
		return unrelate(result)
	}
	return result
}

// cancelTask tells the server that nobody wants the task any more that was made here.
func (s *session) cancelTask(id string) {
	say := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.base), goodbye)
		defer cancel()
		m, err := s.request(ctx, mcp.MethodTasksCancel, mcp.Object("taskId", mcp.String(id)))
		if err != nil || m.Error != nil {
			s.u.log.Debug("task not cancelled", "error", err)
		}
	}
	if s.u.base.Err() != nil { // Close ends the session next, so now is the time
		say()
		return
	}
	s.u.spawn(say)
}

// abandon ends the task of a call that is waited for here and will not be, whatever it
// was that ended the call.
func (x *exchange) abandon() {
	if x.ours {
		x.s.cancelTask(x.task)
	}
}

// overdue makes of the time limit of a call that waits for a task what its caller can do
// about it: the task itself has none.
func (x *exchange) overdue(err error) error {
	if x.task == "" || x.ours || !errors.Is(err, transport.ErrTimeout) {
		return err
	}
	return mcp.UpstreamError(mcp.CodeUpstreamTimeout, x.s.u.cfg.Name, mcp.ExecutedUnknown,
		"The task at upstream %s has not ended within %s; ask for its result again", x.s.u.cfg.Name, x.s.u.cfg.Timeout.Total)
}

// taskOf returns the call that waits for the task which a message belongs to
// (2025-11-25 basic/utilities/tasks#related-task-metadata), nil for none.
func (s *session) taskOf(m wire.Message) *exchange {
	meta, _ := m.Params.Member("_meta")
	task, ok := meta.Member(wire.MetaRelatedTask)
	if !ok {
		return nil
	}
	id := mcp.TaskID(task)
	for _, x := range s.all() {
		if x.task != "" && x.task == id {
			return x
		}
	}
	return nil
}
