package restore

import (
	"bytes"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// maxRoots bounds the stored roots, in bytes.
const maxRoots = 64 << 10

// Roots are the client's last answer, until the client says that its roots changed.
type Roots struct {
	mu      sync.Mutex // guards the fields below
	answer  mcp.Raw    // nil while they are not known
	told    bool       // the server was told an answer
	changes int        // how often they changed
}

// Learn stores the answer to a question that was asked after this many changes. An answer
// from before the last change is dropped.
func (r *Roots) Learn(answer mcp.Raw, changes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = true
	if changes == r.changes && len(answer) <= maxRoots {
		r.answer = bytes.Clone(answer)
	}
}

// Changed forgets the answer.
func (r *Roots) Changed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = nil
	r.changes++
}

// Answer returns the last answer, nil if it is unknown.
func (r *Roots) Answer() mcp.Raw {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answer
}

// Changes returns how often the roots have changed.
func (r *Roots) Changes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changes
}

// Told reports whether the server was ever told roots.
func (r *Roots) Told() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.told
}
