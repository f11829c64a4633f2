package front

import (
	"bytes"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// maxRoots bounds what is kept of a client's roots.
const maxRoots = 64 << 10

// roots are what a session's client last said that they are, as long as it says when
// they change: the many servers behind the gateway would ask it again and again.
type roots struct {
	answer  mcp.Raw // nil while they are not known
	changes int     // an answer to a question from before one does not count
}

// knownRoots returns the client's answer to roots/list, nil where it has to be asked.
func (l *live) knownRoots() mcp.Raw {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.roots.answer
}

// learnRoots keeps the answer to a question for roots.
func (l *live) learnRoots(caps mcp.Raw, a answer) {
	declared, _ := caps.Member("roots")
	if tells, _ := declared.Member("listChanged"); a.Method != mcp.MethodRootsList || !tells.IsTrue() {
		return
	}
	if a.err != nil || !wire.ValidAnswer(a.Method, a.result) || len(a.result) > maxRoots {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.roots == l.roots.changes {
		l.roots.answer = bytes.Clone(a.result)
	}
}

// rootsChanged forgets the roots, before whoever else knows them is told to.
func (l *live) rootsChanged() {
	l.mu.Lock()
	l.roots.answer = nil
	l.roots.changes++
	l.mu.Unlock()
}
