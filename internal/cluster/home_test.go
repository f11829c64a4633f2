package cluster

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

func TestAGatewayAlone(t *testing.T) {
	c, err := New(Config{}, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	c.Start(nil)
	defer c.Close(t.Context())
	o, err := c.Own(t.Context(), some("a"))
	if err != nil || !o.Here() || o.Replica != c.Self() {
		t.Errorf("Own: %+v, %v: want it here", o, err)
	}
	if key, token := c.Fence("u1:a"); key != "" || token != "" {
		t.Errorf("Fence: %q, %q: want nothing to compare", key, token)
	}
	if err := c.Leave(t.Context(), "u1:a"); err != nil {
		t.Error(err)
	}
	if c.Forward(nil, nil, o, nil) == nil || c.Peers() != nil {
		t.Error("there is somebody to forward to")
	}
}

// TestAlone: a replica alone takes over at once what another one left behind, and drops what
// was taken from it.
func TestAlone(t *testing.T) {
	redis := redistest.Start(t)
	alone := func(cfg *Config, deps *Deps, _ *times) {
		*cfg = Config{Alone: true}
		deps.Idle = 5 * time.Second
	}
	a, b := startReplica(t, redis, nil, alone), startReplica(t, redis, nil, alone)
	first := a.own(t, some("x"))
	if !first.Here() {
		t.Errorf("Own: %+v: want a new home", first)
	}
	second := b.own(t, some("x"))
	if !second.Here() || counted(t, b.homes.count.takeovers) != 1 || second.Epoch == first.Epoch {
		t.Errorf("Own elsewhere: %+v: want it taken over from %s", second, a.Self())
	}
	eventually(t, "the first one hears of it", func() bool {
		if o := a.own(t, some("y")); !o.Here() {
			t.Fatal("another home is not here")
		}
		if o, ok := a.homes.here(some("x"), time.Minute); ok && o.Epoch != first.Epoch { // used, as by a request
			t.Fatal("it has taken the home back")
		}
		return len(a.lost) > 0
	})
	if home := <-a.lost; home != "u1:x" {
		t.Errorf("lost %s", home)
	}
}

func TestOwn(t *testing.T) {
	redis := redistest.Start(t)
	a, b := startReplica(t, redis, nil), startReplica(t, redis, nil)
	first := a.own(t, some("x"))
	if !first.Here() || first.Replica != a.Self() {
		t.Errorf("the first: %+v", first)
	}
	if again := a.own(t, some("x")); !again.Here() || again.Epoch != first.Epoch {
		t.Errorf("again: %+v: want the same", again)
	}
	for range 2 { // first from Redis, then from memory
		there := b.own(t, some("x"))
		if there.Here() || there.Replica != a.Self() || there.Epoch != first.Epoch {
			t.Errorf("elsewhere: %+v", there)
		}
	}
	key, token := a.Fence("u1:x")
	client := redis.Client()
	defer client.Close()
	if at := client.Get(t.Context(), key).Val(); at != token || token == "" {
		t.Errorf("the fence is %q, in Redis is %q", token, at)
	}
	if other, nobodys := b.Fence("u1:x"); other != key || nobodys == token || nobodys == "" {
		t.Errorf("the fence of another: %q %q: want the same key, and a token of nobody", other, nobodys)
	}

	if err := b.Leave(t.Context(), "u1:x"); err != nil || client.Get(t.Context(), key).Val() != token {
		t.Errorf("another replica gave the home up: %v", err)
	}
	if err := a.Leave(t.Context(), "u1:x"); err != nil || client.Exists(t.Context(), key).Val() != 0 {
		t.Errorf("Leave: %v", err)
	}
	b.homes.moved(Owner{home: "u1:x", Epoch: first.Epoch})
	if taken := b.own(t, some("x")); !taken.Here() || counted(t, b.homes.count.takeovers) != 0 {
		t.Errorf("after Leave: %+v", taken)
	}
	if len(a.lost)+len(b.lost) > 0 {
		t.Error("a home was lost")
	}
}

func recordAt(key string) func(string) string { return func(string) string { return key } }

// TestLeaveAndOwn: a home that is given up while requests ask for it is here with the token that
// Redis has, or not at all.
func TestLeaveAndOwn(t *testing.T) {
	redis := redistest.Start(t)
	a := startReplica(t, redis, nil)
	client := redis.Client()
	defer client.Close()
	for range 200 {
		a.own(t, some("x"))
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				if err := a.Leave(t.Context(), "u1:x"); err != nil {
					t.Error(err)
				}
			})
			all.Go(func() { _, _ = a.Own(t.Context(), some("x")) })
		}
		all.Wait()
		key, token := a.Fence("u1:x")
		if at := client.Get(t.Context(), key).Val(); token != nobody && at != token || token == nobody && at != "" {
			t.Fatalf("the token here is %q, and in Redis %q", token, at)
		}
	}
}

