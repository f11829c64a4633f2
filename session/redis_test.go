package session_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/session"
	"github.com/gatehouse-mcp/gatehouse/session/sessiontest"
)

const (
	// slack is more than a test of the suite takes: Redis's time goes on meanwhile.
	slack = 30 * time.Second
	// patience bounds what has to happen soon: ten times the second or two that the
	// documentation promises.
	patience = 20 * time.Second
)

// replica is a store with a clock that can be moved on.
type replica struct {
	*session.Redis
	skew atomic.Int64
}

func newReplica(t *testing.T, url string, cfg session.Config, deps session.Deps) *replica {
	t.Helper()
	cfg.Store = session.StoreRedis
	cfg.Redis.URL = mcp.Secret(url)
	cfg.Key = "0123456789abcdef0123456789abcdef"
	r := &replica{}
	start := time.Now()
	var err error
	r.Redis, err = session.NewRedisAt(cfg, deps, func() time.Duration { return time.Since(start) + time.Duration(r.skew.Load()) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// age makes the copies too old to be served without asking.
func (r *replica) age() { r.skew.Add(int64(10 * time.Second)) }

func (r *replica) create(t *testing.T) session.Record {
	t.Helper()
	record, err := r.Create(t.Context(), session.Record{User: "alice", Revision: "r1", Initialized: true})
	if err != nil {
		t.Fatal(err)
	}
	return record
}

func (r *replica) want(t *testing.T, what string, record session.Record, want error) {
	t.Helper()
	if _, err := r.Get(t.Context(), record.User, record.ID); !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
}

// eventually waits for what has to happen soon.
func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(patience); !happened(); {
		select {
		case <-deadline:
			t.Fatalf("%s: it does not happen", what)
		case <-tick.C:
		}
	}
}

// The suite runs over a server, over one that a Sentinel knows, and over a Cluster, which
// refuses scripts whose keys are not on one node.
func TestRedis(t *testing.T) {
	t.Run("single", func(t *testing.T) {
		server := redistest.Start(t)
		runSuite(t, server.URL(), server.Advance)
	})
	t.Run("sentinel", func(t *testing.T) {
		server := redistest.Start(t)
		sentinel := redistest.StartSentinel(t, server, "gate")
		runSuite(t, "redis+sentinel://"+sentinel.Addr+"/0?master=gate", server.Advance)
	})
	t.Run("cluster", func(t *testing.T) {
		cluster := redistest.StartCluster(t)
		runSuite(t, cluster.URL(), cluster.Advance)
	})
}

func runSuite(t *testing.T, url string, advance func(testing.TB, time.Duration)) {
	runs := 0
	sessiontest.RunWith(t, func(t *testing.T, cfg session.Config, deps session.Deps) session.Store {
		runs++
		cfg.Redis = redisdb.Config{Prefix: fmt.Sprintf("gatehouse-%d:", runs)}
		return newReplica(t, url, cfg, deps)
	}, func(t *testing.T, store session.Store, d time.Duration) {
		r := store.(*replica)
		advance(t, d)
		r.skew.Add(int64(d))
		r.Sweep()
	}, slack)
}

// What one replica does to a session, the others see.
func TestReplicas(t *testing.T) {
	server := redistest.Start(t)
	var mu sync.Mutex
	ended := map[string]int{}
	newOne := func(name string) *replica {
		return newReplica(t, server.URL(), session.Config{}, session.Deps{OnEnd: func(key string) {
			mu.Lock()
			defer mu.Unlock()
			ended[name+" "+key]++
		}})
	}
	a, b := newOne("a"), newOne("b")
	r := a.create(t)
	b.want(t, "H/48 the other replica knows it", r, nil)

	if _, err := b.Update(t.Context(), r.User, r.ID, func(r *session.Record) { r.LogLevel = "debug" }); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a hears of the change", func() bool {
		got, err := a.Get(t.Context(), r.User, r.ID)
		return err == nil && got.LogLevel == "debug"
	})

	unused := a.create(t)
	b.want(t, "the unused one", unused, nil)
	for range 3 { // one replica's use keeps it for the other
		server.Advance(t, 20*time.Minute)
		a.skew.Add(int64(20 * time.Minute))
		b.skew.Add(int64(20 * time.Minute))
		b.want(t, "used at b", r, nil)
		a.Sweep()
		b.Sweep()
	}
	// There is no age at which a session that is used ends: each request needs a token, which
	// has one.
	mu.Lock()
	for _, who := range []string{"a ", "b "} {
		if ended[who+r.Key()] != 0 || ended[who+unused.Key()] != 1 {
			t.Errorf("H/46 at %s: ended %d and %d times, want 0 and 1", who, ended[who+r.Key()], ended[who+unused.Key()])
		}
	}
	mu.Unlock()

	a.want(t, "H/48 still at a", r, nil)
	if err := b.Delete(t.Context(), r.User, r.ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, "P9/56 a hears of the end", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return ended["a "+r.Key()] == 1
	})
	a.want(t, "P9/56 after the end", r, session.ErrNotFound)

	// H/47: whoever starts later knows what there is.
	r = a.create(t)
	newOne("c").want(t, "H/47 a replica that starts later", r, nil)
	if got, err := newOne("d").Update(t.Context(), r.User, r.ID, func(r *session.Record) {}); err != nil || !got.Initialized {
		t.Errorf("H/47 an update there: %+v, %v", got, err)
	}
}

