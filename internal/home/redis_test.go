package home

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/redis/go-redis/v9"

	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

// replica is a table of a replica, with a clock that the test can advance.
type replica struct {
	*testTable
	self string
	skew atomic.Int64
}

// newReplica runs a replica until the test ends. One that is alone takes everything over at once.
func newReplica(t *testing.T, server *redistest.Server, alone bool, change ...func(*Config)) *replica {
	t.Helper()
	db, err := redisdb.Open(redisdb.Config{URL: mcp.Secret(server.URL())}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	cfg := cluster.Config{Alone: alone}
	if !alone {
		cfg.Listen = "127.0.0.1:0"
	}
	key := []byte("0123456789abcdef0123456789abcdef")
	owners, err := cluster.New(cfg, cluster.Deps{DB: db, Key: key, Idle: idle + idle/4})
	if err != nil {
		t.Fatal(err)
	}
	owners.Start(nil)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		owners.Close(ctx)
	})
	r, began := &replica{self: owners.Self()}, time.Now()
	clock := func(cfg *Config) {
		cfg.Clock = func() time.Duration { return time.Since(began) + time.Duration(r.skew.Load()) }
	}
	r.testTable = openTable(t, owners, append(change, clock)...)
	return r
}

// pass lets time pass for replicas, and sweeps.
func pass(t *testing.T, d time.Duration, all ...*replica) {
	for _, r := range all {
		r.skew.Add(int64(d))
		r.Sweep(t.Context(), false)
	}
}

// elsewhere checks that another replica owns a session.
func (r *replica) elsewhere(t *testing.T, what string, key Key, want *replica) {
	t.Helper()
	_, err := r.Use(t.Context(), key)
	if other, ok := errors.AsType[*Elsewhere](err); !ok || other.Replica != want.self {
		t.Errorf("%s: %v, want it at replica %s", what, err, want.self)
	}
}

// owner is the key in Redis that names the owner of a session.
func owner(key Key) string { return "gatehouse:h:{" + key.User + "}:" + key.ID }

// client returns a client of a Redis until the test ends.
func client(t *testing.T, server *redistest.Server) *redis.Client {
	c := server.Client()
	t.Cleanup(func() { c.Close() })
	return c
}

// TestElsewhere: a session of another replica is there without asking Redis again, until that
// replica denies it. One that was given up can be had.
func TestElsewhere(t *testing.T) {
	server := redistest.Start(t)
	a, b := newReplica(t, server, false), newReplica(t, server, false)
	key, guest := session("u", 0), Key{"u", Derived("x")}
	h := a.visit(t, key)
	a.visit(t, guest)
	if h.Fence() == "" || client(t, server).Get(t.Context(), owner(key)).Val() != h.Fence() {
		t.Errorf("the token is %q", h.Fence())
	}
	b.elsewhere(t, "a session", key, a)
	b.elsewhere(t, "a client without a session", guest, a)
	if b.Len() != 0 || len(b.told) != 0 || counted(t, b.count.lost) != 0 {
		t.Error("what is elsewhere is here, too")
	}
	if !b.Exists(t.Context(), key) || b.Exists(t.Context(), session("u", 1)) {
		t.Error("what is elsewhere does not exist, or what is nowhere does")
	}
	a.ReleaseAll(t.Context())
	wantOver(t, "given up", h, Left)
	b.elsewhere(t, "as it was", key, a)
	b.Misplaced(key)
	if b.visit(t, key).Fence() == h.Fence() || counted(t, b.count.takeovers) != 0 {
		t.Error("what was given up was taken over")
	}
	a.elsewhere(t, "what was given up", key, b)
	b.Release(guest) // it is not there
	b.Release(key)
	a.Misplaced(key)
	defer a.use(t, key).Done() // it would be given up at once

	b.elsewhere(t, "given up once more", key, a)
	server.Kill()
	b.elsewhere(t, "without Redis", key, a)
	b.Misplaced(key)
	b.refuses(t, key, ErrUnavailable)
}