func TestRecord(t *testing.T) {
	redis := redistest.Start(t)
	a := startReplica(t, redis, nil)
	client := redis.Client()
	defer client.Close()
	h := Home{User: "u:1 {}", ID: "x", Record: recordAt(a.homes.db.Key("s:{u%3A1+%7B%7D}:x"))}
	if _, err := a.Own(t.Context(), h); !errors.Is(err, ErrNoHome) {
		t.Errorf("without its record: %v", err)
	}
	client.Set(t.Context(), h.RecordKey(), "there", 0)
	if o := a.own(t, h); !o.Here() {
		t.Errorf("with it: %+v", o)
	}
	key, token := a.Fence(h.Key())
	if client.Get(t.Context(), key).Val() != token {
		t.Errorf("%q is not the fence", key)
	}
	a.members.generation.Add(1) // so that Redis is asked again
	client.Del(t.Context(), h.RecordKey())
	if _, err := a.Own(t.Context(), h); !errors.Is(err, ErrNoHome) {
		t.Errorf("after it has ended: %v", err)
	}
	if client.Exists(t.Context(), key).Val() != 0 || len(a.lost) != 0 {
		t.Error("something is left of it, or another replica is said to have it")
	}
}

// TestHomesInDoubt: after the lease has lapsed, Redis confirms each home before it is served.
func TestHomesInDoubt(t *testing.T) {
	redis := redistest.Start(t)
	a := startReplica(t, redis, nil)
	client := redis.Client()
	defer client.Close()
	kept, lost, dropped := a.own(t, some("kept")), a.own(t, some("lost")), a.own(t, some("dropped"))
	b := startReplica(t, redis, nil)
	lostKey, _ := a.Fence("u1:lost")
	client.Set(t.Context(), lostKey, b.Self()+".1", 0)
	droppedKey, _ := a.Fence("u1:dropped")
	client.Del(t.Context(), droppedKey)
	if o := a.own(t, some("lost")); !o.Here() {
		t.Errorf("Redis is asked while the lease holds: %+v", o)
	}
	before := a.members.generation.Load()
	client.Del(t.Context(), a.homes.db.Key(leasePrefix+a.Self()))
	eventually(t, "the lease was lost", func() bool { return a.members.generation.Load() > before })
	if o := a.own(t, some("kept")); !o.Here() || o.Epoch != kept.Epoch {
		t.Errorf("what is still ours: %+v", o)
	}
	if o := a.own(t, some("lost")); o.Here() || o.Replica != b.Self() || o.Epoch == lost.Epoch {
		t.Errorf("what another has: %+v", o)
	}
	if home := <-a.lost; home != "u1:lost" {
		t.Errorf("lost %s", home)
	}
	if o := a.own(t, some("dropped")); !o.Here() || o.Epoch == dropped.Epoch {
		t.Errorf("what nobody has: %+v: want it to go on under another token", o)
	}
	if len(a.lost) != 0 {
		t.Errorf("lost %s", <-a.lost)
	}
}

// TestDoubt: after Redis has refused a write for a home, the replica asks whose the home is,
// although its lease holds.
func TestDoubt(t *testing.T) {
	redis := redistest.Start(t)
	a, b := startReplica(t, redis, nil), startReplica(t, redis, nil)
	client := redis.Client()
	defer client.Close()
	a.own(t, some("x"))
	key, token := a.Fence("u1:x")
	client.Set(t.Context(), key, b.Self()+".1", 0)
	a.Doubt("u1:x", token+"0")
	a.Doubt("u1:y", token)
	if o := a.own(t, some("x")); !o.Here() {
		t.Errorf("another token was refused: %+v", o)
	}
	a.Doubt("u1:x", token)
	if o := a.own(t, some("x")); o.Replica != b.Self() {
		t.Errorf("%+v", o)
	}
	if home := <-a.lost; home != "u1:x" {
		t.Errorf("lost %s", home)
	}
}