// Changes at two replicas at a time are all kept.
func TestReplicasUpdate(t *testing.T) {
	server := redistest.Start(t)
	a := newReplica(t, server.URL(), session.Config{}, session.Deps{})
	b := newReplica(t, server.URL(), session.Config{}, session.Deps{})
	r := a.create(t)
	var wg sync.WaitGroup
	for i, s := range []*replica{a, b} {
		wg.Go(func() {
			for n := range 50 {
				if _, err := s.Update(t.Context(), r.User, r.ID, func(r *session.Record) {
					r.Subscriptions = append(r.Subscriptions, fmt.Sprint(i, " ", n))
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got, err := a.Update(t.Context(), r.User, r.ID, func(*session.Record) {})
	if err != nil || len(got.Subscriptions) != 100 {
		t.Errorf("%d of 100 changes, %v", len(got.Subscriptions), err)
	}
}

// A stream that one replica writes is followed at another.
func TestReplicasFollow(t *testing.T) {
	server := redistest.Start(t)
	a := newReplica(t, server.URL(), session.Config{}, session.Deps{})
	b := newReplica(t, server.URL(), session.Config{}, session.Deps{})
	r := a.create(t)
	first, err := a.Log().Append(t.Context(), r.Key(), "s", []byte("one"))
	if err != nil {
		t.Fatal(err)
	}
	const events = 100
	var wg sync.WaitGroup
	wg.Go(func() {
		for range events {
			if _, err := a.Log().Append(t.Context(), r.Key(), "s", []byte("more")); err != nil {
				t.Error(err)
			}
		}
		if err := a.Log().End(t.Context(), r.Key(), "s"); err != nil {
			t.Error(err)
		}
	})
	seen, after := 0, first
	for ended := false; !ended; {
		var list []session.Event
		var more <-chan struct{}
		list, ended, more, err = b.Log().Read(t.Context(), r.Key(), "s", after)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			seen, after = seen+1, e.Seq
		}
		if !ended {
			<-more
		}
	}
	wg.Wait()
	if seen != events {
		t.Errorf("P9/63 the other replica saw %d of %d events", seen, events)
	}
}

func TestMailbox(t *testing.T) {
	server := redistest.Start(t)
	mail := make(chan string, 10)
	newOne := func(name string) *replica {
		return newReplica(t, server.URL(), session.Config{}, session.Deps{OnMail: func(m []byte) { mail <- name + " got " + string(m) }})
	}
	a, b := newOne("a"), newOne("b")
	if a.Self() == b.Self() || strings.Trim(a.Self(), "abcdefghijklmnopqrstuvwxyz234567") != "" {
		t.Errorf("names: %q and %q", a.Self(), b.Self())
	}
	if err := a.Send(t.Context(), b.Self(), []byte("to b")); err != nil {
		t.Fatal(err)
	}
	if got := <-mail; got != "b got to b" {
		t.Errorf("got %q", got)
	}
	if err := b.Broadcast(t.Context(), []byte("to all")); err != nil {
		t.Fatal(err)
	}
	if got := <-mail; got != "a got to all" {
		t.Errorf("got %q", got)
	}
	// H/185 rather than lose the listeners, what is large does not go through a channel.
	large := strings.Repeat("x", 3<<20)
	if err := b.Send(t.Context(), a.Self(), []byte(large)); err != nil {
		t.Fatal(err)
	}
	if got := <-mail; got != "a got "+large {
		t.Errorf("a large message came as %d bytes", len(got))
	}
	if len(mail) > 0 {
		t.Errorf("its own broadcast came back: %q", <-mail)
	}
}

// Redis away, hanging, empty: what is known goes on, nothing is told to be missing that
// may be there, and all heals by itself.
func TestRedisFaults(t *testing.T) {
	server := redistest.Start(t)
	s := newReplica(t, server.URL(), session.Config{}, session.Deps{})
	other := newReplica(t, server.URL(), session.Config{}, session.Deps{})
	known, unknown := s.create(t), other.create(t)
	unavailable := func(what string) {
		t.Helper()
		s.age()
		s.want(t, what+": H/178 a known session goes on", known, nil)
		s.want(t, what+": H/178 an unknown one is not said to be missing", unknown, session.ErrUnavailable)
		if _, err := s.Create(t.Context(), session.Record{User: "alice"}); !errors.Is(err, session.ErrUnavailable) {
			t.Errorf("%s: H/177 a new one: %v", what, err)
		}
		if _, err := s.Update(t.Context(), known.User, known.ID, func(*session.Record) {}); !errors.Is(err, session.ErrUnavailable) {
			t.Errorf("%s: H/178 nothing written is claimed as written: %v", what, err)
		}
		if err := s.Delete(t.Context(), known.User, known.ID); !errors.Is(err, session.ErrUnavailable) {
			t.Errorf("%s: delete: %v", what, err)
		}
		if _, err := s.Log().Append(t.Context(), known.Key(), "s", []byte("lost")); !errors.Is(err, session.ErrUnavailable) {
			t.Errorf("%s: an event: %v", what, err)
		}
	}
	healed := func(what string) {
		t.Helper()
		eventually(t, what+": heals", func() bool {
			r, err := s.Create(t.Context(), session.Record{User: "alice"})
			return err == nil && s.Delete(t.Context(), "alice", r.ID) == nil
		})
	}
	first, err := s.Log().Append(t.Context(), known.Key(), "s", []byte("kept"))
	if err != nil {
		t.Fatal(err)
	}

	server.Hang(t)
	start := time.Now()
	unavailable("H/179 hanging")
	took := time.Since(start)
	server.Resume(t)
	// One of them waits for two seconds, and the others not at all for another one each time.
	if took > 10*time.Second {
		t.Errorf("H/179: what Redis did not answer took %s", took)
	}
	healed("hanging")
	s.want(t, "what was there before", unknown, nil)
	if _, err := s.Log().Append(t.Context(), known.Key(), "s", []byte("next")); err != nil {
		t.Fatal(err)
	}
	if events, _, _, err := s.Log().Read(t.Context(), known.Key(), "s", first); !errors.Is(err, session.ErrGap) || len(events) == 0 {
		t.Errorf("a lost event leaves a gap: %d events, %v", len(events), err)
	}

	server.Kill()
	unknown.ID = strings.Repeat("A", 26)
	unavailable("H/180 down")
	server.Restart(t)
	healed("down")
	s.age()
	s.want(t, "H/183 an empty Redis has lost it", known, session.ErrNotFound)
}

func TestRedisDownAtStart(t *testing.T) {
	server := redistest.Start(t)
	server.Kill()
	s := newReplica(t, server.URL(), session.Config{}, session.Deps{})
	if _, err := s.Create(t.Context(), session.Record{User: "alice"}); !errors.Is(err, session.ErrUnavailable) {
		t.Errorf("H/177 got %v", err)
	}
	server.Restart(t)
	eventually(t, "H/177 heals", func() bool {
		_, err := s.Create(t.Context(), session.Record{User: "alice"})
		return err == nil
	})
}

func TestRedisFull(t *testing.T) {
	server := redistest.Start(t)
	s := newReplica(t, server.URL(), session.Config{}, session.Deps{})
	r := s.create(t)
	client := server.Client()
	defer client.Close()
	set := func(name, value string) {
		t.Helper()
		if err := client.ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set("maxmemory", "1")
	if _, err := s.Create(t.Context(), session.Record{User: "alice"}); !errors.Is(err, session.ErrUnavailable) {
		t.Errorf("H/185 a new session: %v", err)
	}
	s.age()
	s.want(t, "H/185 a known one goes on", r, nil)
	if !s.DB().Full() {
		t.Error("H/185 nobody knows that it is full")
	}
	set("maxmemory", "0")
	if s.Sweep(); s.DB().Full() {
		t.Error("H/185 there is room again, and nobody finds out")
	}
	s.create(t)

	set("min-replicas-to-write", "1") // as read-only as it gets without a master
	if _, err := s.Create(t.Context(), session.Record{User: "alice"}); !errors.Is(err, session.ErrUnavailable) {
		t.Errorf("H/182 read-only, a new session: %v", err)
	}
	s.age()
	s.want(t, "H/182 read-only, a known one goes on", r, nil)
	set("min-replicas-to-write", "0")
	s.create(t)
}

// H/184: a Redis that may drop sessions is warned of at the start, and no other.
func TestRedisThatEvicts(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	defer client.Close()
	for policy, want := range map[string]bool{"allkeys-lru": true, "volatile-ttl": true, "noeviction": false} {
		if err := client.ConfigSet(t.Context(), "maxmemory-policy", policy).Err(); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		newReplica(t, server.URL(), session.Config{}, session.Deps{Log: slog.New(slog.NewTextHandler(&log, nil))}).Close()
		if warned := strings.Contains(log.String(), "level=WARN") && strings.Contains(log.String(), "maxmemory-policy="+policy); warned != want {
			t.Errorf("H/184 %s: %s", policy, log.String())
		}
	}
}

// What stands where a session should be and is none.
func TestRedisForeignValues(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	defer client.Close()
	ctx := context.Background()
	tests := []struct {
		name  string
		spoil func(key, other string) error
		want  error
	}{
		{"H/186 another type", func(key, _ string) error {
			return errors.Join(client.Del(ctx, key).Err(), client.Set(ctx, key, "text", 0).Err())
		}, session.ErrNotFound},
		{"H/186 garbage", func(key, _ string) error { return client.HSet(ctx, key, "v", "{").Err() }, session.ErrNotFound},
		{"H/186 an unsealed one", func(key, _ string) error {
			return client.HSet(ctx, key, "v", `{"version":1,"revision":"r1","initialized":true,"created":"2026-01-01T00:00:00Z"}`).Err()
		}, session.ErrNotFound},
		{"H/187 another session's", func(key, other string) error {
			value, err := client.HGet(ctx, other, "v").Result()
			return errors.Join(err, client.HSet(ctx, key, "v", value).Err())
		}, session.ErrNotFound},
		{"H/184 evicted", func(key, _ string) error { return client.Del(ctx, key).Err() }, session.ErrNotFound},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			writer := newReplica(t, server.URL(), session.Config{}, session.Deps{})
			r, other := writer.create(t), writer.create(t)
			key := func(r session.Record) string { return "gatehouse:s:{alice}:" + r.ID }
			if err := tt.spoil(key(r), key(other)); err != nil {
				t.Fatal(err)
			}
			reader := newReplica(t, server.URL(), session.Config{}, session.Deps{})
			reader.want(t, "the spoilt one", r, tt.want)
			reader.want(t, "the other one", other, nil)
		})
	}
}

// H/188, H/189: no raw claim, id or pattern of a client becomes a part of a key.
func TestRedisKeys(t *testing.T) {
	server := redistest.Start(t)
	s := newReplica(t, server.URL(), session.Config{Redis: redisdb.Config{Prefix: "mine:"}}, session.Deps{})
	for _, user := range []string{"alice", "a}b{c", "*", "a:b", "a b"} {
		r, err := s.Create(t.Context(), session.Record{User: user})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Log().Append(t.Context(), r.Key(), "c-1", []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	client := server.Client()
	defer client.Close()
	keys, err := client.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	mine := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return strings.HasPrefix(key, "mine:r:") }) // the replica's lease
	if len(mine) != 5*5 {
		t.Errorf("%d keys, want 5 for each session: %q", len(mine), mine)
	}
	for _, key := range keys {
		if !strings.HasPrefix(key, "mine:") || strings.Count(key, "{") != 1 || strings.Count(key, "}") != 1 || strings.ContainsAny(key, " *") {
			t.Errorf("key %q", key)
		}
		if left, err := client.PTTL(t.Context(), key).Result(); err != nil || left <= 0 || left > time.Hour {
			t.Errorf("key %q lasts %s, %v", key, left, err)
		}
	}
	before, err := client.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"*", "../x", strings.Repeat("x", 10_000), "a}b"} {
		if _, err := s.Get(t.Context(), "alice", id); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("H/43 id %.20q: %v", id, err)
		}
	}
	if after, err := client.Info(t.Context(), "commandstats").Result(); err != nil || evals(after) != evals(before) {
		t.Errorf("H/43 Redis was asked for ids that nobody was given (%v)", err)
	}
}

// evals is the line of EVALSHA's statistics.
func evals(stats string) string {
	for line := range strings.Lines(stats) {
		if strings.HasPrefix(line, "cmdstat_evalsha:") {
			return line
		}
	}
	return ""
}

// A session that was used in the last seconds costs no round trip.
func TestRedisCopies(t *testing.T) {
	server := redistest.Start(t)
	s := newReplica(t, server.URL(), session.Config{}, session.Deps{})
	r := s.create(t)
	client := server.Client()
	defer client.Close()
	count := func() string {
		stats, err := client.Info(t.Context(), "commandstats").Result()
		if err != nil {
			t.Fatal(err)
		}
		return evals(stats)
	}
	before := count()
	for range 100 {
		s.want(t, "within seconds", r, nil)
	}
	if after := count(); after != before {
		t.Errorf("calls of a known session ask Redis: %s, then %s", before, after)
	}
	s.age()
	s.want(t, "later", r, nil)
	if count() == before {
		t.Error("Redis never hears that the session is used")
	}
}

// What was shown at one replica was shown at all of them.
func TestRedisGrants(t *testing.T) {
	server := redistest.Start(t)
	a := newReplica(t, server.URL(), session.Config{}, session.Deps{})
	b := newReplica(t, server.URL(), session.Config{}, session.Deps{})
	one, other := a.Grants(), b.Grants()
	r := a.create(t)
	const derived = "alice:~0123456789abcdef"
	for key, ttl := range map[string]time.Duration{r.Key(): 0, derived: time.Hour} {
		if err := one.Grant(t.Context(), key, map[string]string{"a": "x", "b": "with spaces"}, ttl); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what, key, tool, digest string, want bool) {
		t.Helper()
		if ok, err := other.Granted(t.Context(), key, tool, digest); ok != want || err != nil {
			t.Errorf("%s: %t, %v, want %t", what, ok, err, want)
		}
	}
	want("a session's", r.Key(), "a", "x", true)
	want("another of it", r.Key(), "b", "with spaces", true)
	want("a derived one's", derived, "a", "x", true)
	want("another definition", r.Key(), "a", "y", false)
	want("another tool", r.Key(), "c", "x", false)
	want("another session's", a.create(t).Key(), "a", "x", false)
	server.Advance(t, 20*time.Minute)
	want("in use", r.Key(), "a", "x", true)
	server.Advance(t, 20*time.Minute)
	want("in use all the time", r.Key(), "a", "x", true)
	server.Advance(t, 30*time.Minute)
	want("a derived one's after its time", derived, "a", "x", false)
	r = a.create(t)
	if err := one.Grant(t.Context(), r.Key(), map[string]string{"a": "x"}, 0); err != nil {
		t.Fatal(err)
	}
	if err := a.Delete(t.Context(), r.User, r.ID); err != nil {
		t.Fatal(err)
	}
	want("after the session's end", r.Key(), "a", "x", false)
	server.Kill()
	if ok, err := other.Granted(t.Context(), r.Key(), "a", "x"); ok || !errors.Is(err, session.ErrUnavailable) {
		t.Errorf("without Redis, what was shown elsewhere: %t, %v", ok, err) // nobody can know
	}
	if ok, err := one.Granted(t.Context(), derived, "a", "x"); !ok || err != nil {
		t.Errorf("without Redis, what was shown here: %t, %v", ok, err)
	}
}

func FuzzRedisRecord(f *testing.F) {
	f.Add([]byte(`{"version":1,"revision":"r","created":"2026-01-01T00:00:00Z"}`))
	f.Add([]byte(`{"version":2,"revision":"r","created":"2026-01-01T00:00:00Z"}`))
	f.Add([]byte(`{"version":1,"caps":"{}","subscriptions":["a"],"created":""}`))
	f.Add([]byte("{"))
	f.Fuzz(func(t *testing.T, value []byte) {
		r, err := session.Decode(string(value), "alice", "x")
		if err == nil && (r.User != "alice" || r.ID != "x" || r.Key() != "alice:x") {
			t.Errorf("%s became %+v", value, r)
		}
	})
}
