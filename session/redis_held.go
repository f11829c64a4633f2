package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
)

const (
	// sweepTime bounds one sweep, and sweepers how many sessions it writes at a time.
	sweepTime = 10 * time.Second
	sweepers  = 16
)

// held is the owner's copy of a session.
type held struct {
	name   name
	turn   chan struct{}          // holds one token: who writes to the session takes it
	record atomic.Pointer[Record] // nil until Redis has answered
	used   lastUse
	told   atomic.Int64 // the last use that Redis knows of
	over   atomic.Bool  // it has ended, or is another replica's, or never was
	log    streams

	// For whoever has the turn.
	writes uint64 // how many there were, all owners'
	unsure bool   // Redis may have another record
}

// newHeld makes a copy that was used just now, and is in Redis.
func (s *Redis) newHeld(n name) *held {
	h := &held{name: n, turn: make(chan struct{}, 1), log: streams{user: n.user, room: &s.logRoom, changes: &changes{}}}
	now := int64(s.clock())
	h.used.Store(now)
	h.told.Store(now)
	return h
}

// done gives the turn back.
func (h *held) done() { <-h.turn }

// copyOf returns what is held of a session, nil for nothing.
func (s *Redis) copyOf(n name) *held {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.copies[n]
}

func (s *Redis) all() []*held {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make([]*held, 0, len(s.copies))
	for _, h := range s.copies {
		all = append(all, h)
	}
	return all
}

// known returns the record of a session that is held and in use, and restarts its idle
// time; nil where Redis has to be asked. That is so, too, where Redis has heard nothing of
// the session for as long as it keeps one: it may have gone there.
func (s *Redis) known(h *held) *Record {
	r, now := h.record.Load(), int64(s.clock())
	if r == nil || h.over.Load() || now-h.told.Load() >= int64(s.ttl()) || !h.used.touch(now, s.cfg.IdleTimeout) {
		return nil
	}
	return r
}

// use is take, and restarts the idle time.
func (s *Redis) use(ctx context.Context, n name) (*held, error) {
	h, err := s.take(ctx, n)
	if err != nil || s.known(h) != nil {
		return h, err
	}
	h.used.touch(int64(s.clock()), s.cfg.IdleTimeout)
	if err := s.write(ctx, h, s.scripts.tend, true); err != nil {
		h.done()
		return nil, err
	}
	return h, nil
}

