package front

import (
	"context"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// maxAsked bounds the questions that wait for their answers in a session.
const maxAsked = 64

// questionPrefix begins the ids of questions; a call id follows, so that no two replicas
// ask under the same one.
const questionPrefix = "gatehouse-"

// question is a request to the client that waits for its answer.
type question struct {
	mcp.InputRequest
	id      mcp.Raw
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

// answers are what the client said to the questions of one round.
type answers struct {
	given   map[string]mcp.Raw
	refused map[string]*mcp.Error
	here    bool        // mcp.Ask.Here
	from    *mcp.Caller // of the last answer; nil for none
}

// refuse notes that there is no answer to a question. A server that keeps no call open
// can be told no error, but that the user cancelled it can.
func (got *answers) refuse(q mcp.InputRequest, e *mcp.Error) {
	if q.Method == mcp.MethodElicit && !got.here {
		got.given[q.Key] = mcp.Raw(`{"action":"cancel"}`)
		return
	}
	got.refused[q.Key] = e
}

// take notes an answer of the client.
func (got *answers) take(a answer) {
	got.from = &a.from
	if a.err == nil && !wire.ValidAnswer(a.Method, a.result) {
		a.err = mcp.Errorf(mcp.CodeInvalidParams, "the client's answer has not the form of one")
	}
	if a.err == nil && !got.here {
		var err error
		if a.result, err = wire.Stateless().Answer(a.Method, a.result); err != nil {
			a.err = mcp.Errorf(mcp.CodeInternal, "the client's answer cannot be passed on: %v", err)
		}
	}
	if a.err != nil {
		got.refuse(a.InputRequest, a.err)
		return
	}
	got.given[a.Key] = a.result
}

// ask sends the requests on the call's own stream, under ids that were never used
// before, and waits for the answers. What the client does not answer in time counts
// as refused, so that the server can bring its call to an end.
func (x *exchange) ask(ctx context.Context, requests []mcp.InputRequest, limit time.Duration, got *answers) error {
	incoming := make(chan answer, len(requests)) // each question is answered once
	open := make(map[*question]struct{}, len(requests))
	defer func() { x.live.withdraw(open) }()
	defer x.forgetAsked()
	for _, r := range requests {
		q := &question{InputRequest: r, id: mcp.String(questionPrefix + x.f.callID()), answers: incoming}
		if !x.live.expect(q) {
			x.f.metrics.reached(refuse.BoundQuestions)
			return mcp.Errorf(mcp.CodeOverloaded, "too many questions wait for this client: let it answer some first")
		}
		open[q] = struct{}{}
		if !x.request(q) {
			if !x.wasRetracted(q.Key) {
				return errNoReply // the exchange is over
			}
			delete(open, q)
			x.live.claim(q.id)
		}
	}
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	for len(open) > 0 {
		select {
		case a := <-incoming:
			delete(open, a.question)
			if a.withdrawn {
				x.withdrawn(a.id, "the server does not want it answered any more")
				continue
			}
			x.live.learnRoots(x.call.Caps, a)
			got.take(a)
		case <-timeout.C:
			for q := range open {
				got.refuse(q.InputRequest, mcp.Errorf(mcp.CodeInternal, "the client did not answer in time"))
				x.withdrawn(q.id, "no answer in time")
			}
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// maxRetracted bounds the questions that are remembered to have been withdrawn before
// they were put.
const maxRetracted = 100

func (x *exchange) wasRetracted(key string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.retracted[key]
}

func (x *exchange) forgetAsked() {
	x.mu.Lock()
	x.asked = nil
	x.mu.Unlock()
}

// retract takes the key of a question that the server has withdrawn.
func (x *exchange) retract(key string) {
	x.mu.Lock()
	q := x.asked[key]
	if q == nil && len(x.retracted) < maxRetracted { // it may be on its way here
		if x.retracted == nil {
			x.retracted = make(map[string]bool)
		}
		x.retracted[key] = true
	}
	x.mu.Unlock()
	if q != nil && x.live.claim(q.id) == q {
		q.answers <- answer{question: q, withdrawn: true}
	}
}

// request sends a question to the client, unless its server has withdrawn it.
func (x *exchange) request(q *question) bool {
	data := wire.AppendRequest(nil, q.id, q.Method, q.Params)
	x.mu.Lock()
	ok := !x.retracted[q.Key] && x.needStream() != nil
	if ok {
		if x.asked == nil {
			x.asked = make(map[string]*question)
		}
		x.asked[q.Key] = q
		if !x.shared {
			x.send(data)
		}
	}
	x.mu.Unlock()
	if ok && x.shared { // others may have filled it
		ok = x.stream.Force(data)
	}
	return ok
}

// withdrawn tells the client that a question needs no answer any more.
func (x *exchange) withdrawn(id mcp.Raw, reason string) {
	params := mcp.Object("requestId", id, "reason", mcp.String(reason))
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.needStream() != nil {
		x.send(wire.AppendNotification(nil, mcp.NoteCancelled, params))
	}
}

// expect waits for the answer to a question; false when the session has ended or
// waits for too many.
func (l *live) expect(q *question) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || len(l.asked) >= maxAsked {
		return false
	}
	q.roots = l.roots.changes
	l.asked[string(q.id)] = q
	return true
}

// claim returns the question of this id to the one who says first what became of it.
func (l *live) claim(id mcp.Raw) *question {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.asked[string(id)]
	delete(l.asked, string(id))
	return q
}

// answered takes a response of the client. One that nobody waits for, any more or
// at all, is dropped.
func (l *live) answered(m wire.Message, from mcp.Caller) {
	q := l.claim(m.ID)
	if q == nil {
		return
	}
	a := answer{question: q, result: m.Result, from: from}
	if m.Error != nil {
		a.err = wire.ReadError(m.Error)
	}
	q.answers <- a
}

func (l *live) withdraw(open map[*question]struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for q := range open {
		delete(l.asked, string(q.id))
	}
}
