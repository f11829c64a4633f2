package upstream

import (
	"bytes"
	"context"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// Many servers ask for the client's roots outside of any call, most right after
// initialized. A client is only ever asked in the course of a call of its own, so such a
// question waits a moment for one, and answers are kept for the next time.

const (
	// rootsWait is how long such a question waits for a call.
	rootsWait = 2 * time.Second
	// maxHeld bounds how many of a session wait.
	maxHeld = 4
	// askedRoots is the State of a call that waits for roots before it is made.
	askedRoots = "roots:"
	rootsKey   = "roots"
)

// strayRoots takes a roots/list that belongs to no call.
func (s *session) strayRoots(id mcp.Raw) {
	q := question{id: bytes.Clone(id), request: mcp.InputRequest{Key: rootsKey, Method: mcp.MethodRootsList}}
	if known := s.slot.state.Roots.Answer(); known != nil {
		s.post(s.answer(q, known))
		return
	}
	s.mu.Lock()
	held := len(s.held) < maxHeld
	if held {
		s.held = append(s.held, q)
		s.holdFor(rootsWait)
	}
	s.mu.Unlock()
	if !held {
		s.noRoots(q)
	}
}

// holdFor is called with mu held. It sets when the questions that wait are given up.
func (s *session) holdFor(d time.Duration) {
	if s.holding != nil {
		s.holding.Stop()
	}
	s.holding = time.AfterFunc(d, func() { s.u.spawn(s.giveUpRoots) })
}

// takeHeld returns the questions that wait.
func (s *session) takeHeld() []question {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.held
	s.held = nil
	if s.holding != nil {
		s.holding.Stop()
	}
	return held
}

func (s *session) giveUpRoots() {
	for _, q := range s.takeHeld() {
		if !s.over() {
			s.noRoots(q)
		}
	}
}

// noRoots answers a question for roots that nobody could be asked for. None is a good
// answer for a server that knows none yet; one that does should keep them. It is told
// with the next call that they changed, so that it asks again.
func (s *session) noRoots(q question) {
	s.mu.Lock()
	s.rootsOwed = true
	s.mu.Unlock()
	if s.slot.state.Roots.Told() {
		s.post(wire.AppendError(nil, q.id, mcp.Errorf(mcp.CodeInternal, "the client can be asked for its roots only during a call")))
		return
	}
	s.post(wire.AppendResult(nil, q.id, mcp.Raw(`{"roots":[]}`)))
}

// rootsFirst returns the question that a call has to be asked before it is made, nil
// for none.
func (s *session) rootsFirst(c *mcp.Call) *mcp.Reply {
	if !mcp.CanAsk(c.Method) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.held) == 0 {
		return nil
	}
	limit := s.u.cfg.Timeout.Ask
	s.holdFor(limit + askGrace)
	return &mcp.Reply{Ask: &mcp.Ask{
		Requests: []mcp.InputRequest{{Key: rootsKey, Method: mcp.MethodRootsList}},
		State:    askedRoots, Expires: time.Now().Add(limit),
	}}
}

// giveRoots answers the questions that waited with what the client said.
func (s *session) giveRoots(c *mcp.Call) {
	answer, refusal := c.Answers[rootsKey], c.Refused[rootsKey]
	valid := wire.ValidAnswer(mcp.MethodRootsList, answer)
	if valid && !c.Ephemeral {
		s.slot.state.Roots.Learn(answer, s.slot.state.Roots.Changes())
	}
	for _, q := range s.takeHeld() {
		switch {
		case refusal != nil:
			s.post(wire.AppendError(nil, q.id, refusal))
		case valid:
			s.post(s.answer(q, answer))
		default:
			s.noRoots(q)
		}
	}
}

// settleRoots tells the server that roots changed where it was told none for want of a
// call: there is one now.
func (s *session) settleRoots() {
	s.mu.Lock()
	owed := s.rootsOwed && s.declared.RootsChange
	s.rootsOwed = s.rootsOwed && !owed
	s.mu.Unlock()
	if owed {
		s.post(wire.AppendNotification(nil, mcp.NoteRootsListChanged, nil))
	}
}

// RootsChanged forgets what a client session said of its roots, and tells the server.
func (u *Upstream) RootsChanged(session string) {
	for at := range u.pool.All() {
		if at.Key.session != session || session == "" {
			continue
		}
		at.Data.state.Roots.Changed()
		if s := at.Current(); s != nil && s.declared.RootsChange && s.rev.Stateful {
			u.spawn(func() { s.post(wire.AppendNotification(nil, mcp.NoteRootsListChanged, nil)) })
		}
	}
}

// callWithRoots makes a call, after the question for roots that has to come first.
func (s *session) callWithRoots(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	if c.State == askedRoots {
		s.giveRoots(c)
	} else if reply := s.rootsFirst(c); reply != nil {
		s.u.pool.release(s)
		return reply, nil
	}
	s.settleRoots()
	return s.call(ctx, c)
}
