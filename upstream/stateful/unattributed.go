package stateful

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// Over stdio and HTTP+SSE a question does not say which call it belongs to. With one call
// under way it belongs to that call. With several, all of the same client, it waits until
// only one call is left that can have asked it: a server that waits for an answer does not
// end its call meanwhile, and does not ask a second time for a call whose question is still
// open. A question that stays unclear is refused, as SEP-2260 requires.

const (
	// attributePause is how long a question waits for calls to end. If there are then at
	// least as many questions as calls, each call is assumed to have asked one.
	attributePause = time.Second
	// attributeTime is how long a question waits in all before it is refused.
	attributeTime = 20 * time.Second
	// maxUnattributed bounds how many questions of a session wait.
	maxUnattributed = 20
	// largestUnattributed is the size of the largest question that may wait, in bytes.
	largestUnattributed = 256 << 10
)

// unattributed holds the questions of a session whose call is not clear yet, the oldest
// first.
type unattributed struct {
	s *session

	mu   sync.Mutex // guards the fields below
	held []heldQuestion
	wait *time.Timer
	// left is when a call ended last without the server's answer: its question may be on its way.
	left time.Time
}

type heldQuestion struct {
	question wire.Message
	since    time.Time
}

// keep stores a question that no call claims yet, if a call may claim it later, and reports
// whether it did.
func (u *unattributed) keep(m wire.Message) bool {
	s := u.s
	asks := m.Method == mcp.MethodElicit || m.Method == mcp.MethodCreateMessage
	if !asks || len(m.Params) > largestUnattributed || !dialect.Piped(s.conn) || s.calls.ofTask(m) != nil ||
		s.declared.Refuses(m.Method, m.Params) != nil || s.calls.find((*exchange).mayAsk) == nil {
		return false
	}
	u.mu.Lock()
	room := len(u.held) < maxUnattributed
	if room {
		u.held = append(u.held, heldQuestion{transport.Owned(m), time.Now()})
	}
	u.mu.Unlock()
	if room {
		u.attribute()
	}
	return room
}

// mayAsk reports whether questions from outside of the call's stream may belong to it.
func (x *exchange) mayAsk() bool { return x.elsewhere && x.task == "" && mcp.CanAsk(x.call.Method) }

// askers returns the calls that may be asking at the moment, the oldest first.
func (u *unattributed) askers() []*exchange {
	all := slices.DeleteFunc(u.s.calls.list(), func(x *exchange) bool {
		return !x.mayAsk() || x.over() || x.asks()
	})
	slices.SortFunc(all, func(a, b *exchange) int { return cmp.Compare(a.id, b.id) })
	return all
}

// attribute assigns questions to the calls that ask them, as far as that is clear.
func (u *unattributed) attribute() {
	s, askers := u.s, u.askers()
	u.mu.Lock()
	held := u.held
	if len(held) == 0 {
		u.mu.Unlock()
		return
	}
	if u.wait != nil {
		u.wait.Stop()
	}
	age := time.Since(held[0].since)
	next := attributeTime - age
	if age < attributePause {
		next = attributePause - age
	}
	overdue := age >= attributeTime || s.base.Err() != nil
	decided := overdue || len(askers) == 1 && time.Since(u.left) >= attributePause || age >= attributePause && len(askers) > 0 && len(held) >= len(askers)
	if !decided {
		u.wait = time.AfterFunc(next, func() { s.env.Spawn(u.attribute) })
		u.mu.Unlock()
		return
	}
	u.held = nil
	u.mu.Unlock()
	for i, h := range held {
		why := errUnrelated
		if !overdue {
			x := askers[min(i, len(askers)-1)]
			if why = x.ask(h.question, true); why != nil && x.over() { // the call ended just now
				s.deliver(h.question)
				continue
			}
		}
		if why != nil {
			s.post(wire.AppendError(nil, h.question.ID, why))
		}
	}
}

// giveBack takes back a question that was assigned to a call by guess. The call has ended
// with the question open, so another call must have asked it.
func (u *unattributed) giveBack(x *exchange, q question) {
	u.s.calls.remove(x)
	u.s.deliver(wire.Message{Kind: wire.Request, ID: q.id, Method: q.request.Method, Params: q.guessed})
}

// unanswered reports whether a call that ended with err got no answer from the server.
func unanswered(err error) bool {
	_, answered := errors.AsType[*mcp.Error](err)
	return err != nil && !answered
}

// leaves records that a call ends without the server's answer.
func (u *unattributed) leaves() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.left = time.Now()
}

// released records how a call has ended. A call that ended without the server's answer may
// have asked a question; then all questions are refused.
func (u *unattributed) released(err error) {
	if !unanswered(err) {
		u.attribute()
		return
	}
	u.mu.Lock()
	held := u.held
	u.held = nil
	u.mu.Unlock()
	if len(held) == 0 {
		return
	}
	u.s.env.Spawn(func() {
		for _, h := range held {
			u.s.post(unrelated(h.question.ID))
		}
	})
}

// withdraw forgets a question that the server no longer wants answered.
func (u *unattributed) withdraw(id mcp.Raw) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.held = slices.DeleteFunc(u.held, func(h heldQuestion) bool { return bytes.Equal(h.question.ID, id) })
}
