package upstream

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
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

// parks are the calls that wait for answers of their users. A parked call holds its
// stream and one goroutine that reads it.
type parks struct {
	u *Upstream

	mu     sync.Mutex // guards the fields below
	calls  map[string]*parked
	users  map[string]int
	closed bool
}

// parked is one such call. It belongs to one session and user, and is taken once.
type parked struct {
	x      *exchange
	handle string
	user   string
	timer  *time.Timer
}

func (p *parks) init(u *Upstream) {
	p.u = u
	p.calls, p.users = make(map[string]*parked), make(map[string]int)
}

// park puts a call aside whose server asks, and returns the questions. Its time limit
// and its caller do not concern it until the answers come; its progress still goes to
// the caller, who may listen on.
func (u *Upstream) park(x *exchange) (*mcp.Reply, error) {
	x.life.pause()
	x.mu.Lock()
	x.life.room.Store(x.outside()) // the request's is freed
	requests := make([]mcp.InputRequest, len(x.open))
	for i, q := range x.open {
		requests[i] = q.request
	}
	x.mu.Unlock()
	entry := &parked{x: x, handle: rand.Text(), user: x.call.Caller.User()}
	if !u.parks.add(entry) {
		x.giveUp()
		return nil, mcp.UpstreamError(mcp.CodeOverloaded, u.cfg.Name, mcp.ExecutedUnknown,
			"Too many calls to upstream %s wait for an answer of this user", u.cfg.Name)
	}
	return &mcp.Reply{Ask: &mcp.Ask{Requests: requests, State: entry.handle, Here: true, Expires: time.Now().Add(u.cfg.Timeout.Ask)}}, nil
}

func (p *parks) add(entry *parked) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.users[entry.user] >= p.u.cfg.Limits.asks(&entry.x.call.Caller) {
		return false
	}
	p.calls[entry.handle] = entry
	p.users[entry.user]++
	limit := p.u.cfg.Timeout.Ask
	if !entry.x.call.Ephemeral {
		limit += askGrace
	}
	entry.timer = time.AfterFunc(limit, func() { p.expire(entry.handle) })
	return true
}

// take returns the parked call of a retry, once, if it is the same caller's call.
func (p *parks) take(c *mcp.Call) *exchange {
	p.mu.Lock()
	defer p.mu.Unlock()
	entry := p.calls[c.State]
	if entry == nil {
		return nil
	}
	was := entry.x.call
	if was.Session != c.Session || entry.user != c.Caller.User() || was.Method != c.Method || was.Name != c.Name {
		return nil
	}
	if s := entry.x.s; c.Ephemeral && declare(c.Caps, s.rev).raw != declare(was.Caps, s.rev).raw {
		return nil // what the server may ask next was not declared with this request
	}
	p.remove(entry)
	return entry.x
}

// remove forgets an entry. p.mu is held.
func (p *parks) remove(entry *parked) {
	delete(p.calls, entry.handle)
	entry.timer.Stop()
	if p.users[entry.user]--; p.users[entry.user] == 0 {
		delete(p.users, entry.user)
	}
}

// expire ends a parked call that nobody came back for.
func (p *parks) expire(handle string) {
	p.mu.Lock()
	entry := p.calls[handle]
	if entry != nil {
		p.remove(entry)
		p.u.spawn(entry.x.giveUp)
	}
	p.mu.Unlock()
}

func (p *parks) endSession(session string) {
	p.endAll(func(x *exchange) bool { return x.call.Session == session })
}

func (p *parks) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.endAll(func(*exchange) bool { return true })
}

func (p *parks) endAll(which func(*exchange) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, entry := range p.calls {
		if which(entry.x) {
			p.remove(entry)
			p.u.spawn(entry.x.giveUp)
		}
	}
}

func (p *parks) holds(handle string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[handle] != nil
}

func (p *parks) size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.calls)
}

// retry goes on with a parked call: sends the answers and waits for what comes next.
func (u *Upstream) retry(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	x := u.parks.take(c)
	if x == nil {
		return nil, errNotParked()
	}
	x.life.resume(ctx, u.cfg.Timeout.Call, u.cfg.Timeout.Total)
	x.life.room.Store(c.Room)
	if x.task != "" {
		x.life.patiently()
	}
	x.mu.Lock()
	x.notify = c.Notify // before the answers are sent: progress may follow at once
	x.mu.Unlock()
	settled, left := x.settle(c)
	if err := x.pass(settled); err != nil {
		x.end(nil, x.life.why(err))
		x.life.cancel(nil) // ends the pump's reading
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
		if err = x.s.conn.Post(x.life.ctx, a.body); err != nil {
			break
		}
	}
	switch name := x.s.u.cfg.Name; {
	case err == nil:
		return nil
	case errors.Is(err, errSessionGone):
		x.s.u.pool.lose(x.s)
		return mcp.UpstreamError(mcp.CodeUpstreamSessionLost, name, mcp.ExecutedUnknown,
			"Upstream %s lost the session while the call waited for an answer; make the call anew", name)
	}
	// Whatever became of the answer, the call itself was sent.
	return fmt.Errorf("%w: the answer of the user was not taken: %v", errBroken, err)
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
				x.s.slot.keep.learnRoots(answer, q.changes)
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
	if x := u.parks.take(c); x != nil {
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
		x.s.post(cancelled(x.id, "nobody answered in time"))
		if len(open) > 0 && x.ends() {
			open = nil
		}
	}
	if !over {
		x.abandon()
	}
	x.end(nil, errTimeout)
	x.life.end() // ends the pump's reading
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
