package upstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

const (
	resultTask = "task"
	// maxPolls is how often in a row a task may fail to tell how it is.
	maxPolls = 3
)

// isTask reports whether a result is a task that can be handed on.
func isTask(result mcp.Raw) bool {
	status, _ := result.Member("status")
	return mcp.TaskID(result) != "" && status.Text() != ""
}

// openTask returns a task with the questions that it asks as they may be handed on, those
// in its error not at all.
func (u *Upstream) openTask(declared dialect.Capabilities, task mcp.Raw) (mcp.Raw, error) {
	if failed, ok := task.Member("error"); ok {
		task = task.With("error", dialect.TaskError(u.cfg.Name, failed))
	}
	requests, ok := task.Member("inputRequests")
	if !ok {
		return task, nil
	}
	reply, err := u.askReply(declared, mcp.Object("inputRequests", requests))
	if err != nil {
		return nil, err
	}
	clean := mcp.Raw(`{}`)
	for _, q := range reply.Ask.Requests {
		request := mcp.Object("method", mcp.String(q.Method))
		if q.Params != nil {
			request = request.With("params", q.Params)
		}
		clean = clean.Edit(mcp.Edit{Name: q.Key, Value: request})
	}
	return task.With("inputRequests", clean), nil
}

// insistsOnTasks reports whether a server refused a call for the sole reason that its
// client does not declare the extension.
func insistsOnTasks(c *mcp.Call, declared dialect.Capabilities, refused *mcp.Error) bool {
	if c.Method != mcp.MethodToolsCall || declared.Tasks || refused.Code != mcp.CodeMissingCapability {
		return false
	}
	required, _ := refused.Data.Member("requiredCapabilities")
	others := false
	required.Members(func(name []byte, value mcp.Raw) bool {
		others = string(name) != "extensions"
		value.Members(func(name []byte, _ mcp.Raw) bool {
			others = others || string(name) != mcp.TasksExtension
			return !others
		})
		return !others
	})
	return !others && mcp.DeclaresTasks(required)
}

// callInTask makes a call on behalf of a client that knows no tasks, and waits for the
// task that comes of it.
func (u *Upstream) callInTask(ctx context.Context, conn transport.Conn, e *era, c *mcp.Call, declared dialect.Capabilities) (*mcp.Reply, error) {
	result, stream, err := u.roundTrip(ctx, conn, e, c, declared)
	if err != nil {
		return nil, err
	}
	reply, err := u.statelessReply(c, declared, stream.Reply(result))
	if err != nil || !reply.Task {
		return reply, err
	}
	w := &taskWait{u: u, conn: conn, e: e, call: c, declared: declared, id: mcp.TaskID(result)}
	return w.wait(ctx, pollPause(result))
}

// taskWait is a call that waits for its task. Between two rounds of questions nothing is
// kept of it: all is in the state.
type taskWait struct {
	u        *Upstream
	conn     transport.Conn
	e        *era
	call     *mcp.Call
	declared dialect.Capabilities
	id       string
	answered []string // keys, which are unique in the life of a task

	said     string // the last message of its state
	progress int64
}

// taskState is in front of the State of a call that waits for its task; behind it stand
// the task's id and the keys that were answered, in JSON. A state of the server that
// looks like it, or has the mark already, gets the mark.
const (
	taskState = "task:"
	stateMark = "="
)

// ownState is a server's state as it is handed out, and serverState the inverse.
func ownState(state string) string {
	if strings.HasPrefix(state, taskState) || strings.HasPrefix(state, stateMark) {
		return stateMark + state
	}
	return state
}

func serverState(state string) string { return strings.TrimPrefix(state, stateMark) }

func (w *taskWait) state() string {
	state := mcp.AppendString([]byte(taskState+"["), w.id)
	for _, key := range w.answered {
		state = mcp.AppendString(append(state, ','), key)
	}
	return string(append(state, ']'))
}

// waiting returns the wait that a state stands for, nil for a server's own.
func (u *Upstream) waiting(conn transport.Conn, e *era, c *mcp.Call) *taskWait {
	text, ok := strings.CutPrefix(c.State, taskState)
	if !ok {
		return nil
	}
	w := &taskWait{u: u, conn: conn, e: e, call: c, declared: dialect.Declare(c.Caps, e.rev).WithTasks()}
	mcp.Raw(text).Elements(func(value mcp.Raw) bool {
		if w.id == "" {
			w.id = value.Text()
		} else {
			w.answered = append(w.answered, value.Text())
		}
		return true
	})
	return w
}

// resume goes on with the answers to the last questions.
func (w *taskWait) resume(ctx context.Context) (*mcp.Reply, error) {
	c := w.call
	for key := range c.Refused {
		if _, ok := c.Answers[key]; !ok { // nothing says this to the server
			w.cancel()
			return w.u.unasked(c, "The client refused the input that upstream %s needs for this call", w.u.cfg.Name)
		}
	}
	if len(c.Answers) > 0 {
		update := &mcp.Call{Method: mcp.MethodTasksUpdate, Answers: c.Answers}
		if _, err := w.ask(ctx, update); err != nil {
			return nil, w.lost(ctx, err)
		}
		for key := range c.Answers {
			if !slices.Contains(w.answered, key) {
				w.answered = append(w.answered, key)
			}
		}
		slices.Sort(w.answered)
	}
	return w.wait(ctx, leastPoll)
}

