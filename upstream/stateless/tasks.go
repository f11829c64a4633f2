package stateless

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// This file is about tasks of the extension. If a server insists on a task and the caller
// knows none, the task is polled until it ends, and its questions are put as those of the
// call.

// maxPolls is how many polls of a task may fail in a row.
const maxPolls = 3

// openTask returns a task with its questions in a form that may be passed on. It leaves out
// questions in the task's error.
func (d *Dialect) openTask(declared dialect.Capabilities, task mcp.Raw) (mcp.Raw, error) {
	if failed, ok := task.Member("error"); ok {
		task = task.With("error", dialect.TaskError(d.env.Upstream, failed))
	}
	requests, ok := task.Member("inputRequests")
	if !ok {
		return task, nil
	}
	reply, err := d.askReply(declared, mcp.Object("inputRequests", requests))
	if err != nil {
		return nil, err
	}
	clean := mcp.Raw(`{}`)
	for _, q := range reply.Ask.Requests {
		clean = clean.With(q.Key, q.Entry())
	}
	return task.With("inputRequests", clean), nil
}

// insistsOnTasks reports whether a server refused a call only because its client does not
// declare the extension.
func insistsOnTasks(c *mcp.Call, declared dialect.Capabilities, refused *mcp.Error) bool {
	if c.Method != mcp.MethodToolsCall || declared.Tasks || refused.Code != mcp.CodeMissingCapability {
		return false
	}
	required := refused.Data.At("requiredCapabilities")
	others := required.Edit(mcp.Edit{Name: "extensions"})
	extensions := required.At("extensions").Edit(mcp.Edit{Name: mcp.TasksExtension})
	return mcp.DeclaresTasks(required) && string(others) == "{}" && string(extensions) == "{}"
}

// callInTask makes a call on behalf of a client that knows no tasks, and waits for the
// resulting task.
func (d *Dialect) callInTask(ctx context.Context, conn transport.Conn, rev *wire.Revision, c *mcp.Call,
	declared dialect.Capabilities) (*mcp.Reply, error) {
	defer d.env.Hold()()
	reply, err := d.roundTrip(ctx, conn, rev, c, declared)
	if err == nil {
		reply, err = d.reply(c, declared, reply)
	}
	if err != nil || !reply.Task {
		return reply, err
	}
	w := &taskWait{d: d, conn: conn, rev: rev, call: c, declared: declared, id: mcp.TaskID(reply.Result)}
	return w.wait(ctx, dialect.PollPause(reply.Result))
}

// taskWait is a call that waits for its task. Between two rounds of questions nothing of it
// is stored here: everything is in the Round.
type taskWait struct {
	d        *Dialect
	conn     transport.Conn
	rev      *wire.Revision
	call     *mcp.Call
	declared dialect.Capabilities
	id       string
	answered []string // keys, unique for the lifetime of a task

	said     string // the last message of its state
	progress int64
}

// round encodes the task's id and the answered keys in JSON.
func (w *taskWait) round() mcp.Round {
	ids, _ := json.Marshal(append([]string{w.id}, w.answered...)) // strings always have a form in JSON
	return mcp.NewRound(mcp.FrameTask, string(ids))
}

// waiting returns the wait that the Round of a call describes.
func (d *Dialect) waiting(conn transport.Conn, rev *wire.Revision, c *mcp.Call) *taskWait {
	w := &taskWait{d: d, conn: conn, rev: rev, call: c, declared: dialect.Declare(c.Caps, rev).WithTasks()}
	var ids []string
	_ = json.Unmarshal([]byte(c.Round.Top().Value), &ids) // it is what round has made
	if len(ids) > 0 {
		w.id, w.answered = ids[0], ids[1:]
	}
	return w
}

// resume continues with the answers to the last questions.
func (w *taskWait) resume(ctx context.Context) (*mcp.Reply, error) {
	defer w.d.env.Hold()()
	c := w.call
	c.Reached()
	for key, why := range c.Refused {
		if _, ok := c.Answers[key]; !ok { // there is no way to say this to the server
			w.cancel()
			return unanswered(w.d.env.Upstream, c, why)
		}
	}
	if len(c.Answers) > 0 {
		update := &mcp.Call{Method: mcp.MethodTasksUpdate, Answers: c.Answers}
		if _, err := w.ask(ctx, update); err != nil {
			return nil, w.lost(ctx, err)
		}
		w.answered = slices.AppendSeq(w.answered, maps.Keys(c.Answers))
		slices.Sort(w.answered)
		w.answered = slices.Compact(w.answered)
	}
	return w.wait(ctx, dialect.LeastPoll)
}

