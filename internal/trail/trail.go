package trail

import (
	"sync"
	"time"
)

// mostSteps bounds the steps of a call: a call with many questions has many rounds.
const mostSteps = 128

// Trail records where the time of a call went, and its messages. Its methods are safe for
// concurrent use. A nil Trail, of a call that cannot be looked at, notes nothing.
type Trail struct {
	of    *Trails
	began time.Time
	mode  Mode

	mu       sync.Mutex // guards the fields below
	round    int
	steps    []Step
	last     int  // the step that began last
	passing  bool // it ends where another one begins
	messages []Message
	bytes    int64 // of messages, counted in of
	missed   int   // messages for which there was no room
	gone     bool  // it cannot be looked at any more
}

// Step is the work of one part of the gateway for a call.
type Step struct {
	// Name is the part: identity, front, limits, policy, approval, hook, queue, session,
	// credential, server, user or answer. Of is which one: a hook or a server.
	Name, Of string
	// Round counts the rounds of the call from 1.
	Round int
	// Start is the time since the request arrived.
	Start, Took time.Duration
	// Result is the outcome, "" if the call went on.
	Result string
	// Open says that it has not ended.
	Open bool
}

// Mark is a step that was begun. The zero Mark is that of no step.
type Mark struct {
	trail *Trail
	at    int
}

// Begin begins a step.
func (t *Trail) Begin(name, of string) Mark { return t.begin(Step{Name: name, Of: of}, false) }

// Stage begins a step that ends, at the latest, where another one begins.
func (t *Trail) Stage(name string) Mark { return t.begin(Step{Name: name}, true) }

func (t *Trail) begin(s Step, passes bool) Mark {
	if t == nil {
		return Mark{}
	}
	s.Start, s.Open = time.Since(t.began), true
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone || len(t.steps) >= mostSteps {
		return Mark{}
	}
	if t.passing {
		t.end(t.last, s.Start, "")
	}
	if t.steps == nil {
		t.steps = make([]Step, 0, 8)
	}
	s.Round = t.round
	t.last, t.passing = len(t.steps), passes
	t.steps = append(t.steps, s)
	return Mark{t, t.last}
}

// End ends the step. Only its first end counts.
func (m Mark) End(result string) {
	if m.trail == nil {
		return
	}
	now := time.Since(m.trail.began)
	m.trail.mu.Lock()
	defer m.trail.mu.Unlock()
	m.trail.end(m.at, now, result)
}

// end ends a step. The caller holds mu.
func (t *Trail) end(at int, now time.Duration, result string) {
	if at >= len(t.steps) { // it cannot be looked at any more
		return
	}
	if s := &t.steps[at]; s.Open {
		s.Open, s.Took, s.Result = false, now-s.Start, result
	}
}

// Was notes a step that is over, by its times.
func (t *Trail) Was(name string, from, to time.Time) {
	if t == nil || from.IsZero() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.gone && len(t.steps) < mostSteps {
		t.steps = append(t.steps, Step{Name: name, Round: t.round, Start: from.Sub(t.began), Took: to.Sub(from)})
	}
}

// NextRound says that the call is made again, with the answers to questions.
func (t *Trail) NextRound() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.round++
}
