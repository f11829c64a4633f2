package dialect

import (
	"slices"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
)

// mostSteps bounds the steps that a Probing keeps.
const mostSteps = 20

// Step is a request with which the gateway found out what a server speaks.
type Step struct {
	At   time.Time
	Took time.Duration
	// Method is server/discover or initialize, Revision what it offered.
	Method, Revision string
	// SSE says that it went over HTTP+SSE, because the server had refused the other transport.
	SSE bool
	// Found says what the answer shows, "" if the request failed.
	Found string
	// Failed is the failure, Error and Cause say what it was; see upstream.Failure. Error is ""
	// for none.
	Failed       failure.Name
	Error, Cause string
}

// Probing keeps the steps of the last probe until a session is open, or known to be unnecessary. It
// may be used concurrently.
type Probing struct {
	mu    sync.Mutex // guards the fields below
	steps []Step
	over  bool
}

// Begin forgets the steps: another probe begins.
func (p *Probing) Begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.steps, p.over = nil, false
}

// Add adds a step, unless the probe is over. last says that it is, with this step. A failure that
// comes again replaces the step before.
func (p *Probing) Add(s Step, last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return
	}
	p.over = last
	if n := len(p.steps); n > 0 && s.Error != "" && p.steps[n-1].Error == s.Error && p.steps[n-1].Method == s.Method &&
		p.steps[n-1].SSE == s.SSE {
		p.steps[n-1] = s
		return
	}
	if len(p.steps) == mostSteps {
		p.steps = slices.Delete(p.steps, 0, 1)
	}
	p.steps = append(p.steps, s)
}

// Steps returns the steps, oldest first.
func (p *Probing) Steps() []Step {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.steps)
}
