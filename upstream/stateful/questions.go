package stateful

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// maxQuestions bounds the open questions of a call.
const maxQuestions = 20

// codeRejected tells the server that the user declined to sample (2025-11-25
// client/sampling#error-handling).
const codeRejected = -1

// cancelWait is how long a server may take to end a cancelled call before the call's
// questions are answered: a server that does not support cancellation waits for those
// answers.
const cancelWait = 500 * time.Millisecond

// question is a request of the server that the client has to answer.
type question struct {
	id      mcp.Raw // the server's
	request mcp.InputRequest
	changes int     // how often the roots had changed when it was asked
	params  mcp.Raw // the server's, if another call may have asked it
}

// ask accepts a question of the server; certain says that no other call can have asked it. The error
// says why the question is refused.
func (x *exchange) ask(m wire.Message, certain bool) *mcp.Error {
	if !mcp.CanAsk(x.call.Method) {
		return mcp.Errorf(failure.QuestionRefused, "the client cannot be asked during %s",
			x.call.Method).WithCode(mcp.CodeInvalidParams)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.done || len(x.open) >= maxQuestions {
		return mcp.Errorf(failure.QuestionRefused, "too many questions are open")
	}
	if !x.s.env.Admit.MayAsk(x.call, mcp.InputRequest{Method: m.Method}) {
		return admit.ErrAskedTooMuch
	}
	params, why := x.s.env.Voice.Put(m.Method, m.Params)
	if why != nil {
		return why
	}
	if !x.outside().Take(int64(len(m.Params))) {
		return mcp.Errorf(failure.QuestionRefused, "the gateway has no room for the question")
	}
	x.minted++
	// Remove members that belong to this hop, or that only some revisions know; the
	// elicitation id is ours.
	edits := []mcp.Edit{{Name: "_meta"}, {Name: "task"}, {Name: "elicitationId"}}
	if m.Method == mcp.MethodElicit && wire.IsURLMode(m.Params) {
		edits[2].Value = mcp.String(x.s.state.Pages.Mint(m.Params.At("elicitationId").Text(), x.id))
	}
	params = bytes.Clone(params.Edit(edits...))
	q := question{
		id: bytes.Clone(m.ID), request: mcp.InputRequest{Key: x.keys + "g" + strconv.Itoa(x.minted), Method: m.Method,
			Params: params},
		changes: x.s.state.Roots.Changes(),
	}
	if !certain {
		q.params = bytes.Clone(m.Params)
	}
	x.open = append(x.open, q)
	x.signal()
	return nil
}

// outside is the memory that the call takes in addition to its request's, until the call is
// freed. mu is held.
func (x *exchange) outside() *mcp.Room {
	if x.room == nil {
		x.room = x.s.env.Memory.Outside(x.s.env.Upstream, admit.User(&x.call.Caller))
	}
	return x.room
}

// withdraw forgets a question that the server has withdrawn, and tells the caller, who may be
// showing it.
func (x *exchange) withdraw(id mcp.Raw) {
	x.mu.Lock()
	defer x.mu.Unlock()
	i := slices.IndexFunc(x.open, func(q question) bool { return bytes.Equal(q.id, id) })
	if i < 0 {
		return
	}
	x.room.Give(int64(len(x.open[i].request.Params)))
	x.tellWithdrawn(x.open[i])
	x.open = slices.Delete(x.open, i, i+1)
}

// tellWithdrawn is called with mu held.
func (x *exchange) tellWithdrawn(q question) {
	if x.notify != nil {
		x.notify(mcp.Event{Method: mcp.NoteCancelled, Params: mcp.Object("key", mcp.String(q.request.Key))})
	}
}

// park puts a call aside because its server asks, and returns the questions. Until the answers
// come, neither its time limit nor its caller's context affects it. Its progress still goes to the
// caller, who may listen on.
func (x *exchange) park() (*mcp.Reply, error) {
	x.life.Pause()
	x.mu.Lock()
	x.life.Room.Store(x.outside()) // the room of the request is freed
	requests := make([]mcp.InputRequest, len(x.open))
	for i, q := range x.open {
		requests[i] = q.request
	}
	x.mu.Unlock()
	d, handle, limit := x.s.d, rand.Text(), x.s.env.Timeout.Ask
	expires := time.Now().Add(limit)
	if !x.call.Ephemeral {
		limit += askGrace
	}
	begin := func() (*exchange, error) { return x, nil }
	if _, err := d.parks.park(handle, x.call.Caller.User(), d.cfg.Asks(&x.call.Caller), limit, begin); err != nil {
		x.drop("too many calls wait for an answer of this user")
		return nil, mcp.UpstreamError(failure.UpstreamBusy, x.s.env.Upstream, mcp.ExecutedUnknown,
			"Too many calls to upstream %s wait for an answer of this user", x.s.env.Upstream)
	}
	drop := func(reason string) {
		if d.parks.drop(handle, x) {
			x.dropLater(reason)
		}
	}
	return &mcp.Reply{Ask: &mcp.Ask{
		Requests: requests, Round: mcp.NewRound(mcp.FrameParked, handle), Here: true, Expires: expires, Drop: drop,
	}}, nil
}

// takeParked takes the parked call that a retry belongs to, if session and user match.
func (d *Dialect) takeParked(c *mcp.Call) (*exchange, bool) {
	handle, _, ok := c.Round.Pop(mcp.FrameParked)
	if !ok { // it began when the server spoke another revision
		return nil, false
	}
	return d.parks.take(handle, func(x *exchange) bool {
		was := x.call
		if was.Session != c.Session || was.Caller.User() != c.Caller.User() || was.Method != c.Method || was.Name != c.Name {
			return false
		}
		// The retry must also declare what the server may ask next.
		return !c.Ephemeral || dialect.Declare(c.Caps, x.s.rev).Raw == dialect.Declare(was.Caps, x.s.rev).Raw
	})
}

// Waits reports whether a call is parked here for the retry with this Round.
func (d *Dialect) Waits(round mcp.Round) bool {
	handle, _, parked := round.Pop(mcp.FrameParked)
	_, ok := d.parks.find(handle)
	return ok && parked
}

// retry resumes a parked call: it sends the answers and waits for what comes next.
func (d *Dialect) retry(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	x, ok := d.takeParked(c)
	if !ok {
		if c.Verdict != nil && c.Verdict.Executed == "" {
			c.Verdict.Executed = mcp.ExecutedUnknown // its server asked while it ran
		}
		return nil, mcp.ErrRound()
	}
	c.Reached()
	x.life.Resume(ctx, d.env.Timeout.Call, d.env.Timeout.Total)
	x.life.Room.Store(c.Room)
	if x.task != "" {
		x.life.Patiently()
	}
	x.mu.Lock()
	x.notify, x.trail = c.Notify, c.Trail // before the answers are sent: progress may follow at once
	x.mu.Unlock()
	answers, left := x.settle(c)
	if err := x.pass(answers); err != nil {
		x.end(nil, x.life.Why(err))
		x.life.Cancel(nil) // stops the pump
	}
	if left > 0 && !x.over() {
		return x.park()
	}
	return x.wait(ctx, nil)
}

// pass sends answers until one fails.
func (x *exchange) pass(answers [][]byte) error {
	for _, body := range answers {
		x.follows().ToServer(nil, body)
		err := x.s.conn.Post(x.life, body)
		switch name := x.s.env.Upstream; {
		case errors.Is(err, transport.ErrSessionGone):
			x.s.lose()
			return mcp.UpstreamError(failure.UpstreamSessionLost, name, mcp.ExecutedUnknown,
				"Upstream %s lost the session while the call waited for an answer; make the call from the beginning", name)
		case err != nil: // the call itself was sent, whatever became of the answer
			return fmt.Errorf("%w: the answer of the user was not taken: %v", transport.ErrBroken, err)
		}
	}
	return nil
}

// settle removes the answered questions, and returns the answers in the server's form. A
// question without an answer, or with a malformed one, stays open.
func (x *exchange) settle(c *mcp.Call) (answers [][]byte, left int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var open []question
	for _, q := range x.open {
		answer, refusal := c.Answers[q.request.Key], c.Refused[q.request.Key]
		switch {
		case refusal != nil:
			answers = append(answers, wire.AppendError(nil, q.id, refusal))
		case wire.ValidAnswer(q.request.Method, answer):
			if q.request.Method == mcp.MethodRootsList && !c.Ephemeral {
				x.s.state.Roots.Learn(answer, q.changes)
			}
			answers = append(answers, x.s.answer(q.id, q.request.Method, answer))
		default:
			open = append(open, q)
			continue
		}
		x.room.Give(int64(len(q.request.Params)))
	}
	x.open = open
	return answers, len(open)
}

// forget removes the open questions, and returns them.
func (x *exchange) forget() []question {
	x.mu.Lock()
	defer x.mu.Unlock()
	open := x.open
	x.open = nil
	return open
}

// dropLater gives up a call that was parked, in the background.
func (x *exchange) dropLater(reason string) { x.s.env.Spawn(func() { x.drop(reason) }) }

// drop tells the server that the call is over, and why. Then, unless the server has ended the
// call, it says that the questions will not be answered. The other order makes an official
// server lose its session: the cancellation meets a call that has just resumed and ended.
func (x *exchange) drop(reason string) {
	open, over := x.forget(), x.over()
	if !over && !x.s.env.Process { // over stdio, closing the stream says it
		x.s.post(transport.Cancelled(x.id, nil, reason))
		if len(open) > 0 && x.ends() {
			open = nil
		}
	}
	if !over {
		x.dropTask()
	}
	x.end(nil, transport.ErrTimeout)
	x.life.End() // stops the pump
	<-x.pumped
	s := x.s
	s.hold()
	defer s.release()
	x.free()
	for _, q := range open {
		switch q.request.Method {
		case mcp.MethodElicit:
			s.post(wire.AppendResult(nil, q.id, mcp.Raw(`{"action":"cancel"}`)))
		case mcp.MethodCreateMessage:
			s.post(wire.AppendError(nil, q.id, mcp.Errorf(failure.QuestionUnanswered,
				"the user did not answer").WithCode(codeRejected)))
		default:
			s.post(wire.AppendError(nil, q.id, mcp.Errorf(failure.QuestionUnanswered, "the client did not answer")))
		}
	}
}

// ends waits briefly for the server to answer a call that it was told is cancelled.
func (x *exchange) ends() bool {
	ctx, cancel := context.WithTimeout(x.s.env.Base, cancelWait)
	defer cancel()
	x.await(ctx, x.over)
	x.mu.Lock()
	defer x.mu.Unlock()
	_, refused := errors.AsType[*mcp.Error](x.err)
	return x.done && (x.err == nil || refused)
}
