package upstream

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/pool"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// State is the state of an upstream.
type State string

// States of an upstream.
const (
	StateConnecting State = "connecting"  // not reached yet
	StateReady      State = "ready"       // it answers
	StateDegraded   State = "degraded"    // it can be reached, but its answers do not come
	StateNeedsLogin State = "needs-login" // it refuses the credential
	StateDown       State = "down"        // it cannot be reached
	StateDisabled   State = "disabled"    // an operator has disabled it
	StatePerUser    State = "per user"    // each user reaches it with a credential of their own, and none has yet
)

// Stages at which a call can fail.
const (
	StageResolve   = "resolve"   // its name
	StageConnect   = "connect"   // a connection, or the start of its process
	StageTLS       = "tls"       // its certificate, or the rest of the handshake
	StageLogin     = "login"     // the credential
	StageHandshake = "handshake" // the probe, or opening a session
	StageCall      = "call"      // the call itself
)

// degradedAfter is how many calls in a row must fail on their way before a server counts as
// degraded: a single failure says little.
const degradedAfter = 3

// maxUsers bounds the users with remembered refusals of their credentials.
const maxUsers = 1000

// Failure describes what went wrong.
type Failure struct {
	At time.Time
	// Name is which failure it is.
	Name failure.Name
	// Stage is one of the Stage words.
	Stage string
	// Error says why, without addresses and secrets.
	Error string
	// Cause is what the operator may know in addition (mcp.Error).
	Cause string
}

// Status is the state of an upstream as seen from outside.
type Status struct {
	Name      string
	Transport string
	// Revision is the protocol revision that the server speaks, "" while unknown. Stateful
	// says that the server keeps sessions.
	Revision string
	Stateful bool
	State    State
	// Since is when the upstream entered the state.
	Since time.Time
	// Last is the last failure that says something about the server; zero for none.
	Last Failure
	// Refused is the time until which calls are refused without asking the server; zero if
	// they are not refused.
	Refused time.Time
	// UsersNeedLogin is how many users' credentials the server has refused, if each user
	// has one. It does not affect State.
	UsersNeedLogin int
	// ServerName and ServerVersion are what the server reports about itself.
	ServerName    string
	ServerVersion string
	// Capabilities are those that the server declares, nil while they are not known.
	Capabilities mcp.Raw
	// DroppedTools maps tools that cannot be offered to the reasons.
	DroppedTools map[string]string
	// SkippedSkills maps skills, and files of skills, that are left out to the reasons. The
	// keys are paths or URIs.
	SkippedSkills map[string]string
	// Sessions is how many sessions (processes) are open, Calls how many calls are under
	// way, and Parked how many of those wait for their user's answer.
	Sessions int
	Calls    int
	Parked   int
	// Queued is how many calls wait for Limits.Concurrent others to end.
	Queued int
	// Restarts counts processes and event streams that ended by themselves. Garbage counts
	// data on them that was not a message.
	Restarts int64
	Garbage  int64
}

// health keeps the changing part of a Status.
type health struct {
	ready    atomic.Bool  // State is StateReady: the usual case needs no lock
	failing  atomic.Int64 // calls in a row that failed on their way
	restarts atomic.Int64
	garbage  atomic.Int64
	program  atomic.Pointer[transport.Program] // that was started last; nil for none

	changed func(Status) // Deps.Changed; may be nil

	users *lru.Cache[string, struct{}] // users with refused credentials

	mu     sync.Mutex // guards status
	status Status     // with State, Since, Last and what the server says about itself
}

// set records a state and the failure that shows it, the zero one for none.
func (h *health) set(state State, last Failure) (changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if last.Error != "" {
		h.status.Last = last
	}
	if h.status.State == state {
		return false
	}
	h.status.State, h.status.Since = state, time.Now()
	h.ready.Store(state == StateReady)
	if h.changed != nil {
		h.changed(h.status)
	}
	return true
}

// meet records which server it is.
func (h *health) meet(rev *wire.Revision, serverInfo, capabilities mcp.Raw) {
	name, _ := serverInfo.Member("name")
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status.Revision, h.status.Stateful = rev.Name, rev.Stateful
	if name.Text() != "" {
		h.status.ServerName, h.status.ServerVersion = dialect.Clip(name.Text()), dialect.Clip(serverInfo.At("version").Text())
	}
	if capabilities != nil && len(capabilities) <= dialect.MaxHello && !bytes.Equal(capabilities, h.status.Capabilities) {
		h.status.Capabilities = bytes.Clone(capabilities) // it is a part of a larger message
	}
}