func counted(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

// TestTakenOver: a replica finds at the next sweep, or as soon as Redis refuses a write, that another
// one has taken a session over.
func TestTakenOver(t *testing.T) {
	server := redistest.Start(t)
	a, b := newReplica(t, server, true), newReplica(t, server, true)
	guest, refused := a.visit(t, Key{"u", Derived("x")}), a.visit(t, session("u", 0))
	b.visit(t, guest.Key())
	b.visit(t, refused.Key())
	if n := counted(t, b.count.takeovers); n != 2 {
		t.Errorf("%v are taken over", n)
	}
	if a.visit(t, guest.Key()) != guest || a.visit(t, refused.Key()) != refused {
		t.Error("it is known already")
	}
	a.store.set(func() { a.store.keep = ErrMoved })
	pass(t, 2*time.Minute, a)
	wantOver(t, "at a sweep", guest, Moved)
	wantOver(t, "at a sweep", refused, Moved)
	if n := counted(t, a.count.lost); n != 2 {
		t.Errorf("%v are lost", n)
	}
}

// TestRefused: after a refused write, a session has another home. A client without a session has no
// record that another replica could have changed: its home goes on if no other replica owns it.
func TestRefused(t *testing.T) {
	server := redistest.Start(t)
	r := newReplica(t, server, true)
	redis := client(t, server)
	guest, h := r.visit(t, Key{"u", Derived("x")}), r.visit(t, session("u", 0))
	token := guest.Fence()
	for _, h := range []*Home{guest, h} {
		if err := redis.Del(t.Context(), owner(h.Key())).Err(); err != nil {
			t.Fatal(err)
		}
		if r.visit(t, h.Key()); h.IsOver() {
			t.Error("Redis was asked")
		}
		h.Refused()
	}
	if r.visit(t, guest.Key()) != guest || guest.Fence() == token {
		t.Error("a client without a session has another home, or the same token")
	}
	wantOver(t, "refused", h, Moved)
	if next := r.visit(t, h.Key()); next == h || next.Fence() == h.Fence() {
		t.Error("the session has the same home")
	}
	if err := redis.Set(t.Context(), owner(guest.Key()), "another", 0).Err(); err != nil {
		t.Fatal(err)
	}
	other := newReplica(t, server, true)
	other.visit(t, guest.Key())
	guest.Refused()
	r.visit(t, guest.Key()) // it takes it back, as it is alone
	wantOver(t, "taken over meanwhile", guest, 0)
}

// TestLostByRedis: a session whose owner Redis has forgotten has another home when Redis is asked.
func TestLostByRedis(t *testing.T) {
	server := redistest.Start(t)
	r := newReplica(t, server, true)
	h := r.visit(t, session("u", 0))
	if err := client(t, server).Del(t.Context(), owner(h.Key())).Err(); err != nil {
		t.Fatal(err)
	}
	h.Hold()
	r.store.set(func() { r.store.keep = ErrUnavailable }) // so that it is not told of the stream
	pass(t, idle-time.Minute, r)
	h.Drop()
	if next := r.visit(t, h.Key()); next == h || h.Why() != Moved {
		t.Error("it goes on, and another replica may have owned it")
	}
}

// TestNoRecord: a session without a record in Redis does not exist, and one that was here is gone.
func TestNoRecord(t *testing.T) {
	server := redistest.Start(t)
	r, redis := newReplica(t, server, true), client(t, server)
	r.store.record = "gatehouse:s:{u}"
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { r.refuses(t, session("u", 0), ErrNotFound) })
	}
	all.Wait()
	r.wantTold(t)
	if err := redis.Set(t.Context(), r.store.record, "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	h := r.visit(t, session("u", 0))
	if err := redis.Del(t.Context(), r.store.record).Err(); err != nil {
		t.Fatal(err)
	}
	r.skew.Add(int64(idle - time.Minute)) // Redis is asked again
	r.refuses(t, h.Key(), ErrNotFound)
	wantOver(t, "without its record", h, Gone)
	if gone, lost := counted(t, r.count.ends[Gone]), counted(t, r.count.lost); gone != 1 || lost != 0 {
		t.Errorf("%v are gone, %v are lost", gone, lost)
	}
}

// TestTooManyHomes: each user may have some clients without sessions at a replica. One that was unused for
// a minute makes room; one that another replica has needs none.
func TestTooManyHomes(t *testing.T) {
	server := redistest.Start(t)
	a, b := newReplica(t, server, false), newReplica(t, server, false)
	guest := func(name string) Key { return Key{"u", Derived(name)} }
	redis := client(t, server)
	var homes []*Home
	for _, name := range []string{"1", "2", "3"} {
		homes = append(homes, a.visit(t, guest(name)))
	}
	a.refuses(t, guest("4"), ErrTooMany)
	a.visit(t, Key{"v", Derived("1")})
	a.visit(t, session("u", 0)) // the store counts those
	b.visit(t, guest("4"))
	a.elsewhere(t, "one that needs no room", guest("4"), b)

	pass(t, time.Minute, a)
	homes[0].Hold()
	a.visit(t, guest("3"))
	a.visit(t, guest("5"))
	wantOver(t, "with a stream", homes[0], 0)
	wantOver(t, "unused", homes[1], Left)
	if n := redis.Exists(t.Context(), owner(guest("2"))).Val(); n != 0 {
		t.Error("it was not given up")
	}
	b.visit(t, guest("2"))
	homes[0].Drop()

	pass(t, idle, a)
	for _, h := range homes {
		if !h.IsOver() {
			t.Error("it does not end unused")
		}
	}
	if n := redis.Exists(t.Context(), owner(homes[0].Key()), owner(homes[2].Key())).Val(); n != 0 {
		t.Errorf("%d have owners still", n)
	}
	if a.Len() != 0 || a.known != [2]int{} {
		t.Errorf("%v are counted still", a.known)
	}
}

