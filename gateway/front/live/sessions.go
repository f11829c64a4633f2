package live

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// Deps is what Sessions need from the endpoint. All of it is required.
type Deps struct {
	// Handler makes calls on behalf of sessions. It must not panic.
	Handler mcp.Handler
	Store   session.Store
	Log     *slog.Logger
	// NewID makes an id that no other call of any replica has.
	NewID func() string
	// Begin counts a listener in. It returns false if the endpoint is closing. Done counts the
	// listener out.
	Begin func() bool
	Done  func()
	// Running is the group that Begin adds to.
	Running *sync.WaitGroup
	// Lasting ends what runs on behalf of a caller with the caller's credential.
	Lasting *mcp.Lasting
	// Draining ends when nothing long-lived may begin any more.
	Draining context.Context
	// Resumed is told the result of an attempt to resume a GET stream.
	Resumed func(error)
	// GiveUp gives a session up, by its key, so that another replica can own it.
	GiveUp func(key string)
}

// Sessions are the sessions of which this replica holds something.
type Sessions struct {
	deps    Deps
	leaving atomic.Bool // idle sessions are being given up

	mu     sync.Mutex // guards the fields below
	held   map[string]*Session
	visits map[string]int // see Visit
}

// NewSessions returns Sessions that hold nothing.
func NewSessions(deps Deps) *Sessions {
	return &Sessions{deps: deps, held: make(map[string]*Session), visits: make(map[string]int)}
}

// Session is what is held of one session, from its first request to EndSession or DropSession.
type Session struct {
	deps *Deps
	all  *Sessions
	key  string
	gone context.Context // ends when the session has ended, or another replica owns it
	end  context.CancelFunc

	mu         sync.Mutex // guards the fields below
	leaving    bool       // the session is being given up to other replicas: nothing begins here
	calls      map[*Call]struct{}
	questions  map[string]*question // by id, in wire form
	roots      roots
	caller     *mcp.Caller            // as the token with the latest expiry says; nil for none yet
	streams    []*Stream              // the newest last
	plain      bool                   // it is of HTTP+SSE: it ends with its stream, whose events have no ids
	waiting    backlog                // events while no stream is open
	listed     map[string]mcp.ListSum // sums of the lists that the client has, by method, until somebody listens
	listener   *listener              // the current listener, or the last one; nil for none
	missedSome bool                   // the last listener ended, and may have missed something

	subscribing *semaphore.Weighted // one: taken to change listener
}

// Of returns what is held of a session. If a session was initialized and is not held yet,
// another replica was its owner: what its client follows may have changed since that replica
// listened. Errors: as session.Store.Get.
func (a *Sessions) Of(ctx context.Context, r session.Record) (*Session, error) {
	s, first := a.hold(r.Key(), r.Initialized)
	if !first {
		return s, nil
	}
	// The session may have ended since it was looked up. Its end came too early to include
	// this Session.
	if _, err := a.deps.Store.Get(ctx, r.User, r.ID); err != nil {
		if errors.Is(err, session.ErrNotFound) {
			a.EndSession(s.key)
		}
		return nil, err
	}
	return s, nil
}

// hold returns what is held of a session, and whether it was not held before. missedSome is for
// a Session that was not.
func (a *Sessions) hold(key string, missedSome bool) (s *Session, first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.held[key]; s != nil {
		return s, false
	}
	s = &Session{
		deps:        &a.deps,
		all:         a,
		key:         key,
		calls:       make(map[*Call]struct{}),
		questions:   make(map[string]*question),
		missedSome:  missedSome,
		subscribing: semaphore.NewWeighted(1),
	}
	s.gone, s.end = context.WithCancel(context.Background())
	a.held[key] = s
	return s, true
}

// Known returns what is held of a session, or nil.
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

// EndSession stops everything that runs for the session of this key (session.Record.Key): its
// calls, its streams, its subscriptions. Whoever ends a session must call it.
func (a *Sessions) EndSession(key string) { a.release(key, ErrEnded)() }

