package home

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/errgroup"

	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
)

const (
	// maxElsewhere bounds the remembered owners of sessions at other replicas.
	maxElsewhere = 100_000
	// Evictable is how long a home is unused before it makes room for another one of its user.
	Evictable = time.Minute
	// atOnce is how many homes are swept or given up at a time.
	atOnce = 16
	// sweepTime bounds one sweep. releaseTime bounds giving up one home.
	sweepTime   = 10 * time.Second
	releaseTime = time.Second
)

// Errors of Use and of a Store.
var (
	// ErrNotFound means that the session does not exist, has ended, or belongs to another user.
	ErrNotFound = errors.New("home: the session does not exist")
	// ErrTooMany means that the user is at the bound of sessions, and all of them are in use.
	ErrTooMany = errors.New("home: the user has too many sessions")
	// ErrUnavailable means that the owner of the session cannot be determined now. The client may
	// try again. It must never be reported as a missing session, or the client would drop one that
	// still exists.
	ErrUnavailable = errors.New("home: the session is not available now")
	// ErrMoved means that another replica owns the session.
	ErrMoved = errors.New("home: another replica owns the session")
)

// Store has what outlives this process of sessions: their records. The caller of each method has
// the home's turn. Errors: ErrNotFound, ErrMoved, ErrUnavailable.
type Store interface {
	// RecordKey is the key in Redis that exists if and only if the session does.
	RecordKey(Key) string
	// Load reads the record, and sets since when the session was unused (Home.WasUsed).
	Load(context.Context, *Home) error
	// Keep tells Redis for how long a home was unused, and what else it was not told yet. For a
	// client without a session it prolongs what is kept of it.
	Keep(ctx context.Context, h *Home, unused time.Duration) error
	// Tidy forgets what a session no longer needs, and reports whether there is something that
	// Redis does not know yet.
	Tidy(*Home) bool
	// End removes the session.
	End(ctx context.Context, h *Home, why Why) error
}

// Config configures a Table.
type Config struct {
	// Idle is how long a session lives without a use.
	Idle time.Duration
	// Kept is how long Redis keeps a session after the last use that it was told of: longer than
	// Idle, since Redis learns of uses late. 0 if sessions exist in this process alone.
	Kept time.Duration
	// Max bounds the homes; those of clients without sessions are counted by themselves.
	Max int
	// Most bounds the homes of one user, likewise. With Kept, it bounds clients without sessions
	// only: the Store counts the sessions.
	Most func(user string) int
	// Owners know which replica owns a session. If nil, this process owns all.
	Owners *cluster.Cluster
	// Events learn of homes that are opened here and that are over. May be nil.
	Events Events
	// Log and Metrics may be nil.
	Log     *slog.Logger
	Metrics *Metrics
	// Clock is monotonic, so that setting the clock forward ends no session. If nil, it is the
	// process's own.
	Clock func() time.Duration
}

// Events take what happens to homes.
type Events interface {
	// Opened is called when a home is opened, before its first use.
	Opened(*Home)
	// Closed is called when everything attached to a home has ended.
	Closed(*Home, Why)
}

// Table has the homes of this replica. It is safe for concurrent use.
type Table struct {
	cfg     Config
	cluster *cluster.Cluster
	store   Store
	clock   func() time.Duration
	count   *Metrics

	leaving   atomic.Bool
	elsewhere *lru.Cache[Key, cluster.Owner] // the owners of other sessions

	stop     context.CancelFunc
	sweeping sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	homes  map[Key]*Home
	shares map[share]map[*Home]struct{}
	known  [2]int // by share.derived
	closed bool
	ending sync.WaitGroup // none is added after closed is set
}

// share counts the homes of one user.
type share struct {
	user    string
	derived bool
}

func (k Key) share() share { return share{k.User, k.Derived()} }

func index(derived bool) int {
	if derived {
		return 1
	}
	return 0
}

// Open makes a Table and starts its goroutine.
func Open(cfg Config, store Store) *Table {
	if cfg.Owners == nil {
		cfg.Owners = cluster.Alone()
	}
	began := time.Now()
	elsewhere, _ := lru.New[Key, cluster.Owner](maxElsewhere) // it fails only for a bad size
	t := &Table{
		cfg: cfg, cluster: cfg.Owners, store: store, clock: cfg.Clock, count: cfg.Metrics,
		elsewhere: elsewhere, homes: make(map[Key]*Home), shares: make(map[share]map[*Home]struct{}),
	}
	if t.clock == nil {
		t.clock = func() time.Duration { return time.Since(began) }
	}
	if t.count == nil {
		t.count = NewMetrics(nil)
	}
	if t.cfg.Log == nil {
		t.cfg.Log = slog.New(slog.DiscardHandler)
	}
	ctx, stop := context.WithCancel(context.Background()) // until Close
	t.stop = stop
	t.sweeping.Go(func() { t.sweepAlways(ctx) })
	return t
}

