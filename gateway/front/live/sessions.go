package live

import (
	"log/slog"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// Deps are the dependencies of Sessions on the endpoint. All of it is required.
type Deps struct {
	// Handler makes calls on behalf of sessions. It must not panic.
	Handler mcp.Handler
	Store   session.Store
	Log     *slog.Logger
	// NewID makes an id that no other call of any replica has.
	NewID func() string
	// Running counts listeners, and stops new ones when the endpoint closes.
	Running *Running
	// Lasting ends what runs on behalf of a caller with the caller's credential.
	Lasting *mcp.Lasting
	// Resumed takes the result of an attempt to resume a GET stream.
	Resumed func(error)
}

// Sessions holds the running part of all sessions that this replica owns.
type Sessions struct{ deps Deps }

// NewSessions returns Sessions in which nothing runs.
func NewSessions(deps Deps) *Sessions { return &Sessions{deps} }

// Session is the running part of one session: a part of its home.
type Session struct {
	deps *Deps
	home *home.Home

	mu         sync.Mutex // guards the fields below
	calls      map[*Call]struct{}
	questions  map[string]*question // by id, in wire form
	roots      roots
	caller     *mcp.Caller            // as the token with the latest expiry says; nil for none yet
	streams    []*Stream              // the newest last
	plain      bool                   // it is of HTTP+SSE: it ends with its stream, and events have no ids
	waiting    backlog                // events while no stream is open
	listed     map[string]mcp.ListSum // sums of the lists that the client has, by method, until a listener runs
	listener   *listener              // the current listener, or the last one; nil for none
	missedSome bool                   // the last listener ended, and may have missed something

	subscribing *semaphore.Weighted // one: taken to change listener
}

// Of returns the running part of a session. If a session was initialized and nothing runs in it
// yet, another replica was its owner: what its client follows may have changed since that replica
// listened.
func (a *Sessions) Of(h *home.Home) *Session {
	s, made := home.Ensure(h, func() *Session {
		return &Session{
			deps: &a.deps, home: h, calls: make(map[*Call]struct{}), questions: make(map[string]*question),
			subscribing: semaphore.NewWeighted(1),
		}
	})
	if made {
		initialized := session.Of(h).Initialized
		s.mu.Lock()
		s.missedSome = s.missedSome || initialized
		s.mu.Unlock()
		h.Attach(s.end)
	}
	return s
}

// Known returns the running part of a session, or nil if nothing ever ran.
func (a *Sessions) Known(h *home.Home) *Session {
	return home.Part[Session](h)
}

// all returns the running parts of all sessions.
func (a *Sessions) all() (all []*Session) {
	for _, h := range a.deps.Store.Homes().All() {
		if s := a.Known(h); s != nil {
			all = append(all, s)
		}
	}
	return all
}

// end ends everything that runs in a session. Servers have let go of it before: otherwise the
// listener would unsubscribe what the next owner listens to.
func (s *Session) end(why home.Why) {
	cause := ErrEnded
	if !why.Over() {
		cause = ErrMoved
	}
	s.cancelAll(cause)
	s.stopListening()
}

// EndStreams ends the GET streams of all sessions: their clients come back to other replicas. A
// stream of HTTP+SSE ends when its requests are answered.
func (a *Sessions) EndStreams() {
	for _, s := range a.all() {
		s.endStreams()
	}
}

// StopListening ends the listeners of all sessions.
func (a *Sessions) StopListening() {
	for _, s := range a.all() {
		s.stopListening()
	}
}

// CancelAll cancels the calls of all sessions with ErrClosing, and returns how many there were.
func (a *Sessions) CancelAll() (calls int) {
	for _, s := range a.all() {
		calls += s.cancelAll(ErrClosing)
	}
	return calls
}

// Tell takes an event of a session, by its key, that belongs to none of its requests.
func (a *Sessions) Tell(key string, e mcp.Event) {
	if h := a.deps.Store.Homes().Known(home.ParseKey(key)); h != nil {
		if s := a.Known(h); s != nil {
			s.event(e)
		}
	}
}

// LoadOf counts the load of one session now.
func (a *Sessions) LoadOf(key string) Load {
	if h := a.deps.Store.Homes().Known(home.ParseKey(key)); h != nil {
		if s := a.Known(h); s != nil {
			return s.load()
		}
	}
	return Load{}
}

// Load counts what Sessions hold at a moment.
type Load struct {
	Sessions  int // sessions with anything held
	Calls     int // calls in flight
	Questions int // questions without an answer yet
	Streams   int // open GET streams
}

// Load counts what all sessions hold now.
func (a *Sessions) Load() (sum Load) {
	for _, s := range a.all() {
		load := s.load()
		sum.Sessions++
		sum.Calls += load.Calls
		sum.Questions += load.Questions
		sum.Streams += load.Streams
	}
	return sum
}

func (s *Session) load() Load {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Load{Calls: len(s.calls), Questions: len(s.questions), Streams: len(s.streams)}
}

// Home returns the session's home.
func (s *Session) Home() *home.Home { return s.home }

// Saw keeps the caller of the newest token, for the listener that runs between requests.
func (s *Session) Saw(c mcp.Caller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.caller; known != nil && (known.Expires.IsZero() ||
		!c.Expires.IsZero() && !c.Expires.After(known.Expires)) {
		return
	}
	s.caller = new(c) // allocates only here
}
