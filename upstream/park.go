package upstream

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// codeRejected is what a server is told when the user did not want to sample
// (2025-11-25 client/sampling#error-handling).
const codeRejected = -1

// askGrace is how much longer a call of a client with a session stays parked than its
// questions may be answered: whoever asked comes back and says that there was no answer.
const askGrace = 5 * time.Second

// cancelWait is how long a server may take to end a call that was cancelled, before the
// questions of that are answered: one that does not know of cancellations waits for them.
const cancelWait = 500 * time.Millisecond

// park puts a call aside whose server asks, and returns the questions. Its time limit
// and its caller do not concern it until the answers come; its progress still goes to
// the caller, who may listen on.
func (u *Upstream) park(x *exchange) (*mcp.Reply, error) {
	x.life.Pause()
	x.mu.Lock()
	x.life.Room.Store(x.outside()) // the request's is freed
	requests := make([]mcp.InputRequest, len(x.open))
	for i, q := range x.open {
		requests[i] = q.request
	}
	x.mu.Unlock()
	handle, limit := rand.Text(), u.cfg.Timeout.Ask
	if !x.call.Ephemeral {
		limit += askGrace
	}
	begin := func() (*exchange, error) { return x, nil }
	if _, err := u.parks.Park(handle, x.call.Caller.User(), u.cfg.Limits.asks(&x.call.Caller), limit, begin); err != nil {
		x.giveUp()
		return nil, mcp.UpstreamError(mcp.CodeOverloaded, u.cfg.Name, mcp.ExecutedUnknown,
			"Too many calls to upstream %s wait for an answer of this user", u.cfg.Name)
	}
	return &mcp.Reply{Ask: &mcp.Ask{Requests: requests, State: handle, Here: true, Expires: time.Now().Add(u.cfg.Timeout.Ask)}}, nil
}

// takeParked takes the parked call of a retry. It belongs to one session and user.
func (u *Upstream) takeParked(c *mcp.Call) (*exchange, bool) {
	return u.parks.Take(c.State, func(x *exchange) bool {
		was := x.call
		if was.Session != c.Session || was.Caller.User() != c.Caller.User() || was.Method != c.Method || was.Name != c.Name {
			return false
		}
		// What the server may ask next has to be declared with this request, too.
		return !c.Ephemeral || dialect.Declare(c.Caps, x.s.rev).Raw == dialect.Declare(was.Caps, x.s.rev).Raw
	})
}

// retry goes on with a parked call: sends the answers and waits for what comes next.
func (u *Upstream) retry(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	x, ok := u.takeParked(c)
	if !ok {
		return nil, errNotParked()
	}
	x.life.Resume(ctx, u.cfg.Timeout.Call, u.cfg.Timeout.Total)
	x.life.Room.Store(c.Room)
	if x.task != "" {
		x.life.Patiently()
	}
	x.mu.Lock()
	x.notify = c.Notify // before the answers are sent: progress may follow at once
	x.mu.Unlock()
	settled, left := x.settle(c)
	if err := x.pass(settled); err != nil {
		x.end(nil, x.life.Why(err))
		x.life.Cancel(nil) // ends the pump's reading
	}
	if left > 0 && !x.over() {
		return u.park(x)
	}
	return x.wait(ctx)
}

func errNotParked() *mcp.Error {
	return &mcp.Error{
		Code:    mcp.CodeInvalidParams,
		Message: "Invalid params: requestState is not one that waits for answers; make the call anew",
		Data:    mcp.Object("reason", mcp.String("expired")),
	}
}

// answered is a question with what the server is told.
type answered struct {
	question
	body []byte
}

