package live

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

const (
	// MaxQuestions bounds the questions of a session that wait for their answers.
	MaxQuestions = 64
	// maxRetracted bounds the questions of a call that were withdrawn before they were put.
	maxRetracted = 100
	// questionPrefix begins the ids of questions. A call id follows, so that no two replicas
	// use the same question id.
	questionPrefix = "gatehouse-"
	// maxRoots bounds the kept roots of a client, in bytes.
	maxRoots = 64 << 10
)

// ErrQuestions means that a client has too many open questions. Clients may read it.
var ErrQuestions error = mcp.Errorf(failure.TooManyQuestions,
	"too many questions wait for this client: let it answer some first")

// Asker carries the questions of a call to its client.
type Asker interface {
	// PutQuestion sends a question. It returns false if the call has ended.
	PutQuestion(id mcp.Raw, q mcp.InputRequest) bool
	// Answered reports the client's answer to a question: a result or an error.
	Answered(id, result mcp.Raw, err *mcp.Error)
	// WithdrawQuestion tells the client that a question needs no answer any more.
	WithdrawQuestion(id mcp.Raw, reason string)
}

// question is a request to the client that waits for its answer.
type question struct {
	mcp.InputRequest
	id       mcp.Raw
	call     *Call
	roots    int // how often the session's roots had changed
	answered chan<- *question

	// The outcome. The goroutine that claims the question sets it before it sends to answered.
	result    mcp.Raw
	err       *mcp.Error
	withdrawn bool // by the server that asked
	from      mcp.Caller
}

// Answers are the client's answers to the questions of one round.
type Answers struct {
	Given   map[string]mcp.Raw
	Refused map[string]*mcp.Error
	From    *mcp.Caller // the caller of the last answer; nil for none

	parked bool // mcp.Ask.Here
}

// NewAnswers returns empty Answers. parked says that the server keeps its call open.
func NewAnswers(parked bool) *Answers {
	return &Answers{Given: make(map[string]mcp.Raw), Refused: make(map[string]*mcp.Error), parked: parked}
}

// Refuse records that a question has no answer. A server that does not keep its call open cannot
// get the error: for it, the user has cancelled the elicitation.
func (got *Answers) Refuse(q mcp.InputRequest, e *mcp.Error) {
	if q.Method == mcp.MethodElicit && !got.parked {
		got.Given[q.Key] = mcp.Raw(`{"action":"cancel"}`)
		return
	}
	got.Refused[q.Key] = e
}

// take records the client's answer to a question.
func (got *Answers) take(q *question) {
	got.From = &q.from
	if q.err == nil && !wire.ValidAnswer(q.Method, q.result) {
		q.err = mcp.Errorf(failure.QuestionUnanswered,
			"the client's answer has not the form of one").WithCode(mcp.CodeInvalidParams)
	}
	if q.err == nil && !got.parked {
		var err error
		if q.result, err = wire.Stateless().Answer(q.Method, q.result); err != nil {
			q.err = mcp.Errorf(failure.QuestionUnanswered, "the client's answer cannot be passed on: %v", err)
		}
	}
	if q.err != nil {
		got.Refuse(q.InputRequest, q.err)
		return
	}
	got.Given[q.Key] = q.result
}

