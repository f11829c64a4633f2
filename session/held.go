package session

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// shardCount divides the sessions so that readers of different ones rarely meet.
const shardCount = 256

// sessions are those that this process holds: all that there are in memory, of those in Redis
// the ones that this replica owns. What is held is the truth for as long as it is held.
type sessions struct {
	cfg     Config
	log     *slog.Logger
	count   *Metrics
	clock   func() time.Duration // monotonic, so that a clock set forward ends no session
	place   place                // where they outlive this process; nil for nowhere
	onEnd   func(*held)          // called once for each that has ended, under no lock but its turn
	logRoom logRoom
	closed  atomic.Bool
	stop    context.CancelFunc // ends run, for which done waits
	done    sync.WaitGroup

	known  atomic.Int64
	seed   maphash.Seed
	shards [shardCount]shard
}

type shard struct {
	mu   sync.RWMutex // guards held
	held map[name]*held
}

// place is where sessions stand that outlive the process. Whoever calls a method that has to
// do with a session has its turn. Errors: ErrNotFound, ErrMoved, ErrUnavailable.
type place interface {
	// load gets a session that is held from now on.
	load(ctx context.Context, h *held) error
	write(ctx context.Context, h *held, c change) error
	// remove ends a session; left is how long the place may want to keep it if nobody owns it.
	remove(ctx context.Context, h *held, left time.Duration) error
	fetch(ctx context.Context, h *held, stream string, list []logged) ([]Event, error)
	// swept is called at the end of each sweep.
	swept(ctx context.Context)
}

// change is what a place is told of a session, beside what has become of its streams.
type change struct {
	used   bool    // it is a use of the session
	record *Record // the record that takes the place of the one that is held, nil for none
	stream string  // where an event is added
	seq    uint64  // the event's position, 0 for none
	data   []byte  // the event
	kept   bool    // there is room for it
}

// held is a session that is held.
type held struct {
	name   name
	turn   chan struct{}          // holds one token: who writes to the session takes it
	record atomic.Pointer[Record] // nil until it is loaded; what it points to is never written to
	used   lastUse
	told   atomic.Int64 // the last use that the place knows of
	over   atomic.Bool  // it has ended, or is another replica's, or never was
	log    streams

	// Of Redis, for whoever has the turn.
	writes uint64 // how many there were, all owners'
	unsure bool   // Redis may have another record
}

// done gives the turn back.
func (h *held) done() { <-h.turn }

// set sets what is in cfg and deps, and has a default. The caller sets clock, place and onEnd,
// and then starts.
func (s *sessions) set(cfg Config, deps Deps) {
	s.cfg, s.log, s.count, s.seed = cfg.withDefaults(), deps.Log, deps.Metrics, maphash.MakeSeed()
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.count == nil {
		s.count = NewMetrics(nil)
	}
	for i := range s.shards {
		s.shards[i].held = make(map[name]*held)
	}
}

// start starts the one goroutine.
func (s *sessions) start() {
	ctx, stop := context.WithCancel(context.Background()) // until Close
	s.stop = stop
	s.done.Go(func() { s.run(ctx) })
}

// newHeld makes one that was used just now, which the place knows.
func (s *sessions) newHeld(n name) *held {
	h := &held{name: n, turn: make(chan struct{}, 1), log: streams{user: n.user, room: &s.logRoom}}
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
	sh := s.shard(h.name)
	sh.mu.Lock()
	sh.held[h.name] = h
	sh.mu.Unlock()
	s.known.Add(1)
	s.count.open(r.Revision)
}

func (s *sessions) shard(n name) *shard {
	return &s.shards[maphash.String(s.seed, n.id)%shardCount]
}

// get returns what is held of a session, nil for nothing.
func (s *sessions) get(n name) *held {
	sh := s.shard(n)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	return sh.held[n]
}

func (s *sessions) all() []*held {
	all := make([]*held, 0, s.Known())
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.RLock()
		for _, h := range sh.held {
			all = append(all, h)
		}
		sh.mu.RUnlock()
	}
	return all
}

// ttl is how long a place keeps a session after its last use. It hears of that late, so that a
// session whose owner is gone may last a little longer than it should, never shorter.
func (s *sessions) ttl() time.Duration { return s.cfg.Kept() }

// current returns the record of a session that is held and in use, and restarts its idle
// time; nil where the place has to be asked. That is so, too, where it has heard nothing of
// the session for as long as it keeps one: it may have ended there.
func (s *sessions) current(h *held) *Record {
	r, now := h.record.Load(), int64(s.clock())
	if r == nil || h.over.Load() || s.place != nil && now-h.told.Load() >= int64(s.ttl()) || !h.used.touch(now, s.cfg.IdleTimeout) {
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

// take returns a session, which is loaded the first time, with the turn to write: the caller
// gives it back. Errors: ErrNotFound, ErrMoved, ErrUnavailable.
func (s *sessions) take(ctx context.Context, n name) (*held, error) {
	if s.closed.Load() {
		return nil, ErrUnavailable
	}
	if !validID(n.id) || n.user == "" {
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
		if h.over.Load() { // there may be another one by now
			h.done()
			continue
		}
		if err = s.ready(ctx, h); err != nil {
			h.done()
			return nil, err
		}
		return h, nil
	}
}

// await waits for the turn.
func (h *held) await(ctx context.Context) error {
	select {
	case h.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case h.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
}

// hold returns what is held of a session, from now on if nothing was and it may stand in the
// place.
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
	sh := s.shard(n)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	h := sh.held[n]
	if h == nil {
		h = s.newHeld(n)
		sh.held[n] = h
		s.known.Add(1)
	}
	return h, nil
}

// ready loads a session that is not, and ends one that was idle for too long.
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
	if err := s.end(ctx, h, s.count.idle, s.ttl()-s.cfg.IdleTimeout); err != nil {
		return err
	}
	return ErrNotFound
}

// tell tells the place of a change. Whoever calls it has the turn.
func (s *sessions) tell(ctx context.Context, h *held, c change) error {
	if s.place == nil {
		return nil
	}
	err := s.place.write(ctx, h, c)
	switch {
	case errors.Is(err, ErrNotFound):
		s.endedInTurn(h, s.count.gone)
	case errors.Is(err, ErrMoved):
		s.drop(h)
	}
	return err
}

// end ends a session in its place and here. Whoever calls it has the turn. Errors: ErrMoved,
// ErrUnavailable.
func (s *sessions) end(ctx context.Context, h *held, why cause, left time.Duration) error {
	if s.place != nil {
		err := s.place.remove(ctx, h, left)
		if errors.Is(err, ErrMoved) {
			s.drop(h)
		}
		if err != nil && !errors.Is(err, ErrNotFound) { // which may be as it was asked twice
			return err
		}
	}
	s.endedInTurn(h, why)
	return nil
}

// endedInTurn is ended for one who has the turn, and gives it away meanwhile: whoever is told
// may wait for somebody who waits for it.
func (s *sessions) endedInTurn(h *held, why cause) {
	if s.drop(h) {
		why.Inc()
		h.done()
		s.onEnd(h)
		h.turn <- struct{}{} // nobody keeps that of a session which is over
	}
}

// ended forgets a session and, once, tells whoever holds something for it.
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
	sh := s.shard(h.name)
	sh.mu.Lock()
	if sh.held[h.name] == h {
		delete(sh.held, h.name)
	}
	sh.mu.Unlock()
	s.known.Add(-1)
	h.log.close()
	return true
}
