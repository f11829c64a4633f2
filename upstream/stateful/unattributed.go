package stateful

import (
	"bytes"
	"cmp"
	"errors"
	"math"
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
// open. A call that began after the question came has not asked it. A question that stays unclear
// is refused, as SEP-2260 requires.

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
	newest   int64 // the number of the newest call that can have asked it
}

// keep stores a question that no call claims yet, if a call may claim it later, and reports
// whether it did.
func (u *unattributed) keep(m wire.Message) bool {
	s := u.s
	asks := m.Method == mcp.MethodElicit || m.Method == mcp.MethodCreateMessage
	if !asks || len(m.Params) > largestUnattributed || !dialect.Piped(s.conn) || s.calls.ofTask(m) != nil ||
		s.declared.Refuses(m.Method, m.Params) != nil {
		return false
	}
	var newest int64
	for _, x := range s.calls.list() {
		if x.mayAsk() {
			newest = max(newest, x.number)
		}
	}
	if newest == 0 {
		return false
	}
	u.mu.Lock()
	room := len(u.held) < maxUnattributed
	if room {
		u.held = append(u.held, heldQuestion{transport.Owned(m), time.Now(), newest})
	}
	u.mu.Unlock()
	if room {
		u.attribute()
	}
	return room
}

// mayAsk reports whether questions from outside of the call's stream may belong to it.
func (x *exchange) mayAsk() bool { return x.elsewhere && x.task == "" && mcp.CanAsk(x.call.Method) }

// recent reports whether the question of a call that has ended may still be on its way.
func (u *unattributed) recent() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return time.Since(u.left) < attributePause
}

// askers returns the calls that may be asking at the moment, the oldest first.
func (u *unattributed) askers() []*exchange {
	all := slices.DeleteFunc(u.s.calls.list(), func(x *exchange) bool {
		return !x.mayAsk() || x.over() || x.asks()
	})
	slices.SortFunc(all, func(a, b *exchange) int { return cmp.Compare(a.number, b.number) })
	return all
}

// dropOrphans refuses the questions that no call can have asked which has not ended. mu is held.
func (u *unattributed) dropOrphans() {
	oldest := int64(math.MaxInt64)
	for _, x := range u.s.calls.list() {
		if x.mayAsk() {
			oldest = min(oldest, x.number)
		}
	}
	var orphans, others []heldQuestion
	for _, h := range u.held {
		if h.newest < oldest {
			orphans = append(orphans, h)
		} else {
			others = append(others, h)
		}
	}
	u.held = others
	u.refuse(orphans)
}

// attribute assigns questions to the calls that ask them, as far as that is clear.
func (u *unattributed) attribute() {
	s, askers := u.s, u.askers()
	u.mu.Lock()
	u.dropOrphans()
	held := u.held
	if len(held) == 0 {
		u.mu.Unlock()
		return
	}
	newest := held[len(held)-1].newest
	askers = slices.DeleteFunc(askers, func(x *exchange) bool { return x.number > newest })
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
	defer u.mu.Unlock()
	u.refuse(u.held)
	u.held = nil
}

// refuse refuses questions.
func (u *unattributed) refuse(all []heldQuestion) {
	if len(all) > 0 {
		u.s.env.Spawn(func() {
			for _, h := range all {
				u.s.post(unrelated(h.question.ID))
			}
		})
	}
}

// withdraw forgets a question that the server no longer wants answered.
func (u *unattributed) withdraw(id mcp.Raw) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.held = slices.DeleteFunc(u.held, func(h heldQuestion) bool { return bytes.Equal(h.question.ID, id) })
}