// pass sends answers, up to the first that cannot be.
func (x *exchange) pass(settled []answered) error {
	var err error
	for _, a := range settled {
		if err = x.s.conn.Post(x.life, a.body); err != nil {
			break
		}
	}
	switch name := x.s.u.cfg.Name; {
	case err == nil:
		return nil
	case errors.Is(err, transport.ErrSessionGone):
		x.s.u.pool.lose(x.s)
		return mcp.UpstreamError(mcp.CodeUpstreamSessionLost, name, mcp.ExecutedUnknown,
			"Upstream %s lost the session while the call waited for an answer; make the call anew", name)
	}
	// Whatever became of the answer, the call itself was sent.
	return fmt.Errorf("%w: the answer of the user was not taken: %v", transport.ErrBroken, err)
}

// settle takes out the questions that were answered, with the answers as the server gets
// them. A question without an answer, or with a malformed one, stays open.
func (x *exchange) settle(c *mcp.Call) (settled []answered, left int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var open []question
	for _, q := range x.open {
		answer, refusal := c.Answers[q.request.Key], c.Refused[q.request.Key]
		switch {
		case refusal != nil:
			x.room.Give(int64(len(q.request.Params)))
			settled = append(settled, answered{q, wire.AppendError(nil, q.id, refusal)})
		case wire.ValidAnswer(q.request.Method, answer):
			if q.request.Method == mcp.MethodRootsList && !c.Ephemeral {
				x.s.slot.state.Roots.Learn(answer, q.changes)
			}
			x.room.Give(int64(len(q.request.Params)))
			settled = append(settled, answered{q, x.s.answer(q, answer)})
		default:
			open = append(open, q)
		}
	}
	x.open = open
	return settled, len(open)
}

// answer writes the answer to a question in the words of the server's revision.
func (s *session) answer(q question, answer mcp.Raw) []byte {
	answer, err := s.rev.Answer(q.request.Method, answer)
	if err != nil {
		return wire.AppendError(nil, q.id, mcp.Errorf(mcp.CodeInternal, "the client's answer cannot be passed on: %v", err))
	}
	return wire.AppendResult(nil, q.id, answer)
}

// letGo ends the parked call of a retry that will never be made.
func (u *Upstream) letGo(c *mcp.Call) {
	if x, ok := u.takeParked(c); ok {
		u.spawn(x.giveUp)
	}
	if strings.HasPrefix(c.State, taskState) {
		u.spawn(func() { u.letTaskGo(c) })
	}
}

// giveUp tells the server that the call is over, and then, unless it has ended the call,
// that its questions will not be answered. In the other order an official server loses its
// session: the cancellation meets a call that has just gone on and ended.
func (x *exchange) giveUp() {
	x.mu.Lock()
	open := x.open
	x.open = nil
	over := x.done
	x.mu.Unlock()
	if !over && x.s.u.cfg.Transport != transportStdio { // over stdio the stream says it
		x.s.post(transport.Cancelled(x.id, "nobody answered in time"))
		if len(open) > 0 && x.ends() {
			open = nil
		}
	}
	if !over {
		x.abandon()
	}
	x.end(nil, transport.ErrTimeout)
	x.life.End() // ends the pump's reading
	s := x.s
	s.u.pool.hold(s)
	defer s.u.pool.release(s)
	x.free()
	for _, q := range open {
		switch q.request.Method {
		case mcp.MethodElicit:
			s.post(wire.AppendResult(nil, q.id, mcp.Raw(`{"action":"cancel"}`)))
		case mcp.MethodCreateMessage:
			s.post(wire.AppendError(nil, q.id, mcp.Errorf(codeRejected, "the user did not answer")))
		default:
			s.post(wire.AppendError(nil, q.id, mcp.Errorf(mcp.CodeInternal, "the client did not answer")))
		}
	}
}

// ends waits a moment for the server to answer a call that it was told is cancelled.
func (x *exchange) ends() bool {
	timer := time.NewTimer(cancelWait)
	defer timer.Stop()
	for waits := true; waits && !x.over(); {
		select {
		case <-x.wake:
		case <-timer.C:
			waits = false
		case <-x.s.u.base.Done():
			waits = false
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	_, refused := errors.AsType[*mcp.Error](x.err)
	return x.done && (x.err == nil || refused)
}
