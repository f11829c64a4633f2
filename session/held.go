package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// sessions are the sessions that this process holds: with Memory all that exist, with Redis the
// ones that this replica owns. What is held of a session is authoritative.
type sessions struct {
	cfg     Config
	log     *slog.Logger
	count   *Metrics
	began   time.Time
	clock   func() time.Duration // monotonic, so that setting the clock forward ends no session
	place   place                // where sessions outlive this process; nil for nowhere
	onEnd   func(*held)          // called once for each session that has ended, under no lock except perhaps its turn
	logRoom *mcp.Memory          // for event logs; with Redis, for those of the sessions that are held
	closed  atomic.Bool
	stop    context.CancelFunc // ends run; done waits for it
	done    sync.WaitGroup     // run, and what endedLater starts
	ending  sync.Mutex         // taken to set closed, and to start what done waits for before that

	known atomic.Int64
	held  sync.Map // *held by name
}

// place is where sessions outlive the process. The caller of a method that takes a session has
// its turn. Errors: ErrNotFound, ErrMoved, ErrUnavailable.
type place interface {
	// load reads a session into h.
	load(ctx context.Context, h *held) error
	write(ctx context.Context, h *held, c change) error
	// remove ends a session. A session without an owner is ended only if the place would not
	// keep it for longer than left; otherwise the error is ErrMoved.
	remove(ctx context.Context, h *held, left time.Duration) error
	// fetch sets the data of events.
	fetch(ctx context.Context, h *held, stream string, events []Event) error
	// swept is called at the end of each sweep.
	swept(ctx context.Context)
}

// change is what a place is told of a session, apart from changes to its streams.
type change struct {
	used   bool    // it counts as a use of the session
	record *Record // the record that replaces the held one; nil for no change
	stream string  // the stream that an event is added to
	seq    uint64  // the event's position, 0 for none
	data   []byte  // the event
	kept   bool    // there is room for it
}

// held is one session in memory.
type held struct {
	name   name
	turn   *semaphore.Weighted    // one: taken to write to the session
	record atomic.Pointer[Record] // nil until it is loaded; the Record it points to is never modified
	used   lastUse
	told   atomic.Int64 // the last use that the place was told of
	over   atomic.Bool  // it has ended, belongs to another replica, or never existed
	log    streams

	// The following are for Redis. Only the holder of the turn uses them.
	writes uint64 // how many there were, all owners'
	unsure bool   // Redis may have another record
}

// last returns the record of a session that has ended. If it was never read, there are only its
// user and its id.
func (h *held) last() Record {
	if r := h.record.Load(); r != nil {
		return *r
	}
	return Record{User: h.name.user, ID: h.name.id}
}

// done gives the turn back.
func (h *held) done() { h.turn.Release(1) }

// set checks cfg and sets the fields. The caller then sets place if there is one, and calls start.
func (s *sessions) set(cfg Config, deps Deps) error {
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("sessions: %w", err)
	}
	s.cfg, s.log, s.count, s.began, s.clock = cfg.withDefaults(), deps.Log, deps.Metrics, time.Now(), deps.clock
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.count == nil {
		s.count = NewMetrics(nil)
	}
	if s.clock == nil {
		s.clock = func() time.Duration { return time.Since(s.began) }
	}
	s.onEnd = func(h *held) {
		if deps.OnEnd != nil {
			deps.OnEnd(h.last())
		}
	}
	s.logRoom = mcp.NewMemory(maxLogBytes)
	return nil
}

// start starts the one goroutine.
func (s *sessions) start() {
	ctx, stop := context.WithCancel(context.Background()) // until Close
	s.stop = stop
	s.done.Go(func() { s.run(ctx) })
}

// newHeld returns a session that was used just now, as the place knows.
func (s *sessions) newHeld(n name) *held {
	h := &held{name: n, turn: semaphore.NewWeighted(1)}
	user := n.user
	if user == (mcp.Caller{}).User() {
		user = "" // without authentication there is one user, who may have all of it
	}
	h.log.room = s.logRoom.Outside("", user)
	now := int64(s.clock())
	h.used.Store(now)
	h.told.Store(now)
	if s.place != nil {
		h.log.changes = &changes{}
	}
	return h
}

// begin holds a session that was just made.
func (s *sessions) begin(h *held, r *Record) {
	h.record.Store(r)
	s.held.Store(h.name, h)
	s.known.Add(1)
	s.count.open(r.Revision)
}

// get returns a held session, or nil.
func (s *sessions) get(n name) *held {
	found, _ := s.held.Load(n)
	h, _ := found.(*held)
	return h
}

// all iterates over the held sessions.
func (s *sessions) all(yield func(*held) bool) {
	s.held.Range(func(_, h any) bool { return yield(h.(*held)) })
}

