package stateful

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// This file gives clients of the extension the tasks of a 2025-11-25 server. Whatever
// tasks/get reports to them at once is fetched there with tasks/result: the result of a
// task that has ended, and the questions of one that still runs. For the questions the
// request is held open while the client keeps coming back. An answer arrives by
// tasks/update and goes to the request that the server made. At many servers a task belongs
// to its session, so the session of a client without one is kept longer while it may have
// tasks.

const (
	// firstQuestion is how long a client waits for the questions of a task after its server has
	// said that there are some.
	firstQuestion = 2 * time.Second
	// usualLife is how long a session is kept for a task that does not state its lifetime;
	// mostLife is the limit for any task.
	usualLife = time.Hour
	mostLife  = 24 * time.Hour
)

// bridge answers a call about a task from a client of the extension, and releases the
// session.
func (s *session) bridge(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	defer s.release()
	about := mcp.Object("taskId", mcp.String(c.Name))
	switch c.Method {
	case mcp.MethodTasksUpdate:
		if x, ok := s.d.parks.find(s.handle(c.Name)); ok {
			answers, _ := x.settle(c)
			for _, body := range answers {
				x.s.post(body)
			}
		} // otherwise nothing is open, and answers to nothing are ignored
		return &mcp.Reply{Result: mcp.Raw(`{}`)}, nil
	case mcp.MethodTasksCancel:
		_, err := s.request(ctx, c.Method, about)
		if _, refused := errors.AsType[*mcp.Error](err); refused { // the task may have ended, which is just as good
			_, err = s.request(ctx, mcp.MethodTasksGet, about)
		}
		if err != nil {
			return nil, s.refusal(err)
		}
		if x, ok := s.d.parks.take(s.handle(c.Name), func(*exchange) bool { return true }); ok {
			x.dropLater("the client cancelled the task")
		}
		return &mcp.Reply{Result: mcp.Raw(`{}`)}, nil
	case mcp.MethodTasksGet:
		result, err := s.request(ctx, c.Method, about)
		if err != nil {
			return nil, s.refusal(err)
		}
		task, err := s.detailed(ctx, c, wire.ReadTask(result).With("taskId", mcp.String(c.Name)))
		if err != nil {
			return nil, err
		}
		return &mcp.Reply{Result: task}, nil
	}
	return nil, mcp.ErrUnknown(c.Method, c.Name)
}

// detailed returns a task with what the extension requires in it: the result, the error or
// the questions. In the extension, a task that failed with a result counts as completed.
func (s *session) detailed(ctx context.Context, c *mcp.Call, task mcp.Raw) (mcp.Raw, error) {
	id := mcp.TaskID(task)
	switch task.At("status").Text() {
	case mcp.TaskInputRequired:
		requests, err := s.questions(ctx, c, id)
		if err != nil {
			return nil, err
		}
		return task.With("inputRequests", requests), nil
	case mcp.TaskCompleted, mcp.TaskFailed:
		m, err := s.roundTrip(ctx, mcp.MethodTasksResult, mcp.Object("taskId", mcp.String(id)))
		switch {
		case err != nil:
			return nil, s.refusal(err)
		case m.Error != nil:
			return task.With("status", mcp.String(mcp.TaskFailed)).With("error", dialect.TaskError(s.env.Upstream, m.Error)), nil
		}
		return task.With("status", mcp.String(mcp.TaskCompleted)).With("result", unrelate(m.Result)), nil
	}
	return task, nil
}

// unrelate removes the reference to a task from a result, or from the params of an event.
func unrelate(object mcp.Raw) mcp.Raw {
	meta, _ := object.Member("_meta")
	switch less := meta.Without(wire.MetaRelatedTask); {
	case len(less) == len(meta):
		return object
	case string(less) == "{}":
		return object.Without("_meta")
	default:
		return object.With("_meta", less)
	}
}