// TestHomesAfterALapse: a replica whose lease lapsed learns at once what others have taken
// over. It claims what Redis has lost before another replica does. Homes that need a record
// are lost.
func TestHomesAfterALapse(t *testing.T) {
	redis := redistest.Start(t)
	a := startReplica(t, redis, nil)
	client := redis.Client()
	defer client.Close()
	recorded := Home{User: "u1", ID: "recorded", Record: recordAt(a.homes.db.Key("s:{u1}:recorded"))}
	client.Set(t.Context(), recorded.RecordKey(), "there", 0)
	for _, h := range []Home{some("dropped"), some("taken"), recorded} {
		a.own(t, h)
	}
	client.FlushAll(t.Context())
	taken, _ := a.Fence("u1:taken")
	client.Set(t.Context(), taken, "another.1", 0)
	if home := <-a.lost; home != "u1:taken" {
		t.Errorf("lost %s", home)
	}
	eventually(t, "what Redis has dropped is claimed", func() bool {
		key, token := a.Fence("u1:dropped")
		return client.Get(t.Context(), key).Val() == token
	})
	if key, _ := a.Fence(recorded.Key()); client.Exists(t.Context(), key).Val() != 0 {
		t.Error("what has lost its record is claimed")
	}
	if len(a.lost) > 0 {
		t.Errorf("lost %s", <-a.lost)
	}
}

// TestHomesAreKept: Redis keeps the homes that are used and forgets the others.
func TestHomesAreKept(t *testing.T) {
	redis := redistest.Start(t)
	a := startReplica(t, redis, nil, func(_ *Config, deps *Deps, _ *times) {
		deps.Idle = 2 * time.Second
		deps.InUse = func(home string) bool { return home == "u1:running" }
	})
	client := redis.Client()
	defer client.Close()
	a.own(t, some("quiet"))
	a.own(t, some("running"))
	used := a.own(t, some("used"))
	key, _ := a.Fence("u1:quiet")
	held := func(home string) bool {
		a.homes.mu.Lock()
		defer a.homes.mu.Unlock()
		return a.homes.held[home] != nil
	}
	eventually(t, "what nobody uses is forgotten", func() bool {
		if o := a.own(t, some("used")); o.Epoch != used.Epoch {
			t.Fatalf("what is used has ended: %+v", o)
		}
		return !held("u1:quiet") && client.Exists(t.Context(), key).Val() == 0
	})
	if !held("u1:running") {
		t.Error("what runs is forgotten")
	}
	if len(a.lost) != 0 {
		t.Error("another replica is said to have it")
	}
}

// TestEndedElsewhere: a replica that was cut off while another one took a home over and ended it
// finds neither owner nor record in Redis. It keeps nothing of the home.
func TestEndedElsewhere(t *testing.T) {
	redis := redistest.Start(t)
	a := startReplica(t, redis, nil, func(_ *Config, deps *Deps, _ *times) { deps.Idle = time.Second })
	client := redis.Client()
	defer client.Close()
	h := Home{User: "u1", ID: "x", Record: recordAt(a.homes.db.Key("s:{u1}:x"))}
	client.Set(t.Context(), h.RecordKey(), "there", 0)
	a.own(t, h)
	a.own(t, h) // used, and Redis has not been told
	key, _ := a.Fence(h.Key())
	client.Del(t.Context(), key, h.RecordKey())
	if home := <-a.lost; home != h.Key() {
		t.Errorf("lost %s", home)
	}
	if a.homes.drop(h.Key()) {
		t.Error("the home is still held")
	}
}

func TestUnavailable(t *testing.T) {
	redis := redistest.Start(t)
	a, b := startReplica(t, redis, nil), startReplica(t, redis, nil)
	here, there := a.own(t, some("here")), b.own(t, some("there"))
	a.own(t, some("there"))
	a.own(t, some("seldom"))
	a.own(t, some("never"))
	redis.Kill()
	a.homes.mu.Lock()
	a.homes.held["u1:seldom"].used -= testIdle * 2 / 3
	a.homes.held["u1:seldom"].kept -= testIdle * 2 / 3
	a.homes.held["u1:never"].used -= testIdle
	a.homes.held["u1:never"].kept -= testIdle
	a.homes.mu.Unlock()
	if o := a.own(t, some("seldom")); !o.Here() {
		t.Errorf("what is seldom used: %+v", o)
	}
	if o, err := a.Own(t.Context(), some("never")); !errors.Is(err, ErrUnavailable) {
		t.Errorf("what Redis may have dropped: %+v, %v", o, err)
	}
	if _, err := a.Own(t.Context(), some("new")); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a home that is not known: %v", err)
	}
	// Redis is away for all replicas: what is here continues for longer than a lease.
	until := time.Now().Add(shortTimes().lease + time.Second)
	eventually(t, "the leases have ended", func() bool {
		if o := a.own(t, some("here")); !o.Here() || o.Epoch != here.Epoch {
			t.Fatalf("what is here: %+v", o)
		}
		if o := a.own(t, some("there")); o.Here() || o.Epoch != there.Epoch {
			t.Fatalf("what is elsewhere: %+v", o)
		}
		return time.Now().After(until)
	})
	redis.Restart(t)
	eventually(t, "Redis is asked again", func() bool {
		_, err := a.Own(t.Context(), some("new"))
		return err == nil
	})
}