// wait polls the task until it ends or asks.
func (w *taskWait) wait(ctx context.Context, pause time.Duration) (*mcp.Reply, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer time.AfterFunc(w.u.cfg.Timeout.Total, func() { stop(transport.ErrTimeout) }).Stop()
	defer context.AfterFunc(w.u.base, func() { stop(errClosed) })()
	failures := 0
	for {
		if err := wait(ctx, pause); err != nil {
			return nil, w.lost(ctx, err)
		}
		task, err := w.ask(ctx, &mcp.Call{Method: mcp.MethodTasksGet})
		if err != nil {
			if _, answered := errors.AsType[*mcp.Error](err); answered || ctx.Err() != nil || failures == maxPolls {
				return nil, w.lost(ctx, err)
			}
			failures++
			continue
		}
		failures, pause = 0, pollPause(task)
		if reply, err := w.look(task); reply != nil || err != nil {
			return reply, err
		}
	}
}

// look judges the state of the task; it returns nothing while there is nothing to do.
func (w *taskWait) look(task mcp.Raw) (*mcp.Reply, error) {
	status, _ := task.Member("status")
	switch status.Text() {
	case mcp.TaskWorking:
		w.report(task)
		return nil, nil
	case mcp.TaskInputRequired:
		return w.question(task)
	case mcp.TaskCompleted:
		if result, _ := task.Member("result"); result.IsObject() {
			return &mcp.Reply{Result: result}, nil
		}
		return nil, fmt.Errorf("%w: a completed task without a result", transport.ErrGarbage)
	case mcp.TaskFailed:
		if why, _ := task.Member("error"); why.IsObject() {
			return nil, w.declared.NotOurs(wire.ReadError(why))
		}
	case mcp.TaskCancelled:
	default:
		w.cancel()
		return nil, fmt.Errorf("%w: a task whose state is %.40q", transport.ErrGarbage, status.Text())
	}
	return nil, w.u.taskOver(task)
}

// question makes an Ask of those questions of the task that were not answered yet: the
// server may take a while to notice an answer.
func (w *taskWait) question(task mcp.Raw) (*mcp.Reply, error) {
	requests, _ := task.Member("inputRequests")
	reply, err := w.u.askReply(w.declared, mcp.Object("inputRequests", requests))
	if err != nil {
		w.cancel()
		return nil, err
	}
	ask := reply.Ask
	ask.Requests = slices.DeleteFunc(ask.Requests, func(r mcp.InputRequest) bool { return slices.Contains(w.answered, r.Key) })
	if len(ask.Requests) == 0 {
		return nil, nil
	}
	if !w.u.admit.MayAsk(w.call, ask.Requests...) {
		w.cancel()
		return nil, w.u.admit.AskedTooMuch()
	}
	ask.State, ask.Kept = w.state(), true
	return reply, nil
}

// report tells the caller what the server says of the state, if they want to know of
// the progress.
func (w *taskWait) report(task mcp.Raw) {
	meta, _ := w.call.Params.Member("_meta")
	token, _ := meta.Member(wire.MetaProgressToken)
	message, _ := task.Member("statusMessage")
	text := message.Text()
	if token.IsNull() || text == "" || text == w.said {
		return
	}
	w.said = text
	w.progress++
	w.call.Notify(mcp.Event{Method: mcp.NoteProgress, Params: mcp.Object(
		wire.MetaProgressToken, token, "progress", mcp.Int(w.progress), "message", message)})
}

// ask makes a request about the task.
func (w *taskWait) ask(ctx context.Context, about *mcp.Call) (mcp.Raw, error) {
	about.Name, about.Caller, about.Notify = w.id, w.call.Caller, func(mcp.Event) {}
	result, _, err := w.u.roundTrip(ctx, w.conn, w.e, about, w.declared)
	return result, err
}

// lost ends a wait that did not come to its end: nobody wants the task any more.
func (w *taskWait) lost(ctx context.Context, err error) error {
	w.cancel()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if e, ok := errors.AsType[*mcp.Error](err); ok {
		return w.declared.NotOurs(e)
	}
	return begun(err)
}

// letTaskGo cancels the task of a call that nobody will come back for.
func (u *Upstream) letTaskGo(c *mcp.Call) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(u.base), goodbye)
	defer cancel()
	err := u.inEra(ctx, c, func(e *era) error {
		if e.rev.Stateful {
			return nil // another server by now
		}
		conn, release, err := u.statelessConn(ctx, e, c)
		if err != nil {
			return err
		}
		defer release()
		u.waiting(conn, e, c).sayCancel()
		return nil
	})
	if err != nil {
		u.log.Debug("task not cancelled", "error", err)
	}
}

// cancel tells the server that nobody wants the task any more.
func (w *taskWait) cancel() {
	if w.u.base.Err() != nil { // the connection ends next, so now is the time
		w.sayCancel()
		return
	}
	w.u.spawn(w.sayCancel)
}

// sayCancel is no exchange that Close ends: it is made then, too.
func (w *taskWait) sayCancel() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.u.base), goodbye)
	defer cancel()
	id := w.u.ids.Add(1)
	out := dialect.Request{
		ID: id, Rev: w.e.rev, Meta: w.u.statelessMeta(w.e.rev, w.declared.Raw, ""),
		Call: &mcp.Call{Method: mcp.MethodTasksCancel, Name: w.id, Caller: w.call.Caller},
	}
	stream, err := w.conn.Start(&transport.Request{
		ID: id, Method: out.Call.Method, Caller: &out.Call.Caller, Life: transport.NewLife(ctx, goodbye, goodbye),
		Body: out.Append(nil), Header: w.u.callHeader(w.conn, w.e.rev, out.Call),
	})
	if err == nil {
		_, err = response(stream, id)
		stream.Close()
	}
	if err != nil {
		w.u.log.Debug("task not cancelled", "error", err)
	}
}
