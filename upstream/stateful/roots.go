package stateful

import (
	"bytes"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/stateful/restore"
)

const (
	// rootsWait is how long a question for roots waits for a call of the client.
	rootsWait = 2 * time.Second
	// maxHeld bounds how many such questions of a session wait.
	maxHeld  = 4
	rootsKey = "roots"
)

// askGrace is how much longer than its questions a call of a client with a session stays
// parked: if the user does not answer, the front end still comes back to say so.
const askGrace = 5 * time.Second

// roots handles questions for the client's roots outside of any call: many servers ask
// right after initialized. The client can only be asked during one of its calls, so such a
// question waits briefly for one, and the answer is kept for the next question.
type roots struct {
	env      *dialect.Env
	known    *restore.Roots
	declared dialect.Capabilities
	post     func([]byte)
	answer   func(id mcp.Raw, method string, answer mcp.Raw) []byte
	over     func() bool // reports whether the session is over

	mu   sync.Mutex // guards the fields below
	held []mcp.Raw  // the ids of the waiting questions
	wait *time.Timer
	owed bool // the server was told that there are none, for want of a call
}

// ask handles a roots/list that belongs to no call.
func (r *roots) ask(id mcp.Raw) {
	if known := r.known.Answer(); known != nil {
		r.post(r.answer(id, mcp.MethodRootsList, known))
		return
	}
	r.mu.Lock()
	held := len(r.held) < maxHeld
	if held {
		r.held = append(r.held, bytes.Clone(id))
		r.holdFor(rootsWait)
	}
	r.mu.Unlock()
	if !held {
		r.none(id)
	}
}

// holdFor sets when the waiting questions are given up. mu is held.
func (r *roots) holdFor(d time.Duration) {
	if r.wait != nil {
		r.wait.Stop()
	}
	r.wait = time.AfterFunc(d, func() {
		r.env.Spawn(func() {
			for _, id := range r.take() {
				if !r.over() {
					r.none(id)
				}
			}
		})
	})
}

// take removes the waiting questions and returns them.
func (r *roots) take() []mcp.Raw {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := r.held
	r.held = nil
	if r.wait != nil {
		r.wait.Stop()
	}
	return held
}

// none answers a question that no client could be asked. An empty list is a good answer for a
// server that knows no roots yet; a server that knows some should keep them. With the next call the
// server learns that the roots changed, so that it asks again.
func (r *roots) none(id mcp.Raw) {
	r.mu.Lock()
	r.owed = true
	r.mu.Unlock()
	if r.known.Told() {
		r.post(wire.AppendError(nil, id, mcp.Errorf(failure.QuestionRefused,
			"the client can be asked for its roots only during a call")))
		return
	}
	r.post(wire.AppendResult(nil, id, mcp.Raw(`{"roots":[]}`)))
}

// before returns the question that has to be asked before a call is made, nil for none.
func (r *roots) before(c *mcp.Call) *mcp.Reply {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.held) == 0 || !mcp.CanAsk(c.Method) {
		return nil
	}
	limit := r.env.Timeout.Ask
	r.holdFor(limit + askGrace)
	return &mcp.Reply{Ask: &mcp.Ask{
		Requests: []mcp.InputRequest{{Key: rootsKey, Method: mcp.MethodRootsList}},
		Round:    mcp.NewRound(mcp.FrameRoots, ""), Expires: time.Now().Add(limit),
	}}
}

// give answers the waiting questions with what the client said.
func (r *roots) give(c *mcp.Call) {
	answer, refusal := c.Answers[rootsKey], c.Refused[rootsKey]
	valid := wire.ValidAnswer(mcp.MethodRootsList, answer)
	if valid && !c.Ephemeral {
		r.known.Learn(answer, r.known.Changes())
	}
	for _, id := range r.take() {
		switch {
		case refusal != nil:
			r.post(wire.AppendError(nil, id, refusal))
		case valid:
			r.post(r.answer(id, mcp.MethodRootsList, answer))
		default:
			r.none(id)
		}
	}
}

// settle tells a server that got no roots, for want of a call, that the roots changed: now there is
// a call.
func (r *roots) settle() {
	r.mu.Lock()
	owed := r.owed && r.declared.RootsChange
	r.owed = r.owed && !owed
	r.mu.Unlock()
	if owed {
		r.post(wire.AppendNotification(nil, mcp.NoteRootsListChanged, nil))
	}
}