// questions returns the open questions of a task as inputRequests. It waits a short time
// for the first one.
func (s *session) questions(ctx context.Context, c *mcp.Call, id string) (mcp.Raw, error) {
	x, err := s.heldTask(c, id)
	if err != nil {
		return nil, err
	}
	late, cancel := context.WithTimeout(ctx, firstQuestion)
	defer cancel()
	x.await(late, func() bool { return x.asks() || x.over() })
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	x.signal() // wakes other callers that wait for the questions
	x.mu.Lock()
	defer x.mu.Unlock()
	requests := mcp.Raw(`{}`)
	for _, q := range x.open {
		request := q.request
		request.Params, err = wire.Stateless().Ask(request.Method, request.Params) // no edge converts questions inside a task
		if err != nil {
			return nil, mcp.Errorf(failure.QuestionImpossible, "the client cannot be asked this: %v", err)
		}
		requests = requests.With(request.Key, request.Entry())
	}
	return requests, nil
}

// handle identifies the request that holds the questions of a task; it is never disclosed.
func (s *session) handle(task string) string { return s.at.Data.id + " " + task }

// heldTask returns the request that holds the questions of a task, and makes one if there is none.
// Its time limit restarts.
func (s *session) heldTask(c *mcp.Call, task string) (*exchange, error) {
	x, err := s.d.parks.park(s.handle(task), c.Caller.User(), s.d.cfg.Asks(&c.Caller), s.env.Timeout.Ask,
		func() (*exchange, error) {
			life, err := s.env.Life(context.WithoutCancel(s.base), true)
			if err != nil {
				return nil, err
			}
			life.Pause() // no caller waits
			s.hold()
			// Keys are unique for the lifetime of a task, which may be held more than once.
			x := &exchange{
				s: s, id: s.env.NextID(), life: life, task: task, wake: make(chan struct{}, 1), elsewhere: true,
				pumped: make(chan struct{}),
				keys:   strings.ToLower(rand.Text()[:8]) + "-",
				call: &mcp.Call{Method: mcp.MethodTasksResult, Name: task, Caller: c.Caller, Caps: c.Caps, Session: c.Session,
					Ephemeral: c.Ephemeral},
			}
			life.Room.Store(x.outside()) // no other goroutine knows x yet
			s.calls.add(x)
			s.env.Spawn(x.readHeld)
			return x, nil
		})
	switch {
	case errors.Is(err, errParkingClosed):
		return nil, admit.ErrDraining
	case errors.Is(err, errParkingFull):
		return nil, mcp.UpstreamError(failure.UpstreamBusy, s.env.Upstream, mcp.ExecutedNo,
			"Too many tasks of upstream %s wait for an answer of this user", s.env.Upstream)
	}
	return x, err
}

// readHeld reads the stream of a held request until its task ends or the request is given
// up.
func (x *exchange) readHeld() {
	message := dialect.Request{ID: x.id, Call: x.call, Rev: x.s.rev}
	x.pump(&transport.Request{
		ID: x.id, Method: x.call.Method, Caller: &x.call.Caller, Life: x.life, Body: message.Encode(),
	})
	if x.s.d.parks.drop(x.s.handle(x.task), x) { // otherwise its remover frees it
		for _, q := range x.forget() {
			x.s.post(unrelated(q.id))
		}
		x.free()
	}
}

// lastsFor keeps the session for a task that its client may come back for. Otherwise the
// session would end by idle time.
func (s *session) lastsFor(task mcp.Raw) {
	life := usualLife
	if ttl, ok := dialect.Milliseconds(task.At("ttlMs")); ok {
		life = min(ttl, mostLife)
	}
	s.d.pool.KeepUntil(s.at, time.Now().Add(life))
}

// inForm converts an event to the form that a listener knows; ok is false if that is
// impossible.
func (s *session) inForm(ctx context.Context, c *mcp.Call, e mcp.Event) (_ mcp.Event, ok bool) {
	if e.Method != mcp.NoteTask || c.Tasks != mcp.ExtensionTasks {
		return e, true
	}
	task, err := s.detailed(ctx, c, e.Params)
	return mcp.Event{Method: e.Method, Params: task}, err == nil
}