// current returns the record of a held session that has not expired, and restarts its idle time.
// It returns nil if the place must be asked: also if the place was told nothing for so long that
// the session may have ended there.
func (s *sessions) current(h *held) *Record {
	r, now := h.record.Load(), int64(s.clock())
	if r == nil || h.over.Load() || s.place != nil && now-h.told.Load() >= int64(s.cfg.Kept()) || !h.used.touch(now, s.cfg.IdleTimeout) {
		return nil
	}
	return r
}

// use is take, and restarts the idle time.
func (s *sessions) use(ctx context.Context, n name) (*held, error) {
	h, err := s.take(ctx, n)
	if err != nil || s.current(h) != nil {
		return h, err
	}
	h.used.touch(int64(s.clock()), s.cfg.IdleTimeout)
	if err := s.tell(ctx, h, change{used: true}); err != nil {
		h.done()
		return nil, err
	}
	return h, nil
}

// take returns a session, loaded if necessary, together with its turn. The caller must give
// the turn back. Errors: ErrNotFound, ErrMoved, ErrUnavailable.
func (s *sessions) take(ctx context.Context, n name) (*held, error) {
	if s.closed.Load() {
		return nil, ErrUnavailable
	}
	if !ValidID(n.id) || n.user == "" {
		return nil, ErrNotFound
	}
	for {
		h, err := s.hold(n)
		if err != nil {
			return nil, err
		}
		if err := h.await(ctx); err != nil {
			return nil, err
		}
		if !h.over.Load() {
			err = s.ready(ctx, h)
			if err == nil && !h.over.Load() {
				return h, nil
			}
		}
		h.done()
		if err != nil {
			return nil, err
		}
		// It has ended, or was dropped while it was loaded: there may be a new one by now.
	}
}

// await waits for the turn.
func (h *held) await(ctx context.Context) error {
	if h.turn.TryAcquire(1) {
		return nil
	}
	if err := h.turn.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

// hold returns a held session, or begins to hold one that may be in the place.
func (s *sessions) hold(n name) (*held, error) {
	if h := s.get(n); h != nil {
		return h, nil
	}
	if s.place == nil {
		return nil, ErrNotFound
	}
	if s.Known() >= s.cfg.Max {
		return nil, ErrUnavailable
	}
	h, known := s.held.LoadOrStore(n, s.newHeld(n))
	if !known {
		s.known.Add(1)
	}
	return h.(*held), nil
}

// ready loads a session that is not loaded, and ends one that was idle for too long.
func (s *sessions) ready(ctx context.Context, h *held) error {
	if h.record.Load() == nil {
		if err := s.place.load(ctx, h); err != nil {
			s.drop(h)
			return err
		}
	}
	if h.used.alive(int64(s.clock()), s.cfg.IdleTimeout) {
		return nil
	}
	if err := s.end(ctx, h, s.count.idle, s.cfg.Kept()-s.cfg.IdleTimeout); err != nil {
		return err
	}
	return ErrNotFound
}

// tell tells the place of a change. The caller has the turn.
func (s *sessions) tell(ctx context.Context, h *held, c change) error {
	if s.place == nil {
		return nil
	}
	err := s.place.write(ctx, h, c)
	switch {
	case errors.Is(err, ErrNotFound):
		s.endedLater(h, s.count.gone)
	case errors.Is(err, ErrMoved):
		s.drop(h)
	}
	return err
}

// end ends a session, of which the caller has the turn. Errors: ErrMoved, ErrUnavailable.
func (s *sessions) end(ctx context.Context, h *held, why cause, left time.Duration) error {
	if s.place != nil {
		err := s.place.remove(ctx, h, left)
		if errors.Is(err, ErrMoved) {
			s.drop(h)
		}
		if err != nil && !errors.Is(err, ErrNotFound) { // not found: it may be the second attempt
			return err
		}
	}
	if s.drop(h) {
		why.Inc()
		h.done() // for a while: whoever is told may wait for somebody who waits for the turn
		s.onEnd(h)
		_ = h.await(context.Background()) // nobody keeps the turn of a session that has ended
	}
	return nil
}

// endedLater is ended for a caller who may hold what onEnd waits for, such as the lock of a stream
// whose event it adds: onEnd has a goroutine of its own, which close waits for.
func (s *sessions) endedLater(h *held, why cause) {
	if !s.drop(h) {
		return
	}
	why.Inc()
	s.ending.Lock()
	defer s.ending.Unlock()
	if !s.closed.Load() {
		s.done.Go(func() { s.onEnd(h) })
	}
}

// ended forgets a session and calls onEnd, once.
func (s *sessions) ended(h *held, why cause) {
	if s.drop(h) {
		why.Inc()
		s.onEnd(h)
	}
}

// drop forgets a session, and reports whether it was held.
func (s *sessions) drop(h *held) bool {
	if !h.over.CompareAndSwap(false, true) {
		return false
	}
	s.held.CompareAndDelete(h.name, h)
	s.known.Add(-1)
	h.log.close()
	return true
}
