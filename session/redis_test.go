package session_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/session"
	"github.com/gatehouse-mcp/gatehouse/session/sessiontest"
)

const (
	// slack is longer than any test of the suite takes, since Redis's clock goes on during the
	// test.
	slack = 30 * time.Second
	// patience bounds the wait for what must happen soon: ten times the second or two that the
	// documentation promises.
	patience = 20 * time.Second
)

// replica is a store with a clock that the test can advance. It takes over what it is asked for from
// any other replica, as if that one had gone.
type replica struct {
	*session.Redis
	sessiontest.Sessions
	skew atomic.Int64
}

func newReplica(t *testing.T, url string, cfg session.Config, deps session.Deps) *replica {
	t.Helper()
	cfg.Store = session.StoreRedis
	cfg.Redis.URL = mcp.Secret(url)
	cfg.Key = cmp.Or(cfg.Key, "0123456789abcdef0123456789abcdef")
	r := &replica{}
	start := time.Now()
	var err error
	r.Redis, err = session.NewRedisAt(cfg, deps,
		func() time.Duration { return time.Since(start) + time.Duration(r.skew.Load()) })
	if err != nil {
		t.Fatal(err)
	}
	r.Sessions = sessiontest.Sessions{Store: r.Redis}
	deps.Homes.Owners, err = cluster.New(cluster.Config{Alone: true}, cluster.Deps{DB: r.DB(), Idle: cfg.Kept()})
	if err != nil {
		t.Fatal(err)
	}
	r.Open(deps)
	t.Cleanup(r.close)
	return r
}

func (r *replica) close() {
	r.Homes().Close(context.Background())
	r.Redis.Close()
}

// Homes resolves which of both it is.
func (r *replica) Homes() *home.Table { return r.Redis.Homes() }

// drop gives up the home of a session, unless another replica has taken it over.
func (r *replica) drop(key string) { r.Homes().Release(home.ParseKey(key)) }

// use uses a session once.
func (r *replica) use(t *testing.T, key string) {
	t.Helper()
	if err := r.Use(t.Context(), home.ParseKey(key), func(*home.Home) error { return nil }); err != nil {
		t.Fatal(err)
	}
}

// homeOf is the key in Redis that names the owner of a session.
func homeOf(r session.Record) string { return "gatehouse:h:{" + r.User + "}:" + r.ID }

func (r *replica) create(t *testing.T) session.Record {
	t.Helper()
	record, err := r.Create(t.Context(), session.Record{User: "alice", Revision: "r1", Initialized: true})
	if err != nil {
		t.Fatal(err)
	}
	r.use(t, record.Key())
	return record
}

func (r *replica) want(t *testing.T, what string, record session.Record, want error) {
	t.Helper()
	if _, err := r.Get(t.Context(), record.User, record.ID); !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
}

// eventually waits until happened returns true.
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

// The suite runs over a single server, over one behind a Sentinel, and over a Cluster, which
// refuses scripts whose keys are not on one node. Over the single server and the
// Cluster it runs as the user that docs/configuration.md asks operators to create.
func TestRedis(t *testing.T) {
	t.Parallel()
	t.Run("single", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		runSuite(t, server.URL(), asUser(t, server), server.Advance)
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		sentinel := redistest.StartSentinel(t, server, "gate")
		runSuite(t, "redis+sentinel://"+sentinel.Addr+"/0?master=gate", redisdb.Config{}, server.Advance)
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		cluster := redistest.StartCluster(t)
		runSuite(t, cluster.URL(), asUser(t, cluster.Nodes...), cluster.Advance)
	})
}

func runSuite(t *testing.T, url string, place redisdb.Config, advance func(testing.TB, time.Duration)) {
	runs := 0
	var last *replica
	begin := func(t *testing.T, cfg session.Config, deps session.Deps) *replica {
		cfg.Redis = place
		cfg.Redis.Prefix = fmt.Sprintf("gatehouse:%d:", runs)
		return newReplica(t, url, cfg, deps)
	}
	sessiontest.Run(t, func(t *testing.T, cfg session.Config, deps session.Deps) session.Store {
		runs++
		last = begin(t, cfg, deps)
		return last.Redis
	}, func(t *testing.T, _ session.Store, d time.Duration) {
		last.Sweep() // as it does many times in production
		advance(t, d)
		last.skew.Add(int64(d))
		last.Sweep()
	}, slack)
	usesAll(t, begin(t, session.Config{}, session.Deps{}))
}

