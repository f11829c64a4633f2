package session

import (
	"context"
	"time"
)

// sweepTime bounds one round of asking for sessions that were not used here.
const sweepTime = 10 * time.Second

// copyOf returns what is held of a session, nil for nothing.
func (s *Redis) copyOf(n name) *held {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.copies[n]
}

// hold returns what is held of a session, from now on if nothing was: its end, should it
// come while Redis is asked, is not missed. Whoever is given it lets it go.
func (s *Redis) hold(n name) (*held, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.copies[n]
	if h == nil {
		if len(s.copies) >= s.cfg.Max {
			return nil, ErrUnavailable
		}
		h = newHeld(n)
		h.used = s.clock()
		s.copies[n] = h
	}
	h.askers++
	return h, nil
}

// letGo is told that one asker is done. What nobody asks for any more, and nobody got, is
// not kept.
func (s *Redis) letGo(h *held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.askers--
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.askers == 0 && h.record == nil && s.copies[h.name] == h {
		h.ended = true
		delete(s.copies, h.name)
	}
}

func (s *Redis) full() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.copies) >= s.cfg.Max
}

// begin holds a session that was just made.
func (s *Redis) begin(n name, r *Record) {
	h := newHeld(n)
	h.record, h.checked = r, s.clock()
	h.used, h.confirmed = h.checked, h.checked
	s.mu.Lock()
	defer s.mu.Unlock()
	s.copies[n] = h
}

func newHeld(n name) *held {
	return &held{name: n, updating: make(chan struct{}, 1), appending: make(chan struct{}, 1)}
}

// ended forgets a session and, once, tells whoever holds something for it.
func (s *Redis) ended(n name, why cause) {
	if tell := s.forget(n, why); tell != nil {
		tell()
	}
}

// endedHere is ended for a session that this replica has ended. It hears of that itself,
// and whoever holds something has been told when this returns, whichever of the two was
// first.
func (s *Redis) endedHere(ctx context.Context, n name, why cause) {
	s.ended(n, why)
	s.mu.RLock()
	told := s.telling[n]
	s.mu.RUnlock()
	if told == nil {
		return
	}
	select {
	case <-told:
	case <-ctx.Done():
	}
}

// forget forgets a session, and returns what tells whoever holds something for it; nil
// where there is nobody to tell.
func (s *Redis) forget(n name, why cause) (tell func()) {
	told := make(chan struct{})
	s.mu.Lock()
	h := s.copies[n]
	delete(s.copies, n)
	first := h != nil && h.end()
	if first {
		s.telling[n] = told
	}
	s.mu.Unlock()
	s.wake(n.user + ":" + n.id)
	if !first {
		return nil
	}
	why.Inc()
	return func() {
		s.onEnd(n.user + ":" + n.id)
		s.mu.Lock()
		delete(s.telling, n)
		s.mu.Unlock()
		close(told)
	}
}

// doubt makes all copies ask Redis again, and all followers of streams: something may
// have been missed.
func (s *Redis) doubt() {
	s.mu.RLock()
	for _, h := range s.copies {
		h.doubt()
	}
	s.mu.RUnlock()
	s.wakeAll()
}

// joined is called when the other replicas are heard, again.
func (s *Redis) joined() {
	s.doubt()
	s.onJoin()
}

// run ends sessions that nobody used for too long and streams that could not be ended, and
// has followers of streams look again from time to time, until the store is closed.
func (s *Redis) run() {
	tick := time.NewTicker(copyLife)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
		}
		s.endLate()
		s.wakeAll()
		s.sweep()
		s.lookForRoom()
	}
}

// lookForRoom sees whether a Redis that was full still is: it may be that nobody begins a
// session or asks whether they could.
func (s *Redis) lookForRoom() {
	if !s.db.Full() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTime)
	defer cancel()
	_ = s.db.Room(ctx) // which takes note of it
}

// sweep asks Redis for the sessions that have not been used here for so long that they
// have ended, unless another replica had use for them.
func (s *Redis) sweep() {
	ctx, cancel := context.WithTimeout(context.Background(), sweepTime)
	defer cancel()
	now, ttl := s.clock(), time.Duration(s.ttl())*time.Millisecond
	var idle []*held
	s.mu.RLock()
	for _, h := range s.copies {
		if h.idle(now, ttl) {
			idle = append(idle, h)
		}
	}
	s.mu.RUnlock()
	count := 0
	for _, h := range idle {
		got, err := s.step(ctx, s.scripts.left, h.name, []string{s.keyOf("s", h.name)})
		if err != nil {
			return
		}
		left, _ := got.(int64)
		if left < 0 {
			s.ended(h.name, s.count.idle)
			count++
			continue
		}
		h.usedElsewhere(now - ttl + time.Duration(left)*time.Millisecond)
	}
	if count > 0 {
		s.log.Debug("idle sessions ended", "count", count)
	}
}

// fresh returns the copy if Redis need not be asked. One whose client has yet to say that
// it is initialized is about to change.
func (h *held) fresh(now time.Duration) *Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.record == nil || h.stale || h.ended || !h.record.Initialized || now-h.checked >= copyLife {
		return nil
	}
	h.used = now
	return h.record
}

// known returns the copy for when Redis cannot be asked; nil where there is none, its
// client has yet to say that it is initialized, which others may know, or Redis has not
// been heard of the session for as long as a session lasts unused: if it lives on where
// others can ask it, the session may have ended there by now.
func (h *held) known(now, idle time.Duration) *Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.record == nil || !h.record.Initialized || h.ended || now-h.confirmed >= idle {
		return nil
	}
	h.used = now
	return h.record
}

// asked returns what learn wants to know.
func (h *held) asked() (changes int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changes
}

// learn takes what Redis said, unless the session has ended since it was asked.
func (h *held) learn(k kept, changes int, now time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return false
	}
	h.record, h.used, h.confirmed = k.record, now, now
	h.newest = max(h.newest, k.newest)
	if changes == h.changes { // not said to be stale meanwhile
		h.checked, h.stale = now, false
	}
	return true
}

// replace takes what this replica has made of the session. Somebody may have changed it
// since.
func (h *held) replace(r *Record, now time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.record, h.used, h.confirmed, h.stale = r, now, now, true
	h.changes++
}

func (h *held) doubt() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stale = true
	h.changes++
}

// end reports whether it was anything, the first time.
func (h *held) end() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := !h.ended && h.record != nil
	h.ended = true
	return first
}

func (h *held) idle(now, ttl time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return now-h.used >= ttl
}

func (h *held) usedElsewhere(at time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.used = max(h.used, at)
}
