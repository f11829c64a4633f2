package cluster

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
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
	if err != nil || !o.Here() || o.Replica != c.Self() || o.Epoch != "" || !c.Certain(o) {
		t.Errorf("Own: %+v, %v: want it here, and nothing to compare", o, err)
	}
	if err := c.Release(t.Context(), some("a"), o); err != nil {
		t.Error(err)
	}
	if again, err := c.Renew(t.Context(), some("a"), o); err != nil || again != o || !c.Exists(t.Context(), some("a")) {
		t.Errorf("Renew: %+v, %v", again, err)
	}
	to := "another12345"
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	if c.Forward(httptest.NewRecorder(), r, to, "u1:a", nil) == nil || c.Peers() != nil || c.Present(to) {
		t.Error("there is another replica")
	}
}

// TestAlone: a replica alone takes over at once what another one left behind, and that one learns of
// it when it renews the home.
func TestAlone(t *testing.T) {
	redis := redistest.Start(t)
	alone := func(cfg *Config, _ *Deps, _ *times) { *cfg = Config{Alone: true} }
	a, b := startReplica(t, redis, nil, alone), startReplica(t, redis, nil, alone)
	first := a.own(t, some("x"))
	if !first.Here() {
		t.Errorf("Own: %+v: want a new home", first)
	}
	second := b.own(t, some("x"))
	if !second.Here() || second.Former != a.Self() || second.Epoch == first.Epoch {
		t.Errorf("Own elsewhere: %+v: want it taken over from %s", second, a.Self())
	}
	if _, err := a.Renew(t.Context(), some("x"), first); !errors.Is(err, ErrMoved) {
		t.Errorf("Renew: %v", err)
	}
}

func TestOwn(t *testing.T) {
	redis := redistest.Start(t)
	a, b := startReplica(t, redis, nil), startReplica(t, redis, nil)
	if a.Exists(t.Context(), some("x")) {
		t.Error("it has an owner")
	}
	first := a.own(t, some("x"))
	if !first.Here() || first.Replica != a.Self() || !a.Certain(first) || first.Former != "" {
		t.Errorf("the first: %+v", first)
	}
	if again := a.own(t, some("x")); again != first {
		t.Errorf("again: %+v: want the same", again)
	}
	there := b.own(t, some("x"))
	if there.Here() || there.Replica != a.Self() || there.Epoch != first.Epoch || b.Certain(there) ||
		!b.Present(there.Replica) {
		t.Errorf("elsewhere: %+v", there)
	}
	client := redis.Client()
	defer client.Close()
	key := homeKey(a.db, some("x"))
	if at := client.Get(t.Context(), key).Val(); at != first.Epoch || at == "" {
		t.Errorf("the token is %q, in Redis is %q", first.Epoch, at)
	}
	if !b.Exists(t.Context(), some("x")) {
		t.Error("it has no owner")
	}
	if err := b.Release(t.Context(), some("x"), Owner{Epoch: b.Self() + ".1"}); err != nil ||
		!a.Exists(t.Context(), some("x")) {
		t.Errorf("another replica gave the home up: %v", err)
	}
	if err := a.Release(t.Context(), some("x"), first); err != nil || a.Exists(t.Context(), some("x")) {
		t.Errorf("Release: %v", err)
	}
	if taken := b.own(t, some("x")); !taken.Here() || taken.Former != "" {
		t.Errorf("after Release: %+v", taken)
	}
}

func TestRecord(t *testing.T) {
	redis := redistest.Start(t)
	a := startReplica(t, redis, nil)
	client := redis.Client()
	defer client.Close()
	h := Home{User: "u:1 {}", ID: "x", Record: a.db.Key("s:{u%3A1+%7B%7D}:x")}
	if _, err := a.Own(t.Context(), h); !errors.Is(err, ErrNoHome) {
		t.Errorf("without its record: %v", err)
	}
	client.Set(t.Context(), h.Record, "there", 0)
	if o := a.own(t, h); !o.Here() || client.Get(t.Context(), homeKey(a.db, h)).Val() != o.Epoch {
		t.Errorf("with it: %+v", o)
	}
	client.Del(t.Context(), h.Record)
	if _, err := a.Own(t.Context(), h); !errors.Is(err, ErrNoHome) {
		t.Errorf("after it has ended: %v", err)
	}
	if a.Exists(t.Context(), h) {
		t.Error("something is left of it")
	}
}

