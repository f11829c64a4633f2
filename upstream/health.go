package upstream

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// State is how an upstream is.
type State string

// States of an upstream.
const (
	StateConnecting State = "connecting" // not reached yet
	StateWaiting    State = "waiting"    // for the first call of a user, whose credential it takes
	StateReady      State = "ready"
	StateDown       State = "down"
)

// Status is what is to be seen of an upstream from outside.
type Status struct {
	Name      string
	Transport string
	// Revision is the protocol revision that the server speaks, "" as long as unknown;
	// Stateful says that it keeps sessions.
	Revision string
	Stateful bool
	State    State
	// Since is when the state was entered.
	Since time.Time
	// LastError is why the server was last down, without addresses and secrets.
	LastError string
	// ServerName and ServerVersion are what the server calls itself.
	ServerName    string
	ServerVersion string
	// DroppedTools are tools that cannot be offered, and why.
	DroppedTools map[string]string
	// Sessions is how many sessions (processes) are open, Parked how many calls wait
	// for an answer of their user.
	Sessions int
	Parked   int
	// Restarts counts processes and event streams that ended by themselves, Garbage what
	// came on them that was no message.
	Restarts int64
	Garbage  int64
}

// health keeps the changing part of a Status.
type health struct {
	ready    atomic.Bool // State is StateReady: the usual case needs no lock
	restarts atomic.Int64
	garbage  atomic.Int64

	mu     sync.Mutex // guards status
	status Status
}

func (h *health) set(state State, lastError string) (changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if lastError != "" {
		h.status.LastError = lastError
	}
	if h.status.State == state {
		return false
	}
	h.status.State, h.status.Since = state, time.Now()
	h.ready.Store(state == StateReady)
	return true
}

// meet notes which server it is.
func (h *health) meet(revision string, stateful bool, serverInfo mcp.Raw) {
	name, _ := serverInfo.Member("name")
	version, _ := serverInfo.Member("version")
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status.Revision, h.status.Stateful = revision, stateful
	if name.Text() != "" {
		h.status.ServerName, h.status.ServerVersion = clip(name.Text()), clip(version.Text())
	}
}

// clip bounds what a server says of itself.
func clip(s string) string {
	const most = 200
	if len(s) > most {
		return s[:most]
	}
	return s
}

// note takes the outcome of a call. Any answer, be it an error of the server's own,
// shows that the server is there; one call that fails on its way does not say much.
func (u *Upstream) note(err error) {
	e, ok := errors.AsType[*mcp.Error](err)
	switch {
	case err == nil, ok && !u.ours(e):
		if !u.health.ready.Load() && u.health.set(StateReady, "") {
			u.log.Debug("upstream answers") // the catalog tells what that means for lists
		}
	case ok && e.Code == mcp.CodeUpstreamAuthFailed && u.perUser():
		// One user's credential says nothing about the server.
	case ok && unreachable(e):
		if u.health.set(StateDown, e.Message) {
			u.log.Debug("upstream does not answer", "error", e.Message)
		}
	}
}

// ours reports whether an error was made here, not by the server, which may be a
// gateway like this one.
func (u *Upstream) ours(e *mcp.Error) bool {
	name, _ := e.Data.Member("upstream")
	return name.Text() == u.cfg.Name
}

// unreachable reports whether an error of ours says that calls cannot succeed.
func unreachable(e *mcp.Error) bool {
	switch e.Code {
	case mcp.CodeUpstreamUnreachable, mcp.CodeUpstreamAuthFailed, mcp.CodeUpstreamSessionLost:
		return true
	case mcp.CodeUpstreamBadAnswer:
		executed, _ := e.Data.Member("executed")
		return executed.Text() == string(mcp.ExecutedNo)
	}
	return false
}

// Status returns how the upstream is.
func (u *Upstream) Status() Status {
	u.health.mu.Lock()
	s := u.health.status
	u.health.mu.Unlock()
	s.Name, s.Transport = u.cfg.Name, u.cfg.Transport
	if u.speaksSSE() {
		s.Transport = transportSSE
	}
	s.DroppedTools = u.tools.droppedTools()
	s.Sessions, s.Parked = u.pool.size(), u.parks.size()
	s.Restarts, s.Garbage = u.health.restarts.Load(), u.health.garbage.Load()
	return s
}