// TestHomesAfterALapse: when Redis has lost its data, the lease of a replica has ended, too, and all
// homes are looked up. Another replica may have one by now; the others are claimed again, unless they
// have lost their records.
func TestHomesAfterALapse(t *testing.T) {
	server := redistest.Start(t)
	r, redis := newReplica(t, server, false), client(t, server)
	dropped, taken, recorded := r.visit(t, Key{"u", Derived("1")}), r.visit(t, Key{"u", Derived("2")}),
		r.visit(t, session("u", 0))
	before := dropped.Fence()
	redis.FlushAll(t.Context())
	redis.Set(t.Context(), owner(taken.Key()), "another.1", 0)
	<-taken.Over()
	wantOver(t, "another replica's", taken, Moved)
	r.Sweep(t.Context(), true)
	wantOver(t, "what Redis has dropped", dropped, 0)
	if got := redis.Get(t.Context(), owner(dropped.Key())).Val(); got != dropped.Fence() || got == before {
		t.Errorf("it has the token %q, in Redis is %q", dropped.Fence(), got)
	}
	r.store.set(func() { r.store.keep = ErrNotFound })
	r.Sweep(t.Context(), true)
	wantOver(t, "what has lost its record", recorded, Gone)
	if n := redis.Exists(t.Context(), owner(recorded.Key())).Val(); n != 0 {
		t.Error("what has lost its record is claimed")
	}
}

// TestUnavailable: without Redis, what is known goes on: here, as long as Redis cannot have dropped
// it, and elsewhere. Nothing else does.
func TestUnavailable(t *testing.T) {
	server := redistest.Start(t)
	a, b := newReplica(t, server, true), newReplica(t, server, false)
	here := []Key{session("u", 0), {"u", Derived("x")}}
	for _, key := range here {
		a.visit(t, key)
	}
	b.visit(t, session("v", 0))
	server.Kill()
	a.store.set(func() { a.store.keep = ErrUnavailable })
	for range 3 {
		pass(t, idle/2-time.Minute, a)
		for _, key := range here {
			a.visit(t, key)
		}
	}
	pass(t, time.Minute, a)
	for _, key := range append(here, session("u", 1)) {
		a.refuses(t, key, ErrUnavailable)
	}
	b.visit(t, session("v", 0))
	if a.Exists(t.Context(), session("u", 1)) {
		t.Error("what is unknown exists")
	}
	server.Restart(t)
	late := time.After(20 * time.Second)
	for again := time.NewTicker(10 * time.Millisecond); ; {
		if h, err := a.Use(t.Context(), session("u", 1)); err == nil {
			h.Done()
			return
		}
		select {
		case <-again.C:
		case <-late:
			t.Fatal("Redis is not asked again")
		}
	}
}

// TestLeaveAndOwn: a home that is given up while requests ask for it is here with the token that
// Redis has, or not at all.
func TestLeaveAndOwn(t *testing.T) {
	server := redistest.Start(t)
	r, redis := newReplica(t, server, true), client(t, server)
	for range 100 {
		for _, key := range []Key{session("u", 0), {"u", Derived("x")}} {
			r.visit(t, key)
			var all sync.WaitGroup
			for range 2 {
				all.Go(func() { r.Release(key) })
				all.Go(func() {
					if h, err := r.Use(t.Context(), key); err == nil {
						h.Done()
					}
				})
			}
			all.Wait()
			token := ""
			if h := r.Known(key); h != nil {
				token = h.Fence()
			}
			if at := redis.Get(t.Context(), owner(key)).Val(); at != token {
				t.Fatalf("the token here is %q, and in Redis %q", token, at)
			}
		}
	}
}

// TestKeptGuests: Redis keeps a client without a session as long as it is used here.
func TestKeptGuests(t *testing.T) {
	server := redistest.Start(t)
	r := newReplica(t, server, true)
	h := r.visit(t, Key{"u", Derived("x")})
	token := h.Fence()
	for range 5 {
		server.Advance(t, idle/2)
		pass(t, idle/2, r)
		if r.visit(t, h.Key()) != h || h.Fence() != token {
			t.Fatal("it has ended while it is used")
		}
	}
	r.store.keeps.Store(0)
	for range 20 {
		pass(t, idle/40, r)
	}
	if n := r.store.keeps.Load(); n < 4 || n > 5 {
		t.Errorf("Redis is told %d times while it is unused, want each tenth of the idle time", n)
	}
	server.Advance(t, idle)
	pass(t, idle, r)
	wantOver(t, "unused", h, Idle)
	if len(r.told) != 2 || counted(t, r.count.ends[Idle]) != 0 {
		t.Errorf("told %q, or it counts as a session", r.told)
	}
}