// TestHomesInDoubt: after the lease has lapsed, no home is certain until Redis confirms it.
func TestHomesInDoubt(t *testing.T) {
	redis := redistest.Start(t)
	a := startReplica(t, redis, nil)
	client := redis.Client()
	defer client.Close()
	kept, lost, dropped := a.own(t, some("kept")), a.own(t, some("lost")), a.own(t, some("dropped"))
	client.Set(t.Context(), homeKey(a.db, some("lost")), "another.1", 0)
	client.Del(t.Context(), homeKey(a.db, some("dropped")))
	if !a.Certain(lost) || a.Certain(lost.Doubted()) {
		t.Error("a home is certain as long as the lease holds and no write was refused")
	}
	client.Del(t.Context(), a.db.Key(leasePrefix+a.Self()))
	<-a.Lapsed()
	if a.Certain(kept) || a.Certain(lost) {
		t.Error("others may have taken it over")
	}
	if o, err := a.Renew(t.Context(), some("kept"), kept); err != nil || o.Epoch != kept.Epoch || !a.Certain(o) {
		t.Errorf("what is still ours: %+v, %v", o, err)
	}
	if o, err := a.Renew(t.Context(), some("lost"), lost); !errors.Is(err, ErrMoved) {
		t.Errorf("what another has: %+v, %v", o, err)
	}
	o, err := a.Renew(t.Context(), some("dropped"), dropped)
	if err != nil || !a.Certain(o) || o.Epoch == dropped.Epoch {
		t.Errorf("what Redis has dropped: %+v, %v: want it to go on under another token", o, err)
	}
	if o := a.Confirmed(kept); !a.Certain(o) || o.Epoch != kept.Epoch {
		t.Errorf("what Redis has confirmed with a write: %+v", o)
	}
}

// TestWithoutRedis: while no replica reaches Redis, homes stay certain for longer than a lease.
func TestWithoutRedis(t *testing.T) {
	redis := redistest.Start(t)
	a, b := startReplica(t, redis, nil, hasty), startReplica(t, redis, nil, hasty)
	here, there := a.own(t, some("here")), b.own(t, some("there"))
	a.own(t, some("there")) // so that it has read the lease
	redis.Kill()
	if _, err := a.Own(t.Context(), some("new")); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a home that is not known: %v", err)
	}
	if o, err := a.Renew(t.Context(), some("here"), here); !errors.Is(err, ErrUnavailable) || o != here {
		t.Errorf("Renew: %+v, %v", o, err)
	}
	until := time.Now().Add(shortTimes().lease + time.Second)
	eventually(t, "the leases have ended", func() bool {
		if !a.Certain(here) || !b.Certain(there) || !a.Present(b.Self()) {
			t.Fatal("another replica may have it")
		}
		return time.Now().After(until)
	})
	redis.Restart(t)
	eventually(t, "Redis is asked again", func() bool {
		_, err := a.Own(t.Context(), some("new"))
		return err == nil
	})
}

// TestReleaseWithoutRedis: Redis still names this replica for a home that was given up without it.
func TestReleaseWithoutRedis(t *testing.T) {
	redis := redistest.Start(t)
	a := startReplica(t, redis, nil)
	first := a.own(t, some("x"))
	redis.Hang(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := a.Release(ctx, some("x"), first)
	redis.Resume(t)
	if !errors.Is(err, ErrUnavailable) {
		t.Errorf("Release: %v", err)
	}
	eventually(t, "Redis answers again", func() bool {
		o, err := a.Own(t.Context(), some("x"))
		if err == nil && !o.Here() {
			t.Errorf("%+v after %+v", o, first)
		}
		return err == nil
	})
}

// TestCertainAsksNoReplica: Certain costs no Redis command and no allocation.
func TestCertainAsksNoReplica(t *testing.T) {
	redis := redistest.Start(t)
	a := startReplica(t, redis, nil)
	o := a.own(t, some("x"))
	redis.Kill()
	if allocs := testing.AllocsPerRun(100, func() {
		if !a.Certain(o) {
			t.Fatal("the lease holds")
		}
	}); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
