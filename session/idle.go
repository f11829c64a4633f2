package session

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// sweepTime bounds one sweep. sweepers is how many sessions a sweep handles at a time.
	sweepTime = 10 * time.Second
	sweepers  = 16
)

// expired is the lastUse of a session that has expired for good.
const expired = math.MinInt64

// lastUse is when a session was last used, in nanoseconds of the store's clock, or expired.
type lastUse struct{ atomic.Int64 }

// alive reports whether the session has not been idle for too long.
func (u *lastUse) alive(now int64, idle time.Duration) bool {
	used := u.Load()
	return used != expired && now-used < int64(idle)
}

// touch restarts the idle time unless the session has expired. Once one caller is told that it
// has, it stays so for all.
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

// run sweeps at intervals until ctx ends.
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

// sweepEvery is the interval between sweeps.
func sweepEvery(idle time.Duration) time.Duration {
	return min(max(idle/10, 10*time.Millisecond), 15*time.Second)
}

// sweep ends the sessions that were idle for too long. It tells the place which others were
// used and how their streams changed, as far as the place was not told yet.
func (s *sessions) sweep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	var all errgroup.Group
	all.SetLimit(sweepers)
	now := int64(s.clock())
	for h := range s.all {
		h.log.forget(now)
		told := s.place == nil || h.used.Load() <= h.told.Load() && !h.log.changed()
		if told && h.used.alive(now, s.cfg.IdleTimeout) || h.record.Load() == nil {
			continue
		}
		all.Go(func() error {
			s.tend(ctx, h)
			return nil
		})
	}
	_ = all.Wait()
	if s.place != nil {
		s.place.swept(ctx)
	}
}

// tend sweeps one session. If it fails, the next sweep tries again.
func (s *sessions) tend(ctx context.Context, h *held) {
	if h.await(ctx) != nil {
		return
	}
	defer h.done()
	if !h.over.Load() && s.ready(ctx, h) == nil {
		_ = s.tell(ctx, h, change{used: true})
	}
}
