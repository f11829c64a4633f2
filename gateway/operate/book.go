package operate

import (
	"slices"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// mostChanges bounds the kept changes of a server.
const mostChanges = 100

// Stages of failures of lists, while calls succeed.
const (
	StageList  = "list"  // a list does not come
	StageBound = "bound" // a list is longer than it may be
)

// Book has a Server for each name. A nil Book has none, for a gateway without operators.
type Book struct {
	approving sync.Mutex // held while the lock file is written

	mu  sync.Mutex // guards all
	all map[string]*Server
}

// NewBook makes an empty Book.
func NewBook() *Book { return &Book{all: make(map[string]*Server)} }

// Of returns the Server of a name, a new one if need be; nil of a nil Book.
func (b *Book) Of(name string) *Server {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.all[name]
	if s == nil {
		s = &Server{}
		b.all[name] = s
	}
	return s
}

// Keep forgets all servers but those with these names.
func (b *Book) Keep(names []string) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for name := range b.all {
		if !slices.Contains(names, name) {
			delete(b.all, name)
		}
	}
}

// Guard returns a server that refuses calls while it is disabled; of a nil Book, the server.
func (b *Book) Guard(server Upstream) Upstream {
	if b == nil {
		return server
	}
	return b.Of(server.Name()).Switch.Guard(server)
}

// Change is a change of a server's state.
type Change struct {
	State upstream.State
	Since time.Time
	// Failure is the one that has shown the state; its Error is "" for none.
	Failure upstream.Failure
	// By is the operator who has caused it, and Did the action; "" for none.
	By, Did string
}

// Server remembers the states of a server. It outlives the connections with it, and reloads. A nil
// Server remembers nothing.
type Server struct {
	// Switch disables the server; see Disable and Enable for operators.
	Switch Switch

	mu      sync.Mutex // guards the fields below
	reports *Reports   // those that count
	view    catalog.UpstreamView
	status  upstream.Status
	changes []Change // oldest first
	sizes   sizes
}

// Reports takes the states of one upstream.Upstream. They count from Begin on, until another one
// begins.
type Reports struct{ server *Server }

// NewReports returns the Reports of a new upstream.
func (s *Server) NewReports() *Reports { return &Reports{s} }

// Called takes the state that calls show. It is nil-safe, and does not block.
func (r *Reports) Called(status upstream.Status) {
	if r.server == nil {
		return
	}
	s := r.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reports == r {
		s.status = status
		s.note("", "")
	}
}

// Begin makes the states of an upstream count. by is the operator with the action that made it new,
// "" for none.
func (s *Server) Begin(r *Reports, status upstream.Status, by, did string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reports == r {
		return
	}
	s.reports, s.status = r, status
	s.note(by, did)
}

// Listed takes the state that lists show.
func (s *Server) Listed(view catalog.UpstreamView) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.view = view
	s.note("", "")
}

// Disable disables the server for an operator. It reports whether the server was enabled.
func (s *Server) Disable(by string) bool {
	done := s.Switch.Disable(by)
	if done {
		s.did(by, "disabled")
	}
	return done
}

// Enable undoes Disable. It reports whether the server was disabled.
func (s *Server) Enable(by string) bool {
	done := s.Switch.Enable()
	if done {
		s.did(by, "enabled")
	}
	return done
}

func (s *Server) did(by, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(by, what)
}

// Off returns the operator who has disabled the server, nil while it is enabled.
func (s *Server) Off() *Off {
	if s == nil {
		return nil
	}
	return s.Switch.Off()
}

// Changes returns the last changes, the newest one first.
func (s *Server) Changes() []Change {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.changes)
	slices.Reverse(all)
	return all
}

// since returns the begin of the server's state, by its last change.
func (s *Server) since(state upstream.State, otherwise time.Time) time.Time {
	if s == nil {
		return otherwise
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.changes); n > 0 && s.changes[n-1].State == state {
		return s.changes[n-1].Since
	}
	return otherwise
}

// note remembers the state, if it has changed. mu is held.
func (s *Server) note(by, did string) {
	c := Change{By: by, Did: did}
	view := s.view
	if off := s.Switch.Off(); off != nil {
		c.State, c.Since = upstream.StateDisabled, off.At
	} else {
		if disabled(view) { // it is enabled again, and was not asked yet
			view = catalog.UpstreamView{State: catalog.StateConnecting, Since: time.Now()}
		}
		c.State, c.Since, c.Failure = StateOf(view, s.status)
	}
	if c.State == upstream.StateReady || c.State == upstream.StateConnecting || c.State == upstream.StateDisabled {
		c.Failure = upstream.Failure{} // an earlier one
	}
	if n := len(s.changes); n > 0 {
		before := s.changes[n-1]
		if before.State == c.State && by == "" {
			return
		}
		if c.Since.Before(before.Since) { // it was in this state before, too
			c.Since = time.Now()
		}
	}
	if len(s.changes) >= mostChanges {
		s.changes = slices.Delete(s.changes, 0, 1)
	}
	s.changes = append(s.changes, c)
}

func disabled(view catalog.UpstreamView) bool {
	return view.LastError != "" && view.Failed == failure.UpstreamDisabled
}

// StateOf combines the states that calls and lists have shown. The failure is the last one; its
// Error is "" for none.
func StateOf(view catalog.UpstreamView, status upstream.Status) (state upstream.State, since time.Time,
	last upstream.Failure) {
	if disabled(view) {
		return upstream.StateDisabled, view.Since, status.Last
	}
	state, since, last = status.State, status.Since, status.Last
	if state == upstream.StateConnecting && view.State == catalog.StatePerUser {
		state = upstream.StatePerUser
	}
	if state != upstream.StateReady {
		return state, since, last
	}
	switch view.State { // it answers calls, but not all
	case catalog.StateConnecting:
		state, since = upstream.StateConnecting, view.Since
	case catalog.StateFailing, catalog.StateDown:
		state, since = upstream.StateDegraded, view.Since
		if last.Error == "" || last.At.Before(view.Since) {
			last = upstream.Failure{At: view.Since, Name: view.Failed, Stage: StageList, Error: view.LastError}
		}
	case catalog.StateUp:
		for _, w := range view.Withheld {
			if w.Behind > 0 {
				state, since = upstream.StateDegraded, view.Since
				last = upstream.Failure{At: view.Since, Name: failure.ItemWithheld, Stage: StageBound,
					Error: w.List + ": " + w.Reason}
			}
		}
	}
	return state, since, last
}
