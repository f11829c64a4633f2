package home

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
)

// SweepEvery is the interval between sweeps.
func SweepEvery(idle time.Duration) time.Duration {
	return min(max(idle/10, 10*time.Millisecond), 15*time.Second)
}

// sweepAlways sweeps at intervals until ctx ends. When the lease is renewed after it had ended, all
// homes are looked up at once: those that others have taken over must not go on here.
func (t *Table) sweepAlways(ctx context.Context) {
	tick := time.NewTicker(SweepEvery(t.cfg.Idle))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			t.Sweep(ctx, false)
		case <-t.cluster.Lapsed():
			t.Sweep(ctx, true)
		}
	}
}

// Sweep ends the homes that were unused for too long, and tells Redis what it does not yet know of
// the others; with all, of all. The table does so at intervals (SweepEvery).
func (t *Table) Sweep(ctx context.Context, all bool) {
	ctx, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	var sweeping errgroup.Group
	sweeping.SetLimit(atOnce)
	for _, h := range t.All() {
		now := int64(t.clock())
		alive := h.alive(now)
		if alive && !all && !t.untold(h, now) {
			continue
		}
		sweeping.Go(func() error {
			t.tend(ctx, h)
			return nil
		})
	}
	_ = sweeping.Wait()
}

// untold reports whether Redis is to be told of a home.
func (t *Table) untold(h *Home, now int64) bool {
	if h.key.Derived() { // it may wait
		return now-h.told.Load() >= int64(t.cfg.Idle/10)
	}
	changed := t.store.Tidy(h)
	return !t.alone() && (changed || h.used.Load() > h.told.Load())
}

// alive reports whether a home is in use, or was not unused for too long.
func (h *Home) alive(now int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.inUse() {
		return h.touch(now)
	}
	return h.used.alive(now, h.table.cfg.Idle)
}

// tend sweeps one home. If it fails, the next sweep tries again.
func (t *Table) tend(ctx context.Context, h *Home) {
	if h.Take(ctx) != nil {
		return
	}
	if !h.IsOver() {
		t.keep(ctx, h)
	}
	h.Give()
	if h.IsOver() {
		h.finish()
	}
}

// keep ends a home that was unused for too long, or keeps it in Redis. The caller has the turn.
func (t *Table) keep(ctx context.Context, h *Home) {
	if !h.alive(int64(t.clock())) {
		_ = h.expire(ctx)
		return
	}
	if t.alone() {
		return
	}
	h.mu.Lock()
	owner := h.owner
	h.mu.Unlock()
	used := h.used.Load()
	renewed, err := t.cluster.Confirmed(owner), error(nil) // the store compares the token of a session
	if h.key.Derived() {
		if renewed, err = t.cluster.Renew(ctx, t.clusterHome(h), owner); errors.Is(err, cluster.ErrMoved) ||
			err == nil && !renewed.Here() {
			err = ErrMoved
		}
	}
	if err == nil {
		err = t.store.Keep(ctx, h, t.clock()-time.Duration(used))
	}
	switch {
	case errors.Is(err, ErrMoved):
		h.lose(true, Moved)
	case errors.Is(err, ErrNotFound):
		h.lose(true, Gone)
	case err == nil:
		if h.key.Derived() { // it lasts for the full time again
			used = int64(t.clock())
		}
		h.told.Store(used)
		h.mu.Lock()
		h.owner = renewed
		h.mu.Unlock()
	}
}
