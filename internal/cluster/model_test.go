package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
)

// modelSeeds is how many orders of events are tried.
const modelSeeds = 12

// modelHomes are the homes of a model.
var modelHomes = []Home{some("1"), some("2"), some("3")}

// model is a random order of events at three replicas over a network and a Redis in memory.
type model struct {
	t       *testing.T
	random  *rand.Rand
	memory  *memory
	write   *redisdb.Script
	all     []*modelled // that are not dead
	started int
	ending  sync.WaitGroup
	log     []string
}

// modelled is a replica, and what a table of homes would hold there.
type modelled struct {
	*Cluster
	name string
	db   *redisdb.DB
	held map[Home]*holding
}

type holding struct {
	owner Owner
	count int
}

func (m *model) say(format string, args ...any) {
	m.log = append(m.log, fmt.Sprintf("%s  ", time.Now().Format("04:05.000"))+fmt.Sprintf(format, args...))
}

func (m *model) fatalf(format string, args ...any) {
	m.t.Helper()
	m.t.Fatalf(format+"\n%s", append(args, strings.Join(m.log, "\n"))...)
}

// ServeHTTP serves what another replica forwards.
func (*modelled) ServeHTTP(http.ResponseWriter, *http.Request) {}

func (*modelled) ReleaseHome(string) {}

// start adds a replica.
func (m *model) start() {
	name := string(rune('a' + m.started))
	m.started++
	m.say("start %s", name)
	r := &modelled{name: name, db: m.memory.db(m.t, name), held: make(map[Home]*holding)}
	cfg, deps := Config{Listen: "10.0.0.1:1"}, Deps{DB: r.db, Key: []byte(testKey), Idle: time.Hour,
		Log: slog.New(slog.DiscardHandler)}
	c, err := newCluster(cfg, deps, usualTimes(), &host{memory: m.memory, name: name})
	if err != nil {
		m.fatalf("%v", err)
	}
	r.Cluster = c
	c.Start(r)
	m.all = append(m.all, r)
}

// remove ends a replica, in good order or not.
func (m *model) remove(r *modelled, orderly bool) {
	m.say("remove %s, orderly %t", r.name, orderly)
	m.all = slices.DeleteFunc(m.all, func(one *modelled) bool { return one == r })
	if orderly {
		for h, x := range r.held {
			_ = r.Release(m.t.Context(), h, x.owner)
		}
		r.Close(m.t.Context())
		r.db.Close()
		return
	}
	m.memory.kill(r.name)
	m.memory.block(r.name, redisHost, true)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	m.ending.Go(func() { // none sees it any more
		r.Close(ctx)
		r.db.Close()
	})
}

// use is a request for a home: it claims it, unless it is certainly here, and writes under the fence.
func (m *model) use(r *modelled, h Home) {
	x := r.held[h]
	if x == nil || !r.Certain(x.owner) {
		o, err := r.Own(m.t.Context(), h)
		m.say("%s owns %s: %v %v", r.name, h.ID, o, err)
		switch {
		case err != nil:
			return
		case !o.Here():
			delete(r.held, h)
			if m.forward(r, o.Replica, h) == nil {
				return
			}
			if o, err = r.Own(m.t.Context(), h); err != nil || !o.Here() {
				return
			}
		}
		if x == nil || x.owner.Epoch != o.Epoch {
			x = &holding{count: -1} // is to be loaded
		}
		x.owner = o
		r.held[h] = x
	}
	got, err := r.db.Run(m.t.Context(), m.write, []string{homeKey(r.db, h), r.db.Key("c:" + h.ID)}, x.owner.Epoch, x.count)
	count, _ := got.(int64)
	m.say("%s writes %s: %v %v after %d", r.name, h.ID, got, err, x.count)
	switch {
	case err != nil:
		delete(r.held, h) // it is not known whether it was written
	case count == 0:
		delete(r.held, h)
	case count < 0:
		m.fatalf("%s wrote %s although another one had written: %d after %d", r.name, h.ID, count, x.count)
	default:
		x.count = int(count)
	}
}

// forward sends a request to the owner, as far as it can be reached.
func (m *model) forward(r *modelled, to string, h Home) error {
	err := r.Forward(httptest.NewRecorder(), httptest.NewRequestWithContext(m.t.Context(), "GET", "/", nil), to,
		h.Key(), nil)
	m.say("%s forwards to %s: %v", r.name, to, err)
	return err
}

// modelWrite writes under the fence. It returns the new count, 0 if the fence refuses, or the negative
// count if another owner has written another one than the writer has. A writer with -1 has none. An
// earlier write of the same owner may come late.
const modelWrite = `#!lua
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local count = tonumber(redis.call('HGET', KEYS[2], 'count') or '1')
if ARGV[2] ~= '-1' and tonumber(ARGV[2]) ~= count and redis.call('HGET', KEYS[2], 'by') ~= ARGV[1] then return -count end
redis.call('HSET', KEYS[2], 'count', count + 1, 'by', ARGV[1])
return count + 1`

// TestModel: whatever happens, in whatever order, no two replicas write for a home, and none is certain
// of a home that another one has taken over that it knows and asks. While no replica reaches Redis,
// homes stay where they are. When all is well again, each home has one owner.
func TestModel(t *testing.T) {
	for seed := range uint64(modelSeeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runModel(t, seed) })
		})
	}
}