// alone reports whether sessions exist in this process alone.
func (t *Table) alone() bool { return t.cfg.Kept == 0 }

func (t *Table) newHome(key Key) *Home {
	h := &Home{
		key: key, name: key.String(), table: t,
		turn: make(chan struct{}, 1), gone: make(chan struct{}), ended: make(chan struct{}),
	}
	now := int64(t.clock())
	h.used.Store(now)
	h.told.Store(now)
	return h
}

// clusterHome names a home for the cluster.
func (t *Table) clusterHome(h *Home) cluster.Home {
	named := cluster.Home{User: h.key.User, ID: h.key.ID}
	if !h.key.Derived() && !t.alone() {
		named.Record = t.store.RecordKey(h.key)
	}
	return named
}

// Begin opens the home of a session that begins now and exists in memory alone. fill fills it before
// its first use. If the user is at the bound, a session makes room that has been unused for a
// minute. Errors: ErrTooMany, ErrUnavailable.
func (t *Table) Begin(key Key, fill func(*Home)) error {
	h := t.newHome(key)
	fill(h)
	h.state, h.known = open, true
	t.mu.Lock()
	victim, err := t.admit(key)
	if err == nil {
		t.add(h)
	}
	t.mu.Unlock()
	t.endVictim(victim)
	return err
}

// find returns the home of a session, or makes one that is still to be opened.
func (t *Table) find(ctx context.Context, key Key) (*Home, error) {
	for room := false; ; {
		t.mu.Lock()
		h := t.homes[key]
		switch {
		case t.closed:
			t.mu.Unlock()
			return nil, ErrUnavailable
		case h != nil:
			t.mu.Unlock()
			return h, nil
		case t.alone():
			t.mu.Unlock()
			return nil, ErrNotFound
		}
		if owner, ok := t.elsewhere.Get(key); ok && t.cluster.Present(owner.Replica) {
			t.mu.Unlock()
			return nil, &Elsewhere{owner.Replica}
		}
		// Another replica that has the home has room for it.
		if full := key.Derived() && len(t.shares[key.share()]) >= t.cfg.Most(key.User); full && !room {
			t.mu.Unlock()
			if room = t.cluster.Exists(ctx, t.clusterHome(&Home{key: key})); room {
				continue
			}
			t.mu.Lock()
		}
		var victim *Home
		var err error
		if !room {
			victim, err = t.admit(key)
		}
		if err == nil && t.homes[key] == nil {
			h = t.newHome(key)
			t.add(h)
		}
		t.mu.Unlock()
		t.endVictim(victim)
		if err != nil {
			return nil, err
		}
		if h != nil {
			return h, nil
		}
	}
}

// admit finds room for a home. The caller holds mu, and then evicts the home that makes room, nil
// for none.
func (t *Table) admit(key Key) (victim *Home, err error) {
	if t.closed {
		return nil, ErrUnavailable
	}
	own := t.shares[key.share()]
	if (t.alone() || key.Derived()) && len(own) >= t.cfg.Most(key.User) {
		if victim = t.leastUsed(own); victim == nil {
			return nil, ErrTooMany
		}
	}
	if victim == nil && t.known[index(key.Derived())] >= t.cfg.Max {
		if t.alone() {
			return nil, ErrTooMany
		}
		return nil, fmt.Errorf("%w: this replica has %d of them", ErrUnavailable, t.cfg.Max)
	}
	return victim, nil
}

// free reports whether nothing runs for a home that is open.
func (h *Home) free() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state == open && !h.inUse()
}

// leastUsed closes the least recently used home of a user, and returns it; nil if all are in use.
func (t *Table) leastUsed(own map[*Home]struct{}) *Home {
	var least *Home
	oldest := int64(t.clock()) - int64(Evictable)
	for h := range own {
		if used := h.used.Load(); used <= oldest && h.free() {
			least, oldest = h, used
		}
	}
	if least == nil {
		return nil
	}
	why := Evicted
	if least.key.Derived() {
		why = Left
	}
	least.mu.Lock()
	defer least.mu.Unlock()
	if least.inUse() || !least.close(why) {
		return nil
	}
	t.uncount(least)
	return least
}

// endVictim ends what is attached to a home that has made room, nil for none.
func (t *Table) endVictim(victim *Home) {
	if victim != nil {
		victim.finish()
	}
}

