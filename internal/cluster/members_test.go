package cluster

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

// TestNobodyCanTell: the homes of a replica without a lease are taken over only after our own
// lease has held for a whole lease. Until then the other replica may merely have been unable
// to renew.
func TestNobodyCanTell(t *testing.T) {
	redis := redistest.Start(t)
	began := time.Now()
	a := startReplica(t, redis, nil, hasty)
	client := redis.Client()
	defer client.Close()
	const former = "abcdefghij23"
	client.Set(t.Context(), homeKey(a.db, some("x")), former+".1", 0)
	if _, err := a.Own(t.Context(), some("x")); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("at first: %v", err)
	}
	eventually(t, "it is taken over", func() bool {
		o, err := a.Own(t.Context(), some("x"))
		if err != nil {
			return false
		}
		if !o.Here() || o.Former != former {
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
	first := a.own(t, some("x"))
	a.own(t, some("y"))
	b.own(t, some("x"))
	b.members.markGone(t.Context(), b.members.peer(a.Self()))
	if o := b.own(t, some("x")); !o.Here() || o.Former != a.Self() {
		t.Errorf("%+v", o)
	}
	if gone := counted(t, b.members.count.replicasGone); gone != 1 {
		t.Errorf("%v replicas are counted", gone)
	}
	<-a.Lapsed()
	if a.Certain(first) {
		t.Error("it does not know what it may have lost")
	}
	eventually(t, "it is known again", func() bool { return b.members.peer(a.Self()) != nil })
	if who := b.get(t, "/u1/y"); who != a.Self() {
		t.Errorf("%s has what was not taken", who)
	}
	if who := a.get(t, "/u1/x"); who != b.Self() {
		t.Errorf("%s has what was", who)
	}
}

// TestBuried: once a replica has found another one gone, so do all, also those that have just started
// and those that did not know it.
func TestBuried(t *testing.T) {
	redis := redistest.Start(t)
	long := func(_ *Config, _ *Deps, t *times) { t.lease, t.beat = time.Hour, time.Hour }
	a, b, c := startReplica(t, redis, nil, long), startReplica(t, redis, nil, long), startReplica(t, redis, nil, long)
	a.own(t, some("x"))
	a.own(t, some("y"))
	b.own(t, some("x"))
	a.crash()
	b.members.markGone(t.Context(), b.members.peer(a.Self()))
	if b.Present(a.Self()) || !c.Present(a.Self()) {
		t.Error("one knows it, and the other one has not asked yet")
	}
	c.members.look(t.Context(), c.members.now())
	if c.Present(a.Self()) || len(c.Missing()) != 1 {
		t.Error("the other one does not know it")
	}
	if o := startReplica(t, redis, nil, long).own(t, some("y")); !o.Here() || o.Former != a.Self() {
		t.Errorf("a new one: %+v", o)
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
	o := a.own(t, some("x"))
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
	client.Set(t.Context(), homeKey(a.db, some("x")), "another.1", 0)
	proxy.Pass()
	eventually(t, "Redis runs the late renewal", func() bool { return client.Exists(t.Context(), lease).Val() == 1 })
	eventually(t, "a renewal succeeds", func() bool {
		a.members.renew()
		return renewals() > before
	})
	if counted(t, a.members.count.leaseLate) != 1 {
		t.Fatal("the lease counts as held all the time")
	}
	if _, err := a.Renew(t.Context(), some("x"), o); a.Certain(o) || !errors.Is(err, ErrMoved) {
		t.Errorf("the home is still this replica's: %v", err)
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
	a := startReplica(t, redis, nil, hasty)
	client := redis.Client()
	defer client.Close()
	names := a.members.db.Key(leaseNames)
	const many = "for i = 1, 3000 do redis.call('ZADD', KEYS[1], 0, '0' .. i) end return 1"
	if err := client.Eval(t.Context(), many, []string{names}).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "they are forgotten", func() bool { return client.ZCard(t.Context(), names).Val() == 1 })
	b := startReplica(t, redis, nil, hasty)
	a.own(t, some("x"))
	if o := b.own(t, some("x")); o.Replica != a.Self() {
		t.Errorf("%+v", o)
	}
}

// TestSettled: a missing lease means something once our own has held for a whole lease.
func TestSettled(t *testing.T) {
	type beat struct {
		asked    int // seconds
		failed   bool
		anew     bool // Redis had no lease, or one that began since
		lapsed   bool // the wanted result
		settled  bool
		heldThen int // when the lease then ends, in seconds
	}
	ok := func(asked int, settled bool) beat {
		return beat{asked: asked, settled: settled, heldThen: asked + 10}
	}
	first := beat{asked: 1, anew: true, heldThen: 11}
	tests := []struct {
		name  string
		beats []beat
	}{
		{"it settles", []beat{first, ok(3, false), ok(5, false), ok(9, false), ok(11, true), ok(13, true)}},
		{"one that fails is a break", []beat{first, ok(6, false), {asked: 8, failed: true, heldThen: 16}, ok(11, false),
			ok(20, false), ok(21, true)}},
		{"it was deleted", []beat{first, ok(6, false), ok(11, true), {asked: 13, anew: true, lapsed: true, heldThen: 23},
			ok(22, false), ok(23, true)}},
		{"it lapsed here", []beat{first, ok(6, false), ok(11, true), {asked: 21, lapsed: true, heldThen: 31},
			ok(30, false), ok(31, true)}},
		{"Redis was away", []beat{first, ok(9, false), {asked: 11, failed: true, heldThen: 19},
			{asked: 19, failed: true, heldThen: 19},
			{asked: 21, anew: true, lapsed: true, heldThen: 31}, ok(30, false), ok(31, true)}},
		{"Redis was not there at first", []beat{{asked: 1, failed: true}, {asked: 3, anew: true, heldThen: 13},
			ok(12, false), ok(13, true)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := &members{times: usualTimes(), log: slog.New(slog.DiscardHandler), count: NewMetrics(nil), since: broken}
			began := int64(0)
			for i, b := range tt.beats {
				if b.anew {
					began++
				}
				lapses := m.generation.Load()
				if b.failed {
					m.since = broken
				} else {
					m.renewed(time.Duration(b.asked)*time.Second, began, nil)
				}
				lapsed, held := m.generation.Load() > lapses, time.Duration(m.sure.Load())
				if lapsed != b.lapsed || m.settled() != b.settled || held != time.Duration(b.heldThen)*time.Second {
					t.Errorf("beat %d at %d s: lapsed %t, settled %t, held until %s; want %+v", i, b.asked, lapsed, m.settled(),
						held, b)
				}
			}
		})
	}
}

// TestMissing: who went without leaving is missed until another one comes, or for an hour.
func TestMissing(t *testing.T) {
	for _, tt := range []struct {
		name   string
		events string // -name: went, ~name: went while it was leaving, +name: came
		want   string
	}{
		{"none went", "+a +b", ""},
		{"one went", "-a", "a"},
		{"one left", "~a", ""},
		{"replaced", "-a +b", ""},
		{"one of two is replaced", "-a -b +c", "b"},
		{"the second is back", "-a -b +b", "a"},
		{"more came than went", "-a +b +c", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &Cluster{members: &members{}}
				for event := range strings.FieldsSeq(tt.events) {
					p := &peer{name: event[1:]}
					switch event[0] {
					case '+':
						c.members.came(p.name)
					case '~':
						p.lease.Leaving = true
						fallthrough
					default:
						c.members.went(p)
					}
				}
				time.Sleep(missedFor - 1)
				var got []string
				for _, one := range c.Missing() {
					got = append(got, one.Name)
				}
				time.Sleep(time.Nanosecond)
				if strings.Join(got, " ") != tt.want || len(c.Missing()) != 0 {
					t.Errorf("%q, want %q", got, tt.want)
				}
			})
		})
	}
	var m members
	for range maxReplicas + 5 {
		m.went(&peer{name: "x"})
	}
	if len(m.missed) != maxReplicas {
		t.Errorf("%d are missed", len(m.missed))
	}
}