// TestLeaveWithoutRedis: a home that was given up while Redis was away is unknown here,
// although Redis still names this replica.
func TestLeaveWithoutRedis(t *testing.T) {
	redis := redistest.Start(t)
	a := startReplica(t, redis, nil)
	first := a.own(t, some("x"))
	redis.Hang(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := a.Leave(ctx, "u1:x")
	redis.Resume(t)
	if !errors.Is(err, ErrUnavailable) {
		t.Errorf("Leave: %v", err)
	}
	eventually(t, "Redis answers again", func() bool {
		o, err := a.Own(t.Context(), some("x"))
		if err == nil && !o.Here() {
			t.Errorf("%+v after %+v", o, first)
		}
		return err == nil
	})
}

func TestReadKey(t *testing.T) {
	for _, h := range []Home{some("a"), {User: "https://issuer|a:b", ID: "c"}, {User: "", ID: "c"}} {
		if got := readKey(h.Key()); got.User != h.User || got.ID != h.ID {
			t.Errorf("%q: %+v", h.Key(), got)
		}
	}
}

func BenchmarkOwnHere(b *testing.B) {
	redis := redistest.Start(b)
	a := startReplica(b, redis, nil, func(_ *Config, _ *Deps, t *times) { *t = usualTimes() })
	h := Home{User: strings.Repeat("u", 40), ID: "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
	a.own(b, h)
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if o, err := a.Own(ctx, h); err != nil || !o.Here() {
			b.Fatal(o, err)
		}
	}
}

// TestOwnHereAsksNobody: Own for a home that is here costs no Redis command and no allocation.
func TestOwnHereAsksNobody(t *testing.T) {
	redis := redistest.Start(t)
	a := startReplica(t, redis, http.NotFoundHandler(), func(_ *Config, _ *Deps, t *times) { *t = usualTimes() })
	a.own(t, some("x"))
	before := a.homes.tokens.Load()
	if allocs := testing.AllocsPerRun(100, func() { a.own(t, some("x")) }); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
	if a.homes.tokens.Load() != before {
		t.Error("Redis was asked")
	}
}

// TestTooManyHomes: a user at the bound for homes without records gets room from one that is hardly
// in use any more, and nobody else notices.
func TestTooManyHomes(t *testing.T) {
	redis := redistest.Start(t)
	busy := "u1:2"
	a := startReplica(t, redis, nil, func(_ *Config, deps *Deps, _ *times) {
		deps.Most = func(string) int { return 3 }
		deps.InUse = func(home string) bool { return home == busy }
	})
	b := startReplica(t, redis, nil)
	neighbour := Home{User: "u2", ID: "x"}
	first := a.own(t, neighbour)
	for _, id := range []string{"1", "2", "3"} {
		a.own(t, some(id))
	}
	if _, err := a.Own(t.Context(), some("4")); !errors.Is(err, ErrTooMany) {
		t.Errorf("one more, with all in use: %v", err)
	}
	client := redis.Client()
	defer client.Close()
	recorded := Home{User: "u1", ID: "r", Record: recordAt(a.homes.db.Key("s:{u1}:r"))}
	client.Set(t.Context(), recorded.RecordKey(), "there", 0)
	if o := a.own(t, recorded); !o.Here() {
		t.Errorf("a home with a record: %+v", o)
	}
	b.own(t, some("elsewhere"))
	if o := a.own(t, some("elsewhere")); o.Replica != b.Self() {
		t.Errorf("a home of another replica: %+v", o)
	}
	a.homes.mu.Lock()
	a.homes.held["u1:1"].used -= 2 * evictable
	a.homes.held["u1:2"].used -= 3 * evictable
	a.homes.mu.Unlock()
	if o := a.own(t, some("4")); !o.Here() {
		t.Errorf("one more, with one unused: %+v", o)
	}
	if home := <-a.lost; home != "u1:1" {
		t.Errorf("%s made room", home)
	}
	if key, token := a.Fence("u1:1"); token != nobody || client.Exists(t.Context(), key).Val() != 0 {
		t.Error("what made room is still there")
	}
	if _, err := a.Own(t.Context(), some("5")); !errors.Is(err, ErrTooMany) {
		t.Errorf("and then: %v", err)
	}
	if o := a.own(t, neighbour); !o.Here() || o.Epoch != first.Epoch || len(a.lost) > 0 {
		t.Errorf("the neighbour: %+v", o)
	}
}
