package home

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
)

// useTries bounds how often a home is opened that is over before it can be used.
const useTries = 4

// Elsewhere is the error for a home of another replica.
type Elsewhere struct {
	// Replica is its owner, to which requests are forwarded (cluster.Cluster.Forward).
	Replica string
}

func (e *Elsewhere) Error() string { return "home: replica " + e.Replica + " owns the session" }

// errOver means that a home was over before it could be used: there may be a new one by now.
var errOver = errors.New("home: it is over")

// Use returns the home of a session, in use until Home.Done. It opens the home if there is none
// here. As long as it is certain that this replica owns the session, Use asks neither Redis nor another replica. Errors:
// *Elsewhere, ErrNotFound, ErrTooMany, ErrUnavailable.
func (t *Table) Use(ctx context.Context, key Key) (*Home, error) {
	if !key.valid() {
		return nil, ErrNotFound
	}
	for range useTries {
		h, err := t.find(ctx, key)
		if err != nil {
			return nil, err
		}
		if h.enter() {
			return h, nil
		}
		switch err = h.open(ctx); {
		case err == nil:
			return h, nil
		case !errors.Is(err, errOver):
			return nil, err
		case h.Why().Over() && !key.Derived(): // no session has its id again
			return nil, ErrNotFound
		}
		if err = h.await(ctx); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: it moves all the time", ErrUnavailable)
}

// await waits until everything of a home that is over has ended.
func (h *Home) await(ctx context.Context) error {
	select {
	case <-h.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
}

// enter begins a use of a home that is open and certainly this replica's. It returns false if
// Redis has to be asked, also if it was told nothing for so long that it may have dropped the home.
func (h *Home) enter() bool {
	t := h.table
	now := t.clock()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != open || !t.cluster.Certain(h.owner) ||
		h.owner.Epoch != "" && now-time.Duration(h.told.Load()) >= t.cfg.Kept/2 ||
		!h.touch(int64(now)) {
		return false
	}
	h.uses++
	return true
}

// open opens a home, or makes certain that it is this replica's, and begins a use.
func (h *Home) open(ctx context.Context) (err error) {
	if err := h.Take(ctx); err != nil {
		return err
	}
	over := h.IsOver()
	if !over {
		err = h.confirm(ctx)
	}
	h.Give()
	if !over && h.IsOver() {
		h.finish()
	}
	switch {
	case err != nil:
		return err
	case h.begin():
		return nil
	}
	return errOver
}

// begin begins a use of a home that was just confirmed.
func (h *Home) begin() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != open || !h.touch(int64(h.table.clock())) {
		return false
	}
	h.uses++
	return true
}

// confirm finds out who owns the session, and loads it if this replica has not. Unless that is this
// replica, the home is over then. The caller has the turn.
func (h *Home) confirm(ctx context.Context) error {
	t := h.table
	if !h.alive(int64(t.clock())) {
		return h.expire(ctx)
	}
	h.mu.Lock()
	before, loaded := h.owner, h.state == open
	h.mu.Unlock()
	owner, err := t.cluster.Own(ctx, t.clusterHome(h))
	switch {
	case errors.Is(err, cluster.ErrNoHome):
		h.lose(loaded, Gone)
		return ErrNotFound
	case err != nil && loaded && t.cluster.Certain(before) && t.clock()-time.Duration(h.told.Load()) < t.cfg.Kept:
		return nil // Redis is away, and cannot have dropped it
	case err != nil:
		if !loaded {
			h.lose(false, Moved)
		}
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case !owner.Here():
		h.lose(loaded, Moved)
		t.elsewhere.Add(h.key, owner)
		return &Elsewhere{owner.Replica}
	case before.Epoch != "" && before.Epoch != owner.Epoch && !h.key.Derived():
		h.lose(loaded, Moved) // Redis had dropped it, and another replica may have owned it in between
		return errOver
	}
	return h.confirmed(ctx, owner, loaded)
}

// confirmed takes what Redis says of a home that is this replica's, and loads the session.
func (h *Home) confirmed(ctx context.Context, owner cluster.Owner, loaded bool) error {
	t := h.table
	now := int64(t.clock())
	h.mu.Lock()
	h.owner = owner
	h.mu.Unlock()
	if loaded {
		return nil // the next sweep keeps what Redis has of it
	}
	h.used.Store(now)
	h.told.Store(now)
	if !h.key.Derived() {
		switch err := t.store.Load(ctx, h); {
		case errors.Is(err, ErrMoved):
			h.lose(false, Moved)
			return errOver
		case errors.Is(err, ErrNotFound):
			h.lose(false, Gone)
			return err
		case err != nil:
			h.lose(false, Moved)
			return err
		}
	}
	h.mu.Lock()
	h.known = true
	h.mu.Unlock()
	if !h.alive(int64(t.clock())) {
		return h.expire(ctx)
	}
	h.mu.Lock()
	opened := h.state == opening
	if opened {
		h.state = open
	}
	h.mu.Unlock()
	if !opened {
		return errOver
	}
	t.elsewhere.Remove(h.key)
	if owner.Former != "" {
		t.count.takeovers.Inc()
	}
	if t.cfg.Events != nil {
		t.cfg.Events.Opened(h)
	}
	return nil
}

// expire ends a session that was unused for too long. The caller has the turn. Errors: ErrNotFound,
// or why it cannot be ended.
func (h *Home) expire(ctx context.Context) error {
	switch err := h.end(ctx, Idle); {
	case errors.Is(err, ErrMoved): // another replica has used it since
		h.lose(true, Moved)
		return errOver
	case err != nil && !errors.Is(err, ErrNotFound):
		if !h.opened() {
			h.lose(false, Moved) // the next request opens it again
		}
		return err
	}
	h.lose(false, Idle)
	return ErrNotFound
}

func (h *Home) opened() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state == open
}

// lose makes a home over that is not this replica's, or that has no session.
func (h *Home) lose(loaded bool, why Why) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.close(why) && loaded && why == Moved {
		h.table.count.lost.Inc()
	}
}

// expired is the lastUse of a session that was unused for too long, for good.
const expired = math.MinInt64

// lastUse is when a session was last used, in nanoseconds of the table's clock, or expired.
type lastUse struct{ atomic.Int64 }

// alive reports whether the session was not unused for too long.
func (u *lastUse) alive(now int64, idle time.Duration) bool {
	used := u.Load()
	return used != expired && now-used < int64(idle)
}

// touch restarts the idle time of a home, and returns false if it has expired. The caller holds mu.
func (h *Home) touch(now int64) bool {
	if h.inUse() && h.used.Load() != expired {
		h.used.Store(now)
		return true
	}
	return h.used.touch(now, h.table.cfg.Idle)
}

// WasUsed says, while a home is loaded, for how long the session has been unused.
func (h *Home) WasUsed(unused time.Duration) {
	at := int64(h.table.clock() - unused)
	h.used.Store(at)
	h.told.Store(at)
}

// touch restarts the idle time unless the session has expired. Once one caller knows that it has,
// it stays so for all.
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