// add adds a home. The caller holds mu.
func (t *Table) add(h *Home) {
	t.homes[h.key] = h
	own := t.shares[h.key.share()]
	if own == nil {
		own = make(map[*Home]struct{})
		t.shares[h.key.share()] = own
	}
	own[h] = struct{}{}
	t.known[index(h.key.Derived())]++
	t.count.homes.Set(float64(len(t.homes)))
}

// uncount takes a home out of its user's share. The caller holds mu.
func (t *Table) uncount(h *Home) {
	own := t.shares[h.key.share()]
	if _, counted := own[h]; !counted {
		return
	}
	if delete(own, h); len(own) == 0 {
		delete(t.shares, h.key.share())
	}
	t.known[index(h.key.Derived())]--
}

// remove forgets a home when everything attached has ended. What Redis still has of it is released.
func (t *Table) remove(h *Home, owner cluster.Owner, why Why, known bool) {
	if known {
		t.count.ended(h, why)
		if t.cfg.Events != nil {
			t.cfg.Events.Closed(h, why)
		}
	}
	if owner.Here() && why != Moved && (why == Left || h.key.Derived()) {
		ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
		defer cancel()
		if err := t.cluster.Release(ctx, t.clusterHome(h), owner); err != nil {
			t.cfg.Log.Debug("a session was not given up: other replicas own it when this one has gone", "error", err)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.uncount(h)
	delete(t.homes, h.key)
	t.count.homes.Set(float64(len(t.homes)))
}

// later runs what ends a home, unless the table is closing: then Close does.
func (t *Table) later(finish func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.ending.Go(finish)
	}
}

// Known returns the home of a session if it is open here, nil otherwise. A nil Table has none.
func (t *Table) Known(key Key) *Home {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	h := t.homes[key]
	t.mu.Unlock()
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != open {
		return nil
	}
	return h
}

// All returns the homes that are open here, in no order.
func (t *Table) All() []*Home {
	t.mu.Lock()
	all := slices.Collect(maps.Values(t.homes))
	t.mu.Unlock()
	return slices.DeleteFunc(all, func(h *Home) bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.state != open
	})
}

// Len returns how many sessions have homes here.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known[0]
}

// Misplaced forgets that another replica owns a session, after that replica has denied it.
func (t *Table) Misplaced(key Key) { t.elsewhere.Remove(key) }

// Exists reports whether a session has a home, here or at another replica. It reports false if that
// cannot be determined.
func (t *Table) Exists(ctx context.Context, key Key) bool {
	return t.Known(key) != nil || t.elsewhere.Contains(key) || t.cluster.Exists(ctx, t.clusterHome(&Home{key: key}))
}

// Leaving reports whether Leave was called.
func (t *Table) Leaving() bool { return t.leaving.Load() }

// ReleaseAll gives up the unused homes, until ctx ends: other replicas open them. Each other
// home follows with the end of its last use.
func (t *Table) ReleaseAll(ctx context.Context) {
	t.leaving.Store(true)
	t.finish(ctx, func(h *Home) bool { return h.uses == 0 && h.close(Left) })
}

// finish ends what is attached to some homes. which closes them, and is called with their locks held.
func (t *Table) finish(ctx context.Context, which func(*Home) bool) {
	t.mu.Lock()
	all := slices.Collect(maps.Values(t.homes))
	t.mu.Unlock()
	var giving errgroup.Group
	giving.SetLimit(atOnce)
	for _, h := range all {
		giving.Go(func() error {
			if ctx.Err() != nil {
				return nil
			}
			h.mu.Lock()
			over := which(h)
			h.mu.Unlock()
			if over {
				h.finish()
			}
			return nil
		})
	}
	_ = giving.Wait()
}

// Release gives up the home of a session at the request of another replica. It reports whether there is
// none here any more: one that is in use stays. It waits for a home that is being given up.
func (t *Table) Release(key Key) bool {
	t.mu.Lock()
	h := t.homes[key]
	t.mu.Unlock()
	if h == nil {
		return true
	}
	h.mu.Lock()
	gone := h.state == over || h.uses == 0 && h.close(Left)
	h.mu.Unlock()
	if gone {
		h.finish()
	}
	return gone
}

// Close gives up all homes, as far as ctx allows, and waits for all ends. No home can be used
// afterwards. Of sessions in memory, nothing is left.
func (t *Table) Close(ctx context.Context) {
	t.stop()
	t.sweeping.Wait()
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.finish(ctx, func(h *Home) bool {
		h.close(Left)
		return true
	})
	t.ending.Wait()
}
