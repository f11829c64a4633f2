package live

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// Deps is what Sessions need of the endpoint. All of it is required.
type Deps struct {
	// Handler makes calls on behalf of sessions. It does not panic.
	Handler mcp.Handler
	Store   session.Store
	Log     *slog.Logger
	// NewID makes an id that no other call of any replica has.
	NewID func() string
	// Begin counts a listener in, and reports false when the endpoint closes; Done counts it
	// out.
	Begin func() bool
	Done  func()
	// Running is what Begin counts in.
	Running *sync.WaitGroup
	// Draining ends when nothing may begin that lasts.
	Draining context.Context
	// Resumed is told what became of an attempt to go on with a GET stream.
	Resumed func(error)
	// GiveUp lets another replica own a session, whose key it is told.
	GiveUp func(key string)
}

// Sessions are those of which this replica holds something.
type Sessions struct {
	deps    Deps
	leaving atomic.Bool // idle sessions are given up

	mu   sync.Mutex // guards held
	held map[string]*Session
}

// NewSessions returns Sessions that hold nothing.
func NewSessions(deps Deps) *Sessions {
	return &Sessions{deps: deps, held: make(map[string]*Session)}
}

// Session is what is held of one session, from its first request to EndSession or
// DropSession.
type Session struct {
	deps *Deps
	all  *Sessions
	key  string
	gone context.Context // ends when it has ended, or another replica owns it
	end  context.CancelFunc

	mu         sync.Mutex // guards the fields below
	leaving    bool       // it is being given up to other replicas: nothing begins here
	calls      map[*Call]struct{}
	questions  map[string]*question // by id, as it stands on the wire
	roots      roots
	caller     *mcp.Caller            // as the token says that is good the longest; nil for none yet
	streams    []*Stream              // the newest last
	waiting    backlog                // events while no stream is open
	listed     map[string]mcp.ListSum // sums of the lists that the client has, by method, until somebody listens
	listener   *listener              // the one that listens, or did last; nil for none
	missedSome bool                   // the last one ended, and may have missed something

	subscribing chan struct{} // holds one token: whoever changes listener takes it
}

// Of returns what is held of a session. Of one that was initialized and is not held yet,
// another replica was the owner: what its client follows may have changed since that
// listened. Errors: as session.Store.Get.
func (a *Sessions) Of(ctx context.Context, r session.Record) (*Session, error) {
	a.mu.Lock()
	s := a.held[r.Key()]
	if s != nil {
		a.mu.Unlock()
		return s, nil
	}
	s = &Session{
		deps:        &a.deps,
		all:         a,
		key:         r.Key(),
		calls:       make(map[*Call]struct{}),
		questions:   make(map[string]*question),
		missedSome:  r.Initialized,
		subscribing: make(chan struct{}, 1),
	}
	s.gone, s.end = context.WithCancel(context.Background())
	a.held[s.key] = s
	a.mu.Unlock()
	// The session may have ended since it was looked up; its end came too early to
	// take this one along.
	if _, err := a.deps.Store.Get(ctx, r.User, r.ID); err != nil {
		if errors.Is(err, session.ErrNotFound) {
			a.EndSession(s.key)
		}
		return nil, err
	}
	return s, nil
}

// Known returns what is held of a session, nil for nothing.
func (a *Sessions) Known(key string) *Session {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held[key]
}

func (a *Sessions) list() []*Session {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Values(a.held))
}

// EndSession stops what runs for the session of this key (session.Record.Key): its
// calls, its streams, its subscriptions. Whoever ends a session calls it.
func (a *Sessions) EndSession(key string) { a.release(key, ErrEnded)() }

// DropSession lets go of a session that another replica owns now. Its client hears nothing
// more from this one: the owner answers it. stopListening has to be called once the upstreams
// have dropped the session: before that they would unsubscribe what the owner listens to.
func (a *Sessions) DropSession(key string) (stopListening func()) { return a.release(key, ErrMoved) }

