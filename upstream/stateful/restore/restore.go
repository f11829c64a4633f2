// Package restore remembers what a new session at a server takes over from the one before. That is
// the log level, the listeners and their subscriptions, the pages that the user was sent to, and
// the client's roots.
//
// It owns the bounds of all these, and subscribes to a resource once for all its listeners.
// It leaves every request to its caller, and starts no goroutine.
package restore

import (
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// State holds what outlives a session. Its methods may be called concurrently.
type State struct {
	Pages Pages
	Roots Roots

	shared bool // several clients use the session

	mu        sync.Mutex // guards the fields below
	level     string
	ended     bool
	listeners map[*Listener]struct{}
	resources map[string]*resource // by URI
}

// New returns an empty State. shared says whether several clients use the session.
func New(shared bool) *State {
	return &State{shared: shared, listeners: make(map[*Listener]struct{}), resources: make(map[string]*resource)}
}

// SetLevel remembers the log level.
func (s *State) SetLevel(level string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.level = level
}

// Restore returns what a new session has to tell the server: the log level, "" for none, and the
// resources that have listeners.
func (s *State) Restore() (level string, uris []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uri, r := range s.resources {
		if r.listeners > 0 {
			uris = append(uris, uri)
		}
	}
	return s.level, uris
}

// Tell sends an event to the listeners that want it.
func (s *State) Tell(e mcp.Event) {
	updated := ""
	if e.Method == mcp.NoteResourceUpdated {
		updated = e.Params.At("uri").Text()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	whose := updated != "" && (s.shared || s.subscribed(updated))
	for l := range s.listeners {
		if l.wants(e) && (!whose || l.subscribed(updated)) {
			l.put(e)
		}
	}
}

// Missed tells the listeners that everything may have changed unnoticed.
func (s *State) Missed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.listeners {
		for _, e := range l.want.Missed() {
			l.put(e)
		}
	}
}

// End ends all listening: Listener.Take returns the error. After that nothing is
// unsubscribed, because the session at the server ends or another replica takes it over.
func (s *State) End(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for l := range s.listeners {
		l.err = err
		l.signal()
	}
}