// DropSession lets go of a session that another replica owns now. Its client hears nothing
// more from this replica; the owner answers it. Call stopListening after the upstreams have
// dropped the session: before that, they would unsubscribe what the new owner listens to.
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

// leavers is how many sessions Leave gives up at a time.
const leavers = 16

// Leave ends the GET streams, and gives up the sessions for which nothing runs, until ctx ends.
// Their clients come back to any other replica, which then owns them. The other sessions follow
// when their calls have ended, or when another replica forwards a request of theirs.
func (a *Sessions) Leave(ctx context.Context) {
	a.leaving.Store(true)
	all := a.list()
	for _, s := range all {
		s.endStreams()
	}
	var giving sync.WaitGroup
	for i := range min(leavers, len(all)) {
		giving.Go(func() {
			for ; i < len(all) && ctx.Err() == nil; i += leavers {
				all[i].leave()
			}
		})
	}
	giving.Wait()
}

// Leaving reports whether Leave was called.
func (a *Sessions) Leaving() bool { return a.leaving.Load() }

// leave gives a session up if nothing runs for it. A session of HTTP+SSE is not given up: it ends
// with its stream. The upstreams let the session go before its listener stops, as in DropSession.
// leave reports whether the session is given up, by this call or by another one that may still
// be running.
func (s *Session) leave() (leaving bool) {
	s.mu.Lock()
	stays := s.gone.Err() != nil || len(s.calls) > 0 || s.plain
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

// Visit says that a client's request comes for a session at a replica that gives its sessions up:
// until done is called, GiveUp does not. Otherwise two requests, of which another replica forwards
// one, could take the session away from each other until both fail.
func (a *Sessions) Visit(key string) (done func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.visits[key]++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.visits[key]--; a.visits[key] == 0 {
			delete(a.visits, key)
		}
	}
}

func (a *Sessions) visited(key string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.visits[key] > 0
}

// GiveUp gives up a session for which nothing runs, and returns once that is done. It returns
// false if something runs, if it is visited, or if ctx ends. A session of which nothing is held may have been
// loaded by a request that was refused, or is about to begin a call: so it is held meanwhile.
func (a *Sessions) GiveUp(ctx context.Context, key string) bool {
	if a.visited(key) {
		return false
	}
	s, _ := a.hold(key, false)
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

// StopListening ends the listeners of all sessions.
func (a *Sessions) StopListening() {
	for _, s := range a.list() {
		s.stopListening()
	}
}

// CancelAll cancels the calls of all sessions with ErrClosing, and returns how many there were.
func (a *Sessions) CancelAll() (calls int) {
	for _, s := range a.list() {
		calls += s.cancelAll(ErrClosing)
	}
	return calls
}

// Tell takes an event of a session that belongs to none of its requests.
func (a *Sessions) Tell(session string, e mcp.Event) {
	if s := a.Known(session); s != nil {
		s.event(e)
	}
}

// InUse reports whether anything runs for a session: a call, or a stream.
func (a *Sessions) InUse(key string) bool {
	load := a.LoadOf(key)
	return load.Calls > 0 || load.Streams > 0
}

// LoadOf counts what is held now of one session.
func (a *Sessions) LoadOf(key string) Load {
	s := a.Known(key)
	if s == nil {
		return Load{}
	}
	return s.load()
}

// Load is what Sessions hold at a moment.
type Load struct {
	Sessions  int // sessions of which anything is held
	Calls     int // calls in flight
	Questions int // questions without an answer yet
	Streams   int // open GET streams
}

// Load counts what is held now.
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

// Key returns the session's key (session.Record.Key).
func (s *Session) Key() string { return s.key }

// Gone is closed when the session has ended, or another replica owns it.
func (s *Session) Gone() <-chan struct{} { return s.gone.Done() }

// Saw keeps what the newest token says of the session's user, for what runs between requests.
func (s *Session) Saw(c mcp.Caller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.caller; known != nil && (known.Expires.IsZero() || !c.Expires.IsZero() && !c.Expires.After(known.Expires)) {
		return
	}
	s.caller = new(c) // allocates only here
}
