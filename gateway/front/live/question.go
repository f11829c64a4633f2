package live

import (
	"bytes"
	"context"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

const (
	// MaxQuestions bounds the questions that wait for their answers in a session.
	MaxQuestions = 64
	// maxRetracted bounds the questions of a call that are remembered to have been withdrawn
	// before they were put.
	maxRetracted = 100
	// questionPrefix begins the ids of questions; a call id follows, so that no two replicas
	// ask under the same one.
	questionPrefix = "gatehouse-"
	// maxRoots bounds what is kept of a client's roots.
	maxRoots = 64 << 10
)

// ErrQuestions is why a client is not asked: an *mcp.Error that may be shown.
var ErrQuestions error = mcp.Errorf(mcp.CodeOverloaded, "too many questions wait for this client: let it answer some first")

// Asker is the way of a call to its client.
type Asker interface {
	// PutQuestion sends a question; false when the call is over.
	PutQuestion(id mcp.Raw, q mcp.InputRequest) bool
	// WithdrawQuestion says that a question needs no answer any more.
	WithdrawQuestion(id mcp.Raw, reason string)
}

// question is a request to the client that waits for its answer.
type question struct {
	mcp.InputRequest
	id      mcp.Raw
	call    *Call
	roots   int // how often the session's roots had changed
	answers chan<- answer
}

// answer is what became of a question, once.
type answer struct {
	*question
	result    mcp.Raw
	err       *mcp.Error
	withdrawn bool // by the server that asked
	from      mcp.Caller
}

// Answers are what the client said to the questions of one round.
type Answers struct {
	Given   map[string]mcp.Raw
	Refused map[string]*mcp.Error
	From    *mcp.Caller // of the last answer; nil for none

	parked bool // mcp.Ask.Here
}

// NewAnswers returns none yet. parked says that the server keeps its call open.
func NewAnswers(parked bool) *Answers {
	return &Answers{Given: make(map[string]mcp.Raw), Refused: make(map[string]*mcp.Error), parked: parked}
}

// Refuse notes that there is no answer to a question. A server that keeps no call open
// can be told no error, but that the user cancelled it can.
func (got *Answers) Refuse(q mcp.InputRequest, e *mcp.Error) {
	if q.Method == mcp.MethodElicit && !got.parked {
		got.Given[q.Key] = mcp.Raw(`{"action":"cancel"}`)
		return
	}
	got.Refused[q.Key] = e
}

// take notes an answer of the client.
func (got *Answers) take(a answer) {
	got.From = &a.from
	if a.err == nil && !wire.ValidAnswer(a.Method, a.result) {
		a.err = mcp.Errorf(mcp.CodeInvalidParams, "the client's answer has not the form of one")
	}
	if a.err == nil && !got.parked {
		var err error
		if a.result, err = wire.Stateless().Answer(a.Method, a.result); err != nil {
			a.err = mcp.Errorf(mcp.CodeInternal, "the client's answer cannot be passed on: %v", err)
		}
	}
	if a.err != nil {
		got.Refuse(a.InputRequest, a.err)
		return
	}
	got.Given[a.Key] = a.result
}

// Ask puts questions to the client of a call, under ids that were never used before, and
// waits for the answers. What the client does not answer in time counts as refused, so that
// the server can bring its call to an end. caps are what the client has declared. Errors:
// ErrQuestions, ErrCancelled when the call is over, and those of ctx.
func (c *Call) Ask(ctx context.Context, to Asker, caps mcp.Raw, requests []mcp.InputRequest, limit time.Duration, got *Answers) error {
	s := c.session
	incoming := make(chan answer, len(requests)) // each question is answered once
	open := make(map[*question]struct{}, len(requests))
	defer func() {
		for q := range open {
			s.claim(q.id)
		}
	}()
	for _, r := range requests {
		q := &question{InputRequest: r, id: mcp.String(questionPrefix + s.deps.NewID()), call: c, answers: incoming}
		retracted, ok := s.expect(q)
		switch {
		case retracted:
			continue
		case !ok:
			return ErrQuestions
		}
		open[q] = struct{}{}
		if !to.PutQuestion(q.id, r) {
			return ErrCancelled
		}
	}
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	for len(open) > 0 {
		select {
		case a := <-incoming:
			delete(open, a.question)
			if a.withdrawn {
				to.WithdrawQuestion(a.id, "the server does not want it answered any more")
				continue
			}
			s.learnRoots(caps, a)
			got.take(a)
		case <-timeout.C:
			for q := range open {
				got.Refuse(q.InputRequest, mcp.Errorf(mcp.CodeInternal, "the client did not answer in time"))
				to.WithdrawQuestion(q.id, "no answer in time")
			}
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Retract takes the key of a question that the server has withdrawn.
func (c *Call) Retract(key string) {
	s := c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, q := range s.questions {
		if q.call == c && q.Key == key {
			delete(s.questions, id)
			q.answers <- answer{question: q, withdrawn: true}
			return
		}
	}
	if len(c.retracted) < maxRetracted { // it may be on its way here
		if c.retracted == nil {
			c.retracted = make(map[string]bool)
		}
		c.retracted[key] = true
	}
}

// expect waits for the answer to a question, unless that was retracted; not ok when the
// session has ended or waits for too many.
func (s *Session) expect(q *question) (retracted, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.call.retracted[q.Key] {
		return true, false
	}
	if s.gone.Err() != nil || len(s.questions) >= MaxQuestions {
		return false, false
	}
	q.roots = s.roots.changes
	s.questions[string(q.id)] = q
	return false, true
}

// claim returns the question of this id to the one who says first what became of it.
func (s *Session) claim(id mcp.Raw) *question {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.questions[string(id)]
	delete(s.questions, string(id))
	return q
}

// Answered takes a response of the client. One that nobody waits for, any more or
// at all, is dropped.
func (s *Session) Answered(m wire.Message, from mcp.Caller) {
	q := s.claim(m.ID)
	if q == nil {
		return
	}
	a := answer{question: q, result: m.Result, from: from}
	if m.Error != nil {
		a.err = wire.ReadError(m.Error)
	}
	q.answers <- a
}

// roots are what a session's client last said that they are, as long as it says when
// they change: the many servers behind the gateway would ask it again and again.
type roots struct {
	answer  mcp.Raw // nil while they are not known
	changes int     // an answer to a question from before one does not count
}

// Roots returns the client's answer to roots/list, nil where it has to be asked.
func (s *Session) Roots() mcp.Raw {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.roots.answer
}

// learnRoots keeps the answer to a question for roots.
func (s *Session) learnRoots(caps mcp.Raw, a answer) {
	declared, _ := caps.Member("roots")
	if tells, _ := declared.Member("listChanged"); a.Method != mcp.MethodRootsList || !tells.IsTrue() {
		return
	}
	if a.err != nil || !wire.ValidAnswer(a.Method, a.result) || len(a.result) > maxRoots {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.roots == s.roots.changes {
		s.roots.answer = bytes.Clone(a.result)
	}
}

// RootsChanged forgets the roots, before whoever else knows them is told to.
func (s *Session) RootsChanged() {
	s.mu.Lock()
	s.roots = roots{changes: s.roots.changes + 1}
	s.mu.Unlock()
}
