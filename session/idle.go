package session

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// sweepTime bounds one sweep, and sweepers how many sessions it deals with at a time.
	sweepTime = 10 * time.Second
	sweepers  = 16
)

// expired is the time of a lastUse that nothing gets away from.
const expired = math.MinInt64

// lastUse is when a session was last used, in nanoseconds by the clock of its store, or
// expired.
type lastUse struct{ atomic.Int64 }

// alive reports whether the session is not idle for too long.
func (u *lastUse) alive(now int64, idle time.Duration) bool {
	used := u.Load()
	return used != expired && now-used < int64(idle)
}

// touch restarts the idle time, unless it is over: once a caller has been told so,
// the session stays ended for all.
func (u *lastUse) touch(now int64, idle time.Duration) bool {
	for {
		used := u.Load()
		switch {
		case used == expired:
			return false
		case now-used >= int64(idle):
			if u.CompareAndSwap(used, expired) {
				return false
			}
		case now <= used || u.CompareAndSwap(used, now):
			return true
		}
	}
}

// run sweeps from time to time, until the store is closed.
func (s *sessions) run(ctx context.Context) {
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

// sweepEvery is how often sessions are swept.
func sweepEvery(idle time.Duration) time.Duration {
	return min(max(idle/10, 10*time.Millisecond), 15*time.Second)
}

// sweep ends the sessions that are idle for too long, and tells the place which others were
// used and what has become of their streams, where that was not told yet.
func (s *sessions) sweep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	turns := make(chan struct{}, sweepers)
	var all sync.WaitGroup
	now := int64(s.clock())
	for _, h := range s.all() {
		h.log.forget(now)
		if alive := h.used.alive(now, s.cfg.IdleTimeout); alive && !s.owes(h) || h.record.Load() == nil {
			continue
		}
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			s.tend(ctx, h)
		})
	}
	all.Wait()
	if s.place != nil {
		s.place.swept(ctx)
	}
}

// owes reports whether the place does not know all of a session.
func (s *sessions) owes(h *held) bool {
	return s.place != nil && (h.used.Load() > h.told.Load() || h.log.changed())
}

// tend is the part of a sweep for one session. What goes wrong, the next sweep tries again.
func (s *sessions) tend(ctx context.Context, h *held) {
	if h.await(ctx) != nil {
		return
	}
	defer h.done()
	if !h.over.Load() && s.ready(ctx, h) == nil {
		_ = s.tell(ctx, h, change{used: true})
	}
}