// note records the outcome of a call: the error that it ends with, and its cause. Any
// answer, even an error of the server's own, shows that the server is there; a single call
// that fails on its way says little.
func (u *Upstream) note(c *mcp.Call, err, cause error) (shown admit.Outcome) {
	h := &u.health
	if status, ok := errors.AsType[*transport.StatusError](cause); ok && status.Status == http.StatusTooManyRequests {
		shown.RetryAfter = status.RetryAfter
	}
	e, ok := errors.AsType[*mcp.Error](err)
	switch {
	case err == nil, ok && !u.ours(e):
		if h.failing.Load() != 0 {
			h.failing.Store(0)
		}
		if !h.ready.Load() && h.set(StateReady, Failure{}) {
			u.log.Debug("upstream answers") // the catalog logs what that means for lists
		}
		if u.PerUser() {
			h.users.Remove(c.Caller.User())
		}
		shown.There = true
		return shown
	case !ok: // its caller has left
		return shown
	}
	last := Failure{At: time.Now(), Name: e.Name, Stage: stage(cause), Error: e.Message, Cause: e.Cause}
	switch e.Code {
	case mcp.CodeDraining, mcp.CodeOverloaded, mcp.CodeRateLimited:
		return shown // it did not fail
	}
	u.count.failures[last.Stage].Inc()
	switch {
	case e.Code == mcp.CodeUpstreamAuthFailed && u.PerUser():
		h.users.Add(c.Caller.User(), struct{}{}) // this says nothing about the server
	case e.Code == mcp.CodeUpstreamAuthFailed:
		u.become(StateNeedsLogin, last)
	case e.Code == mcp.CodeUpstreamUnreachable, e.Code == mcp.CodeUpstreamSessionLost,
		e.Code == mcp.CodeUpstreamBadAnswer && e.Data.At("executed").Text() == string(mcp.ExecutedNo):
		u.become(StateDown, last) // calls cannot succeed
	case e.Code == mcp.CodeUpstreamTimeout, e.Code == mcp.CodeUpstreamBadAnswer:
		if h.failing.Add(1) >= degradedAfter {
			u.become(StateDegraded, last)
		}
	}
	if e.Code == mcp.CodeUpstreamUnreachable {
		shown.Gone = e.Message
	}
	return shown
}

func (u *Upstream) become(state State, last Failure) {
	if u.health.set(state, last) {
		u.log.Debug("upstream is "+string(state), last.Name.Attr(), "stage", last.Stage, "error", last.Error,
			"cause", last.Cause)
	}
}

// slow says what is known of a program that has not answered yet.
func (u *Upstream) slow() {
	last := Failure{
		At: time.Now(), Name: failure.UpstreamTimeout, Stage: StageHandshake,
		Error: fmt.Sprintf("Upstream %s has been started and does not answer yet", u.cfg.Name),
		Cause: u.hostOrProgram() + ": no answer yet" + u.lastWords(true),
	}
	u.health.mu.Lock()
	waits := u.health.status.State == StateConnecting
	if waits {
		u.health.status.Last = last
	}
	u.health.mu.Unlock()
	if waits {
		u.log.Warn("upstream does not answer yet", last.Name.Attr(), "cause", last.Cause)
	}
}

// stage returns the stage at which a call failed.
func stage(err error) string {
	network, ok := errors.AsType[*net.OpError](err)
	switch {
	case aboutCredentials(err):
		return StageLogin
	case as[*net.DNSError](err) != nil:
		return StageResolve
	case as[*egress.ProxyError](err) != nil:
		return StageConnect
	case as[*tls.CertificateVerificationError](err) != nil, errors.Is(err, transport.ErrHandshake):
		return StageTLS
	case ok && network.Op == "dial", errors.Is(err, pool.ErrDown),
		errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return StageConnect
	case errors.Is(err, dialect.ErrNotStarted), errors.Is(err, dialect.ErrWrongEra):
		return StageHandshake
	}
	return StageCall
}

// ours reports whether an error was made here and not by the server: that may be a gateway, too.
func (u *Upstream) ours(e *mcp.Error) bool {
	return e.Data.At("upstream").Text() == u.cfg.Name
}

// Status returns the state of the upstream.
func (u *Upstream) Status() Status {
	u.health.mu.Lock()
	s := u.health.status
	u.health.mu.Unlock()
	s.UsersNeedLogin, s.Refused = u.health.users.Len(), u.admit.RefusedUntil()
	s.Name, s.Transport = u.cfg.Name, u.cfg.Transport
	if e := u.probe.known.Load(); e != nil && e.SSE {
		s.Transport = transportSSE
	}
	s.DroppedTools, s.SkippedSkills = u.stateless.DroppedTools(), u.skills.Skipped()
	s.Sessions, s.Calls, s.Parked = u.stateful.Sessions()+u.stateless.Sessions(), u.lives.calls(), u.stateful.Parked()
	_, s.Queued = u.admit.Load()
	s.Restarts, s.Garbage = u.health.restarts.Load(), u.health.garbage.Load()
	return s
}

// Idle reports whether no call is running, queued or parked. GET streams do not count.
func (u *Upstream) Idle() bool {
	running, waiting := u.admit.Load()
	return running == 0 && waiting == 0 && u.stateful.Parked() == 0 && u.lives.calls() == 0
}

// Era returns the revision that the server speaks, "" while it is not known, and whether it
// keeps sessions.
func (u *Upstream) Era() (revision string, stateful bool) {
	u.health.mu.Lock()
	defer u.health.mu.Unlock()
	return u.health.status.Revision, u.health.status.Stateful
}