func (a *Sessions) release(key string, why error) (stopListening func()) {
	a.mu.Lock()
	s := a.held[key]
	delete(a.held, key)
	a.mu.Unlock()
	if s == nil {
		return func() {}
	}
	s.end()
	s.cancelAll(why)
	return s.stopListening
}

// Recall ends the GET streams of all sessions, and what is heard on their behalf, in good
// order: their clients come back and say anew who they are.
func (a *Sessions) Recall() {
	for _, s := range a.list() {
		s.stopListening()
		s.endStreams()
	}
}

// Leave ends the GET streams, and gives up the sessions for which nothing runs: their clients
// come back to any other replica, which then owns them. The others follow when their calls
// have ended.
func (a *Sessions) Leave() {
	a.leaving.Store(true)
	all := a.list()
	for _, s := range all {
		s.endStreams()
	}
	for _, s := range all {
		s.leave()
	}
}

// Leaving reports whether Leave was called.
func (a *Sessions) Leaving() bool { return a.leaving.Load() }

// leave gives a session up if nothing runs for it. One of HTTP+SSE ends with its stream
// instead. The upstreams let it go before its listener stops, as in DropSession. It reports
// whether the session is given up, by this call or by another one, which may still be about
// it.
func (s *Session) leave() (leaving bool) {
	s.mu.Lock()
	stays := s.gone.Err() != nil || len(s.calls) > 0 || len(s.streams) > 0 && s.streams[0].plain
	first := !stays && !s.leaving
	s.leaving = s.leaving || first
	leaving = s.leaving
	s.mu.Unlock()
	if first {
		s.deps.GiveUp(s.key)
		s.all.EndSession(s.key)
	}
	return leaving
}

// GiveUp gives up a session for which nothing runs, and returns once it is given up. It
// reports false where something runs, and when ctx is over.
func (a *Sessions) GiveUp(ctx context.Context, key string) bool {
	s := a.Known(key)
	if s == nil {
		a.deps.GiveUp(key) // a request that was refused may have taken it
		return true
	}
	if !s.leave() {
		return false
	}
	select {
	case <-s.Gone():
		return true
	case <-ctx.Done():
		return false
	}
}

// StopListening ends what is heard on behalf of all sessions.
func (a *Sessions) StopListening() {
	for _, s := range a.list() {
		s.stopListening()
	}
}

// CancelAll cancels the calls of all sessions, and returns how many there were.
func (a *Sessions) CancelAll(why error) (calls int) {
	for _, s := range a.list() {
		calls += s.cancelAll(why)
	}
	return calls
}

// Tell takes an event of a session that belongs to no request of it.
func (a *Sessions) Tell(session string, e mcp.Event) {
	if s := a.Known(session); s != nil {
		s.event(e)
	}
}

// InUse reports whether anything runs for a session: a call, or a stream.
func (a *Sessions) InUse(key string) bool {
	s := a.Known(key)
	if s == nil {
		return false
	}
	load := s.load()
	return load.Calls > 0 || load.Streams > 0
}

// Load is what is held at the moment.
type Load struct {
	Sessions  int // of which anything is held
	Calls     int // under way
	Questions int // without an answer yet
	Streams   int // open GET streams
}

// Load counts.
func (a *Sessions) Load() (sum Load) {
	for _, s := range a.list() {
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

// Key is the session's (session.Record.Key).
func (s *Session) Key() string { return s.key }

// Gone is closed when the session has ended, or another replica owns it.
func (s *Session) Gone() <-chan struct{} { return s.gone.Done() }

// Saw keeps what the newest token says of the session's user, for what runs between two
// requests.
func (s *Session) Saw(c mcp.Caller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.caller; known != nil && (known.Expires.IsZero() || !c.Expires.IsZero() && !c.Expires.After(known.Expires)) {
		return
	}
	newest := c // on the heap only here
	s.caller = &newest
}