// take returns the copy of a session, which it gets from Redis the first time, with the turn
// to write: the caller gives it back. Errors: ErrNotFound, ErrMoved, ErrUnavailable.
func (s *Redis) take(ctx context.Context, n name) (*held, error) {
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
		select {
		case h.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
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

// ready loads a copy that is not, and ends one that was idle for too long.
func (s *Redis) ready(ctx context.Context, h *held) error {
	if h.record.Load() == nil {
		if err := s.load(ctx, h); err != nil {
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

// hold returns what is held of a session, from now on if nothing was.
func (s *Redis) hold(n name) (*held, error) {
	if h := s.copyOf(n); h != nil {
		return h, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.copies[n]
	if h == nil {
		if len(s.copies) >= s.cfg.Max {
			return nil, ErrUnavailable
		}
		h = s.newHeld(n)
		s.copies[n] = h
	}
	return h, nil
}

// load gets a session from Redis. Errors: ErrNotFound, also for what cannot be read, ErrMoved,
// ErrUnavailable.
func (s *Redis) load(ctx context.Context, h *held) error {
	n := h.name
	got, err := s.step(ctx, s.scripts.load, n)
	if err != nil {
		return err
	}
	fields, _ := got.([]any)
	if len(fields) != 6 {
		return ErrNotFound
	}
	value, _ := fields[0].(string)
	left, _ := fields[3].(int64)
	plain, err := s.seals.records.OpenBytes([]byte(value), n.user, n.id)
	if err != nil {
		s.db.Unopened("session")
		return ErrNotFound
	}
	r, err := decode(plain, n)
	if err != nil {
		s.log.Warn("redis holds a session that cannot be read", "error", err)
		return ErrNotFound
	}
	h.writes, _ = number(fields[1])
	used := int64(s.clock() - s.ttl() + time.Duration(left)*time.Millisecond)
	h.used.Store(used)
	h.told.Store(used)
	s.restore(h, fields[2], fields[4], fields[5])
	h.record.Store(r)
	return nil
}

// write writes fields of a session, and what has changed in its streams; used says that this
// is a use of the session. set are the number of the key, the name and the value of each.
// Whoever calls it has the turn. Errors: ErrNotFound, ErrMoved, ErrUnavailable.
func (s *Redis) write(ctx context.Context, h *held, script *redisdb.Script, used bool, set ...any) error {
	h.writes++
	unused, at := int64(-1), h.used.Load()
	if used = used && at != expired; used {
		unused = time.Duration(int64(s.clock()) - at).Milliseconds()
	}
	changed := h.log.takeChanges()
	more, deleted := s.told(h, changed)
	set = append(set, more...)
	args := append([]any{h.writes, unused, len(set) / 3}, append(set, deleted...)...)
	_, err := s.step(ctx, script, h.name, args...)
	switch {
	case err == nil && used:
		h.told.Store(at)
	case errors.Is(err, ErrNotFound):
		s.ended(h, s.count.gone)
	case errors.Is(err, ErrMoved):
		s.drop(h)
	case err != nil:
		h.log.putBack(changed)
	}
	return err
}

// end ends a session in Redis and here; left is how long Redis may want to keep it if nobody
// owns it. Whoever calls it has the turn. Errors: ErrMoved, ErrUnavailable.
func (s *Redis) end(ctx context.Context, h *held, why cause, left time.Duration) error {
	_, err := s.step(ctx, s.scripts.remove, h.name, left.Milliseconds())
	switch {
	case errors.Is(err, ErrMoved):
		s.drop(h)
		return err
	case err != nil && !errors.Is(err, ErrNotFound): // which may be as this was asked twice
		return err
	}
	s.ended(h, why)
	return nil
}

// ended forgets a session and, once, tells whoever holds something for it.
func (s *Redis) ended(h *held, why cause) {
	if s.drop(h) {
		why.Inc()
		s.onEnd(h.name.key())
	}
}

// drop forgets a session, and reports whether it was held.
func (s *Redis) drop(h *held) bool {
	s.mu.Lock()
	first := h.over.CompareAndSwap(false, true)
	if first {
		delete(s.copies, h.name)
	}
	s.mu.Unlock()
	h.log.close()
	return first
}

// run sweeps from time to time, until the store is closed.
func (s *Redis) run(ctx context.Context) {
	tick := time.NewTicker(sweepEvery(s.cfg.IdleTimeout))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.sweep(ctx)
		}
	}
}

// sweep ends the sessions that are idle for too long, and tells Redis which others were used
// and what has become of their streams, where that was not told yet.
func (s *Redis) sweep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	turns := make(chan struct{}, sweepers)
	var all sync.WaitGroup
	now := int64(s.clock())
	for _, h := range s.all() {
		h.log.forget(now)
		if h.record.Load() == nil || h.used.alive(now, s.cfg.IdleTimeout) && h.used.Load() <= h.told.Load() && !h.log.changed() {
			continue
		}
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			s.tend(ctx, h)
		})
	}
	all.Wait()
	s.kept.sweep(ctx)
	if s.db.Full() { // it may be that nobody else finds out when it is not any more
		_ = s.db.Room(ctx)
	}
}

// tend is the part of a sweep for one session. What goes wrong, the next sweep tries again.
func (s *Redis) tend(ctx context.Context, h *held) {
	select {
	case h.turn <- struct{}{}:
		defer h.done()
	case <-ctx.Done():
		return
	}
	if !h.over.Load() && s.ready(ctx, h) == nil {
		_ = s.write(ctx, h, s.scripts.tend, true)
	}
}