// Ask puts questions to the client of a call, under ids that were never used before, and waits
// for the answers. A question that the client does not answer in time counts as refused, so
// that the server can finish its call. caps are the client's declared capabilities. Errors:
// ErrQuestions, ErrCancelled if the call has ended, and those of ctx.
func (c *Call) Ask(ctx context.Context, to Asker, caps mcp.Raw, requests []mcp.InputRequest, limit time.Duration,
	got *Answers) error {
	s := c.session
	incoming := make(chan *question, len(requests)) // each question is answered once
	open := make(map[*question]struct{}, len(requests))
	defer func() {
		for q := range open {
			s.claim(q.id)
		}
	}()
	for _, r := range requests {
		q := &question{InputRequest: r, id: mcp.String(questionPrefix + s.deps.NewID()), call: c, answered: incoming}
		retracted, ok := s.expect(q)
		switch {
		case retracted:
			continue
		case !ok && s.home.IsOver():
			<-ctx.Done() // the call is cancelled next, with the reason
			return ctx.Err()
		case !ok:
			return ErrQuestions
		}
		open[q] = struct{}{}
		if !to.PutQuestion(q.id, r) {
			return ErrCancelled
		}
	}
	timeout := time.After(limit)
	for len(open) > 0 {
		select {
		case q := <-incoming:
			delete(open, q)
			if q.withdrawn {
				to.WithdrawQuestion(q.id, "the server does not want it answered any more")
				continue
			}
			to.Answered(q.id, q.result, q.err)
			s.learnRoots(caps, q)
			got.take(q)
		case <-timeout:
			for q := range open {
				got.Refuse(q.InputRequest, mcp.Errorf(failure.QuestionUnanswered, "the client did not answer in time"))
				to.WithdrawQuestion(q.id, "no answer in time")
			}
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Retract withdraws a question of the server by its key.
func (c *Call) Retract(key string) {
	s := c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, q := range s.questions {
		if q.call == c && q.Key == key {
			delete(s.questions, id)
			q.withdrawn = true
			q.answered <- q
			return
		}
	}
	if len(c.retracted) < maxRetracted { // the question may be on its way here
		c.retracted = append(c.retracted, key)
	}
}

// expect registers a question that waits for its answer, unless it was retracted. ok is false
// if the session has ended, or has too many open questions.
func (s *Session) expect(q *question) (retracted, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(q.call.retracted, q.Key) {
		return true, false
	}
	if s.home.IsOver() || len(s.questions) >= MaxQuestions {
		return false, false
	}
	q.roots = s.roots.changes
	s.questions[string(q.id)] = q
	return false, true
}

// Questions returns the open questions of the call with this request id, by their ids in wire form.
func (s *Session) Questions(request mcp.Raw) map[string]mcp.InputRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	open := make(map[string]mcp.InputRequest)
	for id, q := range s.questions {
		if q.call.id == string(request) {
			open[id] = q.InputRequest
		}
	}
	return open
}

// claim returns the question with this id to the first caller, and nil to later ones.
func (s *Session) claim(id mcp.Raw) *question {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.questions[string(id)]
	delete(s.questions, string(id))
	return q
}

// Answered takes a response of the client. A response to a question that is no longer open is dropped.
func (s *Session) Answered(m wire.Message, from mcp.Caller) {
	q := s.claim(m.ID)
	if q == nil {
		return
	}
	q.result, q.from = m.Result, from
	if m.Error != nil {
		q.err = wire.ReadError(m.Error)
	}
	q.answered <- q
}

// roots holds the last roots of a session's client, if it announces changes: the many servers
// behind the gateway would make it answer again and again.
type roots struct {
	answer  mcp.Raw // nil if unknown
	changes int     // an answer to a question from before a change does not count
}

// Roots returns the client's answer to roots/list; nil if the client must be asked.
func (s *Session) Roots() mcp.Raw {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.roots.answer
}

// learnRoots keeps the answer to a question for roots.
func (s *Session) learnRoots(caps mcp.Raw, q *question) {
	if q.Method != mcp.MethodRootsList || !caps.At("roots", "listChanged").IsTrue() {
		return
	}
	if q.err != nil || !wire.ValidAnswer(q.Method, q.result) || len(q.result) > maxRoots {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.roots == s.roots.changes {
		s.roots.answer = bytes.Clone(q.result)
	}
}

// RootsChanged forgets the roots. Call it before telling other holders of the roots.
func (s *Session) RootsChanged() {
	s.mu.Lock()
	s.roots = roots{changes: s.roots.changes + 1}
	s.mu.Unlock()
}