func runModel(t *testing.T, seed uint64) {
	m := &model{t: t, random: rand.New(rand.NewPCG(seed, 0)), memory: newMemory(t), write: redisdb.NewScript(modelWrite)}
	defer func() {
		m.heal()
		for len(m.all) > 0 {
			m.remove(m.all[0], true)
		}
		m.ending.Wait()
		m.memory.end()
	}()
	for range 3 {
		m.start()
	}
	for range 60 {
		m.event()
		m.check()
	}
	m.outage()
	m.death()
	m.well()
}

func (m *model) any() *modelled { return m.all[m.random.IntN(len(m.all))] }

func (m *model) anyHome() Home { return modelHomes[m.random.IntN(len(modelHomes))] }

// event has something happen.
func (m *model) event() {
	r, other := m.any(), m.any()
	switch m.random.IntN(13) {
	default:
		for _, h := range modelHomes {
			m.use(m.any(), h)
		}
	case 0:
		m.renew(r)
	case 1, 2, 3:
		m.cut(r.name, redisHost)
	case 4:
		m.cut(r.name, other.name)
	case 5:
		m.heal()
	case 6:
		m.remove(r, m.random.IntN(2) == 0)
		m.start()
	case 10:
		m.say("%s reaches Redis", r.name)
		m.memory.block(r.name, redisHost, false)
	case 7, 8:
		m.sleep(time.Duration(m.random.Int64N(int64(14 * time.Second))))
	case 9:
		m.say("%s renews nothing for a while", r.name)
		select {
		case r.members.turn <- struct{}{}:
			m.sleep(12 * time.Second)
			<-r.members.turn
		case <-time.After(time.Second):
		}
	}
}

func (m *model) cut(a, b string) {
	m.say("%s and %s are cut off from each other", a, b)
	m.memory.block(a, b, true)
}

// sleep has time pass in the synctest bubble.
func (m *model) sleep(d time.Duration) {
	m.say("%s pass", d)
	time.Sleep(d)
}

func (m *model) heal() {
	m.say("all is well again")
	for _, a := range m.all {
		m.memory.block(a.name, redisHost, false)
		for _, b := range m.all {
			m.memory.block(a.name, b.name, false)
		}
	}
}

// renew renews what a replica holds.
func (m *model) renew(r *modelled) {
	for h, x := range r.held {
		o, err := r.Renew(m.t.Context(), h, x.owner)
		m.say("%s renews %s: %v %v", r.name, h.ID, o, err)
		switch {
		case errors.Is(err, ErrMoved) || err == nil && !o.Here():
			delete(r.held, h)
		case err == nil && o.Epoch != x.owner.Epoch: // another one may have had it in between
			r.held[h] = &holding{owner: o, count: -1}
		case err == nil:
			x.owner = o
		}
	}
}

// check fails if a replica is certain of a home that another one has taken over whom it knows, and
// could have asked. Then it has the replicas renew what is in doubt, as a table does.
func (m *model) check() {
	for _, h := range modelHomes {
		at, _ := m.memory.redis.Get(homeKey(m.all[0].db, h))
		for _, r := range m.all {
			x := r.held[h]
			if owner, _, _ := strings.Cut(at, "."); x != nil && r.Certain(x.owner) && at != x.owner.Epoch && r.Present(owner) {
				m.fatalf("%s is certain of %s, which %s has", r.name, h.ID, at)
			}
		}
	}
	for _, r := range m.all {
		select {
		case <-r.Lapsed():
			m.renew(r)
		default:
		}
	}
}

// owners has all homes be owned, and returns by whom.
func (m *model) owners() map[Home]*modelled {
	owners := make(map[Home]*modelled)
	for _, h := range modelHomes {
		for _, r := range m.all {
			m.use(r, h)
			if r.held[h] == nil {
				continue
			}
			if owners[h] != nil {
				m.fatalf("%s and %s both have %s", owners[h].name, r.name, h.ID)
			}
			owners[h] = r
		}
		if owners[h] == nil {
			m.fatalf("no replica has %s", h.ID)
		}
	}
	return owners
}

// well: some time after all is well, each home has one owner.
func (m *model) well() map[Home]*modelled {
	m.heal()
	m.sleep(40 * time.Second)
	m.check()
	return m.owners()
}

// outage: while no replica reaches Redis, and one without homes dies, all homes stay where they are.
func (m *model) outage() {
	owners := m.well()
	tokens := make(map[Home]string)
	for h, r := range owners {
		tokens[h] = r.held[h].owner.Epoch
	}
	m.say("no replica reaches Redis")
	for _, r := range m.all {
		m.memory.block(r.name, redisHost, true)
	}
	for i := range 12 {
		m.sleep(time.Duration(m.random.Int64N(int64(5 * time.Second))))
		for h, r := range owners {
			if !r.Certain(r.held[h].owner) {
				m.fatalf("%s is not certain of %s any more", r.name, h.ID)
			}
		}
		for _, r := range m.all {
			if i == 6 && len(r.held) == 0 {
				m.remove(r, false)
				break
			}
		}
	}
	m.heal()
	for range 20 {
		m.sleep(time.Duration(m.random.Int64N(int64(time.Second))))
		m.check()
		m.use(m.any(), m.anyHome())
	}
	m.well()
	for h, r := range owners {
		if x := r.held[h]; x == nil || x.owner.Epoch != tokens[h] {
			m.fatalf("%s has lost %s: %v", r.name, h.ID, x)
		}
	}
}

// death: when a replica refuses connections, the next one that is asked has its homes at once.
func (m *model) death() {
	owners := m.well()
	for h, r := range owners {
		m.remove(r, false)
		next := m.any()
		m.use(next, h)
		if next.held[h] == nil {
			m.fatalf("%s has not taken %s over", next.name, h.ID)
		}
		break
	}
}