// While Redis is away, hangs or is empty, known sessions continue, no session that may exist
// is reported as missing, and everything recovers by itself.
func TestRedisFaults(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newReplica(t, server.URL(), session.Config{}, session.Deps{})
	other := newReplica(t, server.URL(), session.Config{}, session.Deps{})
	known, unknown := s.create(t), other.create(t)
	unavailable := func(what string) {
		t.Helper()
		s.want(t, what+": a known session goes on", known, nil)
		s.want(t, what+": an unknown one is not said to be missing", unknown, session.ErrUnavailable)
		if _, err := s.Create(t.Context(), session.Record{User: "alice"}); !errors.Is(err, session.ErrUnavailable) {
			t.Errorf("%s: a new one: %v", what, err)
		}
		if _, err := s.Update(t.Context(), known.User, known.ID,
			func(r *session.Record) { r.LogLevel = what }); !errors.Is(err, session.ErrUnavailable) {
			t.Errorf("%s: nothing written is claimed as written: %v", what, err)
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
	unavailable("hanging")
	took := time.Since(start)
	server.Resume(t)
	// One of them waits for two seconds. The others do not each wait for the one before.
	if took > 10*time.Second {
		t.Errorf("what Redis did not answer took %s", took)
	}
	healed("hanging")
	s.want(t, "what was there before", unknown, nil)
	if _, err := s.Log().Append(t.Context(), known.Key(), "s", []byte("next")); err != nil {
		t.Fatal(err)
	}
	if events, _, _, err := s.Log().Read(t.Context(), known.Key(), "s", first); !errors.Is(err, session.ErrGap) ||
		len(events) == 0 {
		t.Errorf("a lost event leaves a gap: %d events, %v", len(events), err)
	}

	server.Kill()
	unknown.ID = strings.Repeat("A", 26)
	unavailable("down")
	server.Restart(t)
	healed("down")
	s.Sweep()
	s.want(t, "an empty Redis has lost it", known, session.ErrNotFound)
}

// warning notes that the log says that Redis is away.
type warning struct{ said atomic.Bool }

func (w *warning) Write(line []byte) (int, error) {
	if strings.Contains(string(line), "redis is not available") {
		w.said.Store(true)
	}
	return len(line), nil
}

func TestRedisDownAtStart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Kill()
	var warned warning
	s := newReplica(t, server.URL(), session.Config{}, session.Deps{Log: slog.New(slog.NewTextHandler(&warned, nil))})
	if !warned.said.Load() {
		t.Error("nothing is said of it at the start")
	}
	if _, err := s.Create(t.Context(), session.Record{User: "alice"}); !errors.Is(err, session.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	server.Restart(t)
	eventually(t, "heals", func() bool {
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
		t.Errorf("a new session: %v", err)
	}
	s.want(t, "a known one goes on", r, nil)
	if !s.DB().Full() {
		t.Error("nobody knows that it is full")
	}
	set("maxmemory", "0")
	if s.Sweep(); s.DB().Full() {
		t.Error("there is room again, and nobody finds out")
	}
	s.create(t)

	set("min-replicas-to-write", "1") // as read-only as it gets without a master
	if _, err := s.Create(t.Context(), session.Record{User: "alice"}); !errors.Is(err, session.ErrUnavailable) {
		t.Errorf("read-only, a new session: %v", err)
	}
	s.want(t, "read-only, a known one goes on", r, nil)
	set("min-replicas-to-write", "0")
	s.create(t)
}

// The store warns at the start of a Redis that may evict sessions, and of no other.
func TestRedisThatEvicts(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	defer client.Close()
	for policy, want := range map[string]bool{"allkeys-lru": true, "volatile-ttl": true, "noeviction": false} {
		if err := client.ConfigSet(t.Context(), "maxmemory-policy", policy).Err(); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		newReplica(t, server.URL(), session.Config{}, session.Deps{Log: slog.New(slog.NewTextHandler(&log, nil))}).close()
		if warned := strings.Contains(log.String(), "level=WARN") &&
			strings.Contains(log.String(), "maxmemory-policy="+policy); warned != want {
			t.Errorf("%s: %s", policy, log.String())
		}
	}
}

// Values at a session's place that are not sessions.
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
		{"another type", func(key, _ string) error {
			return errors.Join(client.Del(ctx, key).Err(), client.Set(ctx, key, "text", 0).Err())
		}, session.ErrNotFound},
		{"garbage", func(key, _ string) error { return client.HSet(ctx, key, "v", "{").Err() }, session.ErrNotFound},
		{"an unsealed one", func(key, _ string) error {
			return client.HSet(ctx, key, "v",
				`{"version":2,"revision":"r1","initialized":true,"created":"2026-01-01T00:00:00Z"}`).Err()
		}, session.ErrNotFound},
		{"another session's", func(key, other string) error {
			value, err := client.HGet(ctx, other, "v").Result()
			return errors.Join(err, client.HSet(ctx, key, "v", value).Err())
		}, session.ErrNotFound},
		{"evicted", func(key, _ string) error { return client.Del(ctx, key).Err() }, session.ErrNotFound},
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

// No raw claim, id or pattern of a client becomes a part of a key.
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
	if len(keys) != 5*5 {
		t.Errorf("%d keys, want 5 for each session: %q", len(keys), keys)
	}
	for _, key := range keys {
		if !strings.HasPrefix(key, "mine:") || strings.Count(key, "{") != 1 || strings.Count(key, "}") != 1 ||
			strings.ContainsAny(key, " *") {
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
			t.Errorf("id %.20q: %v", id, err)
		}
	}
	if after, err := client.Info(t.Context(), "commandstats").Result(); err != nil || evals(after) != evals(before) {
		t.Errorf("Redis was asked for ids that nobody was given (%v)", err)
	}
}

// evals returns the statistics line of EVALSHA.
func evals(stats string) string {
	for line := range strings.Lines(stats) {
		if strings.HasPrefix(line, "cmdstat_evalsha:") {
			return line
		}
	}
	return ""
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
	for range 3 {
		server.Advance(t, 20*time.Minute)
		a.skew.Add(int64(20 * time.Minute))
		a.want(t, "in use", r, nil)
		a.Sweep()
		want("in use all the time", r.Key(), "a", "x", true)
	}
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
	f.Add([]byte(`{"version":2,"caps":"{}","subscriptions":["a"],"created":""}`))
	f.Add([]byte("{"))
	f.Fuzz(func(t *testing.T, value []byte) {
		r, err := session.Decode(string(value), "alice", "x")
		if err == nil && (r.User != "alice" || r.ID != "x" || r.Key() != "alice:x") {
			t.Errorf("%s became %+v", value, r)
		}
	})
}