// wait polls the task until it ends or asks something.
func (w *taskWait) wait(ctx context.Context, pause time.Duration) (*mcp.Reply, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer time.AfterFunc(w.d.env.Timeout.Total, func() { stop(transport.ErrTimeout) }).Stop()
	defer context.AfterFunc(w.d.env.Base, func() { stop(dialect.ErrClosed) })()
	failures := 0
	for {
		if err := dialect.Wait(ctx, pause); err != nil {
			return nil, w.lost(ctx, err)
		}
		reply, err := w.ask(ctx, &mcp.Call{Method: mcp.MethodTasksGet})
		if err != nil {
			if _, answered := errors.AsType[*mcp.Error](err); answered || ctx.Err() != nil || failures == maxPolls {
				return nil, w.lost(ctx, err)
			}
			failures++
			continue
		}
		failures, pause = 0, dialect.PollPause(reply.Result)
		if reply, err := w.look(reply.Result); reply != nil || err != nil {
			return reply, err
		}
	}
}

// look handles the state of the task; it returns nothing while there is nothing to do.
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
		return nil, transport.Garbage("a completed task without a result")
	case mcp.TaskFailed:
		if why, _ := task.Member("error"); why.IsObject() {
			return nil, w.declared.NotOurs(wire.ReadError(why))
		}
	case mcp.TaskCancelled:
	default:
		w.cancel()
		return nil, transport.Garbage("a task whose state is %.40q", status.Text())
	}
	return nil, dialect.TaskOver(w.d.env.Upstream, task)
}

// question makes an Ask of the questions that were not answered yet: the server may take a
// while to notice an answer.
func (w *taskWait) question(task mcp.Raw) (*mcp.Reply, error) {
	reply, err := w.d.askReply(w.declared, mcp.Object("inputRequests", task.At("inputRequests")))
	if err != nil {
		w.cancel()
		return nil, err
	}
	ask := reply.Ask
	ask.Requests = slices.DeleteFunc(ask.Requests,
		func(r mcp.InputRequest) bool { return slices.Contains(w.answered, r.Key) })
	if len(ask.Requests) == 0 {
		return nil, nil
	}
	if !w.d.env.Admit.MayAsk(w.call, ask.Requests...) {
		w.cancel()
		return nil, w.d.env.Admit.AskedTooMuch()
	}
	ask.Round = w.round()
	return reply, nil
}

// report reports the state of the task to a caller that wants progress.
func (w *taskWait) report(task mcp.Raw) {
	token := w.call.Params.At("_meta", wire.MetaProgressToken)
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
func (w *taskWait) ask(ctx context.Context, about *mcp.Call) (*mcp.Reply, error) {
	about.Name, about.Caller, about.Trace, about.Notify = w.id, w.call.Caller, w.call.Trace, nothing
	return w.d.roundTrip(ctx, w.conn, w.rev, about, w.declared)
}

// lost ends a wait that failed: the task is no longer wanted.
func (w *taskWait) lost(ctx context.Context, err error) error {
	w.cancel()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if e, ok := errors.AsType[*mcp.Error](err); ok {
		return w.declared.NotOurs(e)
	}
	return dialect.Begun(err)
}

// cancel tells the server that the task is no longer wanted.
func (w *taskWait) cancel() { w.d.env.Farewell(w.sayCancel) }

// sayCancel is not an exchange that Close would end, because it has to run during Close.
func (w *taskWait) sayCancel() {
	ctx, cancel := w.d.env.Goodbye()
	defer cancel()
	call := &mcp.Call{Method: mcp.MethodTasksCancel, Name: w.id, Caller: w.call.Caller, Notify: nothing[mcp.Event]}
	_, err := w.d.send(transport.NewLife(ctx, dialect.Goodbye, dialect.Goodbye), w.conn, w.rev, call, w.declared)
	if _, answered := errors.AsType[*mcp.Error](err); err != nil && !answered { // the task may have ended
		w.d.env.Log.Debug("task not cancelled", "error", err)
	}
}

// cancelTask cancels the task in the Round of a call that gets no answers to its questions.
func (d *Dialect) cancelTask(e *dialect.Era, c *mcp.Call) {
	ctx, stop := d.env.Goodbye()
	defer stop()
	l, err := d.connect(ctx, e, c)
	if err != nil {
		d.env.Log.Debug("task not cancelled", "error", err)
		return
	}
	defer d.links.Release(l.at)
	d.waiting(l.Conn, e.Rev, c).sayCancel()
}
