package upstream

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// Over stdio and HTTP+SSE a question does not say which call it belongs to. With one call
// under way it belongs to that one. With several, all of the same client, it waits until
// only one is left that can have asked it: a server that waits for an answer does not end
// its call meanwhile, nor does it ask a second time for a call whose question is still
// open. A question of which it stays unclear is refused, as SEP-2260 has it.

const (
	// attributePause is how long a question waits for calls to end. If then there are at
	// least as many questions as calls, each call is taken to have asked one.
	attributePause = time.Second
	// attributeTime is how long a question waits at all, before it is refused.
	attributeTime = 20 * time.Second
	// maxUnattributed bounds the questions of a session that wait.
	maxUnattributed = 20
	// largestUnattributed is the largest of them that does, in bytes.
	largestUnattributed = 256 << 10
)

// unattributed is a question of which it is not clear yet what call asks it.
type unattributed struct {
	question wire.Message
	since    time.Time
}

// unclear keeps a question that no call claims, if one may later.
func (s *session) unclear(m wire.Message) bool {
	asks := m.Method == mcp.MethodElicit || m.Method == mcp.MethodCreateMessage
	if !asks || len(m.Params) > largestUnattributed || !piped(s.conn) || s.taskOf(m) != nil || s.declared.Refuses(m.Method, m.Params) != nil || !slices.ContainsFunc(s.all(), (*exchange).mayAsk) {
		return false
	}
	s.mu.Lock()
	room := len(s.unattributed) < maxUnattributed
	if room {
		s.unattributed = append(s.unattributed, unattributed{transport.Owned(m), time.Now()})
	}
	s.mu.Unlock()
	if room {
		s.attribute()
	}
	return room
}

// mayAsk reports whether questions from outside of its stream may be the call's.
func (x *exchange) mayAsk() bool { return x.elsewhere && x.task == "" && mcp.CanAsk(x.call.Method) }

// askers are the calls that may be asking just now, oldest first.
func (s *session) askers() []*exchange {
	all := slices.DeleteFunc(s.all(), func(x *exchange) bool {
		return !x.mayAsk() || x.over() || x.asks()
	})
	slices.SortFunc(all, func(a, b *exchange) int { return cmp.Compare(a.id, b.id) })
	return all
}

// attribute gives questions to the calls that ask them, as far as that is clear by now.
func (s *session) attribute() {
	askers := s.askers()
	s.mu.Lock()
	held := s.unattributed
	if len(held) == 0 {
		s.mu.Unlock()
		return
	}
	if s.attributing != nil {
		s.attributing.Stop()
	}
	age := time.Since(held[0].since)
	next := attributeTime - age
	if age < attributePause {
		next = attributePause - age
	}
	overdue := age >= attributeTime || s.base.Err() != nil
	decided := overdue || len(askers) == 1 || age >= attributePause && len(askers) > 0 && len(held) >= len(askers)
	if decided {
		s.unattributed = nil
	} else {
		s.attributing = time.AfterFunc(next, func() { s.u.spawn(s.attribute) })
	}
	s.mu.Unlock()
	if !decided {
		return
	}
	for i, h := range held {
		why := errUnrelated
		if !overdue {
			x := askers[min(i, len(askers)-1)]
			if why = x.ask(h.question, true); why != nil && x.over() { // it ended just now
				s.deliver(h.question)
				continue
			}
		}
		if why != nil {
			s.post(wire.AppendError(nil, h.question.ID, why))
		}
	}
}

// unattribute takes back a question that was guessed to be of a call. The call has ended with
// the question open, so that it was another call's.
func (s *session) unattribute(x *exchange, q question) {
	s.remove(x)
	s.deliver(wire.Message{Kind: wire.Request, ID: q.id, Method: q.request.Method, Params: q.guessed})
}

// refuseUnattributed refuses all questions that wait: a call has ended without an answer of
// the server, and may have been the one that asked.
func (s *session) refuseUnattributed() {
	s.mu.Lock()
	held := s.unattributed
	s.unattributed = nil
	s.mu.Unlock()
	if len(held) == 0 {
		return
	}
	s.u.spawn(func() {
		for _, h := range held {
			s.post(unrelated(h.question.ID))
		}
	})
}

// released is told that a call is not under way any more.
func (s *session) released(err error) {
	if _, answered := errors.AsType[*mcp.Error](err); err == nil || answered {
		s.attribute()
	} else {
		s.refuseUnattributed()
	}
}

// withdrawUnattributed forgets a question that the server does not want answered any more.
func (s *session) withdrawUnattributed(id mcp.Raw) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unattributed = slices.DeleteFunc(s.unattributed, func(h unattributed) bool { return bytes.Equal(h.question.ID, id) })
}
