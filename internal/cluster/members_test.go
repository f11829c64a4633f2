package cluster

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

// TestNobodyCanTell: the homes of a replica without a lease are taken over only after our own
// lease has held for a whole lease. Until then the other replica may merely have been unable
// to renew.
func TestNobodyCanTell(t *testing.T) {
	redis := redistest.Start(t)
	began := time.Now()
	a := startReplica(t, redis, nil)
	client := redis.Client()
	defer client.Close()
	const former = "abcdefghij23"
	client.Set(t.Context(), homeKey(a.homes.db, some("x")), former+".1", 0)
	if _, err := a.Own(t.Context(), some("x")); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("at first: %v", err)
	}
	eventually(t, "it is taken over", func() bool {
		o, err := a.Own(t.Context(), some("x"))
		if err != nil {
			return false
		}
		if !o.Here() || counted(t, a.members.count.takeovers) != 1 {
			t.Errorf("%+v", o)
		}
		return true
	})
	if took := time.Since(began); took < shortTimes().lease {
		t.Errorf("after %s", took)
	}
}

// TestTakenToHaveGone: a replica that refused a connection but is alive learns of the homes it
// has lost, and counts as present again.
func TestTakenToHaveGone(t *testing.T) {
	redis := redistest.Start(t)
	a, b := startHouse(t, redis, sayWho), startHouse(t, redis, sayWho)
	a.own(t, some("x"))
	a.own(t, some("y"))
	b.own(t, some("x"))
	b.members.refuse(t.Context(), b.members.peer(a.Self()))
	if o := b.own(t, some("x")); !o.Here() {
		t.Errorf("%+v", o)
	}
	if took, gone := counted(t, b.members.count.takeovers), counted(t, b.members.count.replicasGone); took != 1 || gone != 1 {
		t.Errorf("%v takeovers from %v replicas are counted", took, gone)
	}
	eventually(t, "it knows what it has lost", func() bool { return !a.own(t, some("x")).Here() })
	if home := <-a.lost; home != "u1:x" {
		t.Errorf("lost %s", home)
	}
	eventually(t, "it is known again", func() bool { return b.members.peer(a.Self()) != nil })
	if who := b.get(t, "/u1/y"); who != a.Self() {
		t.Errorf("%s has what was not taken", who)
	}
	if who := a.get(t, "/u1/x"); who != b.Self() {
		t.Errorf("%s has what was", who)
	}
}

// TestBuriedUntilResigned: a lease that was read before it was deleted does not bring back the
// replica that has gone.
func TestBuriedUntilResigned(t *testing.T) {
	redis := redistest.Start(t)
	a, b := startHouse(t, redis, sayWho), startHouse(t, redis, sayWho)
	a.own(t, some("x"))
	b.own(t, some("x"))
	a.crash()
	p := b.members.peer(a.Self())
	if !b.members.bury(p, math.MaxInt64) {
		t.Fatal("it was not known")
	}
	b.members.look(t.Context(), b.members.now()) // another request asks at this moment
	if b.members.peer(a.Self()) != nil {
		t.Error("it is there again")
	}
	b.members.resignFor(t.Context(), p)
	b.members.look(t.Context(), b.members.now())
	if o := b.own(t, some("x")); !o.Here() {
		t.Errorf("%+v", o)
	}
}

// TestLateRenewal: the network holds a renewal back until the lease has ended and another replica
// has taken a home over. Redis then runs it. The next renewal finds that lease, but the replica
// learns that it was without one.
func TestLateRenewal(t *testing.T) {
	redis := redistest.Start(t)
	proxy := proxyTo(t, redis.Addr)
	a := startReplica(t, redis, nil, func(_ *Config, deps *Deps, times *times) {
		deps.DB = openDB(t, proxy.Addr())
		times.lease, times.beat = time.Hour, time.Hour // the lease holds here, and only this test renews it
	})
	client := redis.Client()
	defer client.Close()
	a.own(t, some("x"))
	renewals := func() float64 {
		return counted(t, a.members.count.leaseRenewed) + counted(t, a.members.count.leaseLate)
	}
	before := renewals()
	proxy.BlackHole()
	a.members.renew()
	if renewals() != before {
		t.Fatal("nothing holds the renewal back")
	}
	lease := a.members.db.Key(leasePrefix + a.Self())
	client.Del(t.Context(), lease)
	key, _ := a.Fence("u1:x")
	client.Set(t.Context(), key, "another.1", 0)
	proxy.Pass()
	eventually(t, "Redis runs the late renewal", func() bool { return client.Exists(t.Context(), lease).Val() == 1 })
	eventually(t, "a renewal succeeds", func() bool {
		a.members.renew()
		return renewals() > before
	})
	if counted(t, a.members.count.leaseLate) != 1 {
		t.Fatal("the lease counts as held all the time")
	}
	if home := <-a.lost; home != "u1:x" {
		t.Errorf("lost %s", home)
	}
}

// TestLapsedConnections: a replica whose lease had ended opens new connections to the others. They
// may have given up the old ones, and a request that meets the end of one may have been done.
func TestLapsedConnections(t *testing.T) {
	redis := redistest.Start(t)
	rare := func(_ *Config, _ *Deps, times *times) {
		times.lease, times.beat = time.Hour, time.Hour // only this test renews, and nothing else asks the others
	}
	a, b := startHouse(t, redis, sayWho, rare), startHouse(t, redis, sayWho, rare)
	b.own(t, some("x"))
	if who := a.get(t, "/u1/x"); who != b.Self() {
		t.Fatalf("%s answers", who)
	}
	client := redis.Client()
	defer client.Close()
	peer := a.members.peer(b.Self())
	if peer.conns.Load() == 0 {
		t.Fatal("no connection is open")
	}
	client.Del(t.Context(), a.members.db.Key(leasePrefix+a.Self()))
	a.members.renew()
	if counted(t, a.members.count.leaseLate) != 1 {
		t.Fatal("the lease counts as held all the time")
	}
	if n := peer.conns.Load(); n > 0 {
		t.Errorf("%d connections of before are open", n)
	}
	if who := a.get(t, "/u1/x"); who != b.Self() {
		t.Errorf("%s answers afterwards", who)
	}
}

// TestRevised: the lease names the revision of the configuration, also after a reload.
func TestRevised(t *testing.T) {
	redis := redistest.Start(t)
	a, b := startReplica(t, redis, nil), startReplica(t, redis, nil)
	a.Revised("r2")
	eventually(t, "the other one sees it", func() bool {
		peers := b.Peers()
		return len(peers) == 1 && peers[0].Revision == "r2"
	})
}

// TestManyNames: names that others write into the list do no harm, and names without a lease
// are forgotten.
func TestManyNames(t *testing.T) {
	redis := redistest.Start(t)
	a := startReplica(t, redis, nil)
	client := redis.Client()
	defer client.Close()
	names := a.members.db.Key(leaseNames)
	const many = "for i = 1, 3000 do redis.call('ZADD', KEYS[1], 0, '0' .. i) end return 1"
	if err := client.Eval(t.Context(), many, []string{names}).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "they are forgotten", func() bool { return client.ZCard(t.Context(), names).Val() == 1 })
	b := startReplica(t, redis, nil)
	a.own(t, some("x"))
	if o := b.own(t, some("x")); o.Replica != a.Self() {
		t.Errorf("%+v", o)
	}
}
