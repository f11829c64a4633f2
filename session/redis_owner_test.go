package session_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// commands returns how many scripts a server has run.
func commands(t *testing.T, client *redis.Client) string {
	t.Helper()
	stats, err := client.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	var scripts strings.Builder
	for line := range strings.Lines(stats) {
		if strings.HasPrefix(line, "cmdstat_eval") {
			scripts.WriteString(line)
		}
	}
	return scripts.String()
}

// TestHeldAsksNothing: a call in a held session costs no command. The next sweep tells Redis
// that the session was used.
func TestHeldAsksNothing(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	defer client.Close()
	s := newOwner(t, server.URL(), "one", session.Config{}, session.Deps{})
	r := s.create(t)
	before := commands(t, client)
	for range 100 {
		s.want(t, "held", r, nil)
		if _, err := s.Update(t.Context(), r.User, r.ID, func(*session.Record) {}); err != nil {
			t.Error("a change that changes nothing:", err)
		}
	}
	s.skew.Add(int64(10 * time.Minute))
	s.want(t, "held and used again", r, nil)
	if after := commands(t, client); after != before {
		t.Errorf("Redis was asked: %s, then %s", before, after)
	}
	server.Advance(t, 10*time.Minute)
	s.Sweep()
	if left, err := client.PTTL(t.Context(), s.RecordKey(r.Key())).Result(); err != nil || left < 30*time.Minute {
		t.Errorf("it lasts for %s more, %v", left, err)
	}
	before = commands(t, client)
	if s.Sweep(); commands(t, client) != before {
		t.Error("Redis is told again of what it knows")
	}
}

// TestFence: a former owner is refused whatever it writes, and drops its copy. Nothing of its
// write is stored.
func TestFence(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	defer client.Close()
	log := func(do func(l session.EventLog, key string) error) func(*replica, session.Record) error {
		return func(s *replica, r session.Record) error { return do(s.Log(), r.Key()) }
	}
	tests := map[string]func(s *replica, r session.Record) error{
		"Update": func(s *replica, r session.Record) error {
			_, err := s.Update(t.Context(), r.User, r.ID, func(r *session.Record) { r.LogLevel = "debug" })
			return err
		},
		"Delete": func(s *replica, r session.Record) error { return s.Delete(t.Context(), r.User, r.ID) },
		"Append": log(func(l session.EventLog, key string) error {
			_, err := l.Append(t.Context(), key, "s", []byte("late"))
			return err
		}),
		"Begin": log(func(l session.EventLog, key string) error {
			_, err := l.Begin(t.Context(), key, "new", []byte("1"), []byte("late"))
			return err
		}),
		"Finish": log(func(l session.EventLog, key string) error {
			_, err := l.Finish(t.Context(), key, "s", []byte("late"))
			return err
		}),
		"End": log(func(l session.EventLog, key string) error { return l.End(t.Context(), key, "s") }),
		"Save": func(s *replica, r session.Record) error {
			return s.Kept().Save(t.Context(), r.Key(), "crm", []byte("late"))
		},
		"Save, to forget": func(s *replica, r session.Record) error {
			return s.Kept().Save(t.Context(), r.Key(), "crm", nil)
		},
		"Get, when idle": func(s *replica, r session.Record) error {
			s.skew.Add(int64(time.Hour))
			_, err := s.Get(t.Context(), r.User, r.ID)
			return err
		},
		"Get, after a takeover": func(s *replica, r session.Record) error {
			s.Drop(r.Key())
			_, err := s.Get(t.Context(), r.User, r.ID)
			return err
		},
	}
	for name, write := range tests {
		t.Run(name, func(t *testing.T) {
			var refused []string
			old := newOwner(t, server.URL(), "old", session.Config{}, session.Deps{
				OnEnd: func(session.Record) { t.Error("it is said to have ended") },
				Moved: func(key, token string) { refused = []string{key, token} },
			})
			next := newOwner(t, server.URL(), "next", session.Config{}, session.Deps{})
			r := old.create(t)
			if _, err := old.Log().Append(t.Context(), r.Key(), "s", []byte("one")); err != nil {
				t.Fatal(err)
			}
			if err := old.Kept().Save(t.Context(), r.Key(), "crm", []byte("kept")); err != nil {
				t.Fatal(err)
			}
			next.own(t, r.Key())
			if err := write(old, r); !errors.Is(err, session.ErrMoved) {
				t.Errorf("got %v, want ErrMoved", err)
			}
			if want := []string{r.Key(), "old"}; !slices.Equal(refused, want) {
				t.Errorf("refused %q, want %q", refused, want)
			}
			if got, err := next.Get(t.Context(), r.User, r.ID); err != nil || got.LogLevel != "" {
				t.Errorf("the record: %+v, %v", got, err)
			}
			events, ended, _, err := next.Log().Read(t.Context(), r.Key(), "s", 0)
			if err != nil || ended || len(events) != 1 || string(events[0].Data) != "one" {
				t.Errorf("the stream: %d events, ended %t, %v", len(events), ended, err)
			}
			if _, _, _, err := next.Log().Read(t.Context(), r.Key(), "new", 0); !errors.Is(err, session.ErrNotFound) {
				t.Errorf("a stream that was refused: %v", err)
			}
			if value, err := next.Kept().Load(t.Context(), r.Key(), "crm"); err != nil || string(value) != "kept" {
				t.Errorf("what was kept: %q, %v", value, err)
			}
			if !strings.HasPrefix(name, "Save") && old.Known() != 0 {
				t.Error("the old owner holds it still")
			}
		})
	}
}

// TestTakeover: the next owner continues with everything that the last one has written. A
// sweep of the last owner drops the sessions of the next one, and ends nothing.
func TestTakeover(t *testing.T) {
	t.Parallel()
	single, cluster := redistest.Start(t), redistest.StartCluster(t)
	for name, place := range map[string]struct {
		url    string
		client redis.UniversalClient
	}{"single": {single.URL(), single.Client()}, "cluster": {cluster.URL(), cluster.Client()}} {
		t.Run(name, func(t *testing.T) {
			defer place.client.Close()
			old := newOwner(t, place.url, "old", session.Config{}, session.Deps{OnEnd: func(session.Record) { t.Error("it is said to have ended") }})
			r := old.create(t)
			if _, err := old.Update(t.Context(), r.User, r.ID, func(r *session.Record) { r.LogLevel = "debug" }); err != nil {
				t.Fatal(err)
			}
			log := old.Log()
			first, err := log.Begin(t.Context(), r.Key(), "open", []byte("7"), []byte("one"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := log.Finish(t.Context(), r.Key(), "ended", []byte("end")); err != nil {
				t.Fatal(err)
			}
			last, err := log.Append(t.Context(), r.Key(), "open", []byte("two"))
			if err != nil {
				t.Fatal(err)
			}
			_, _, more, err := log.Read(t.Context(), r.Key(), "open", last)
			if err != nil {
				t.Fatal(err)
			}

			next := newOwner(t, place.url, "next", session.Config{}, session.Deps{})
			next.own(t, r.Key())
			if got, err := next.Get(t.Context(), r.User, r.ID); err != nil || got.LogLevel != "debug" || !got.Initialized {
				t.Errorf("the record: %+v, %v", got, err)
			}
			log = next.Log()
			if request, err := log.Request(t.Context(), r.Key(), "open"); err != nil || string(request) != "7" {
				t.Errorf("what the stream answers: %q, %v", request, err)
			}
			events, ended, follow, err := log.Read(t.Context(), r.Key(), "open", first)
			if err != nil || ended || len(events) != 1 || string(events[0].Data) != "two" {
				t.Errorf("the open stream: %d events, ended %t, %v", len(events), ended, err)
			}
			if _, err := log.Append(t.Context(), r.Key(), "ended", nil); !errors.Is(err, session.ErrEnded) {
				t.Errorf("the stream that has ended: %v", err)
			}
			seq, err := log.Finish(t.Context(), r.Key(), "open", []byte("three"))
			if err != nil || seq <= last {
				t.Errorf("position %d after %d, %v", seq, last, err)
			}
			<-follow

			old.want(t, "which knows nothing of it yet", r, nil)
			old.skew.Add(int64(time.Minute))
			old.want(t, "used", r, nil)
			old.Sweep()
			if <-more; old.Known() != 0 {
				t.Error("after a sweep the old owner holds it still")
			}
			old.want(t, "after that", r, session.ErrMoved)
			old.Drop(r.Key()) // dropping twice is the same as once
		})
	}
}

// TestOwnerThatSlept: an owner that was suspended for longer than a session lasts ends no
// session that another replica owns by now, or owned and gave up. It ends those that are still
// its own or that have outlived their home.
func TestOwnerThatSlept(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	defer client.Close()
	var ended []string
	var mu sync.Mutex
	old := newOwner(t, server.URL(), "old", session.Config{}, session.Deps{OnEnd: func(r session.Record) {
		mu.Lock()
		defer mu.Unlock()
		ended = append(ended, r.Key())
	}})
	next := newOwner(t, server.URL(), "next", session.Config{}, session.Deps{})
	moved, nobodys, own, homeless := old.create(t), old.create(t), old.create(t), old.create(t)
	next.own(t, moved.Key())
	next.own(t, nobodys.Key())
	pass := func(d time.Duration) {
		server.Advance(t, d)
		old.skew.Add(int64(d))
		next.skew.Add(int64(d))
	}
	for range 2 {
		pass(16 * time.Minute)
		next.want(t, "at its owner", moved, nil)
		next.want(t, "at its owner", nobodys, nil)
		next.Sweep()
	}
	if err := client.Del(t.Context(), homeOf(nobodys.Key()), homeOf(homeless.Key())).Err(); err != nil {
		t.Fatal(err)
	}
	old.Sweep()
	next.want(t, "at its owner, still", moved, nil)
	newReplica(t, server.URL(), session.Config{}, session.Deps{}).want(t, "used not long ago", nobodys, nil)
	if want := []string{own.Key(), homeless.Key()}; len(ended) != 2 || !slices.Contains(ended, want[0]) || !slices.Contains(ended, want[1]) {
		t.Errorf("%d sessions have ended, want the two that were idle", len(ended))
	}
	if old.Known() != 0 {
		t.Errorf("%d are held still", old.Known())
	}
}

// TestEvictedElsewhere: a session that makes room for a newer one of its user may belong to
// another replica. That replica finds that the session has ended, not that it has moved.
func TestEvictedElsewhere(t *testing.T) {
	server := redistest.Start(t)
	for name, find := range map[string]func(*replica, session.Record) error{
		"at a sweep": func(s *replica, r session.Record) error {
			s.want(t, "not known yet", r, nil)
			s.Sweep()
			return s.Delete(t.Context(), r.User, r.ID)
		},
		"at a write": func(s *replica, r session.Record) error {
			_, err := s.Log().Append(t.Context(), r.Key(), "s", nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			var ended atomic.Int64
			cfg := session.Config{MaxPerUser: 1, Redis: redisdb.Config{Prefix: strings.ReplaceAll(name, " ", "-") + ":"}}
			a := newReplica(t, server.URL(), cfg, session.Deps{OnEnd: func(session.Record) { ended.Add(1) }})
			b := newReplica(t, server.URL(), cfg, session.Deps{})
			r := a.create(t)
			if _, err := b.Create(t.Context(), session.Record{User: "alice"}); !errors.Is(err, session.ErrTooMany) {
				t.Errorf("while it is used: %v", err)
			}
			server.Advance(t, 2*time.Minute)
			a.skew.Add(int64(2 * time.Minute))
			b.create(t)
			if err := find(a, r); !errors.Is(err, session.ErrNotFound) {
				t.Errorf("got %v", err)
			}
			if a.Close(); ended.Load() != 1 { // Close waits for OnEnd
				t.Errorf("ended %d times", ended.Load())
			}
		})
	}
}

// TestKept: the next owner finds what is kept of a session at a server, as long as the session
// lasts; with a derived id, as long as a replica holds it.
func TestKept(t *testing.T) {
	server := redistest.Start(t)
	a, b := newReplica(t, server.URL(), session.Config{}, session.Deps{}), newReplica(t, server.URL(), session.Config{}, session.Deps{})
	r := a.create(t)
	const derived = "alice:~0123456789abcdef"
	want := func(what, key, name, want string) {
		t.Helper()
		if got, err := b.Kept().Load(t.Context(), key, name); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", what, got, err, want)
		}
	}
	save := func(key, name, value string) {
		t.Helper()
		if err := a.Kept().Save(t.Context(), key, name, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{r.Key(), derived} {
		want("nothing yet", key, "crm", "")
		save(key, "crm", "one")
		save(key, "crm", "two")
		want("the last one", key, "crm", "two")
		want("another's", key, "erp", "")
		if err := a.Kept().Save(t.Context(), key, "crm", make([]byte, 64<<10+1)); !errors.Is(err, session.ErrTooLarge) {
			t.Errorf("too much: %v", err)
		}
		for i := range 255 {
			save(key, fmt.Sprint(i), "x")
		}
		if err := a.Kept().Save(t.Context(), key, "one more", []byte("x")); !errors.Is(err, session.ErrTooMany) {
			t.Errorf("too many: %v", err)
		}
		for range 2 {
			if err := a.Kept().Save(t.Context(), key, "0", nil); err != nil {
				t.Errorf("forgetting: %v", err)
			}
		}
		want("forgotten", key, "0", "")
	}
	for range 3 {
		server.Advance(t, 20*time.Minute)
		a.skew.Add(int64(20 * time.Minute))
		a.want(t, "in use", r, nil)
		a.Sweep()
	}
	want("of a session in use", r.Key(), "crm", "two")
	want("of a derived id that is held", derived, "crm", "two")
	b.Drop(derived)
	if err := a.Delete(t.Context(), r.User, r.ID); err != nil {
		t.Fatal(err)
	}
	want("after the session's end", r.Key(), "crm", "")
	if err := a.Kept().Save(t.Context(), r.Key(), "crm", []byte("x")); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("keeping after the session's end: %v", err)
	}
	if err := a.Kept().Save(t.Context(), r.Key(), "crm", nil); err != nil {
		t.Errorf("forgetting after the session's end: %v", err)
	}
	a.Drop(derived)
	server.Advance(t, time.Hour)
	a.Sweep()
	want("of a derived id that nobody holds", derived, "crm", "")
}

// TestFinishedLate: a stream whose last event Redis does not take has ended nevertheless, with
// a gap. The next owner also finds it ended.
func TestFinishedLate(t *testing.T) {
	server := redistest.Start(t)
	s := newReplica(t, server.URL(), session.Config{}, session.Deps{})
	r := s.create(t)
	seq, err := s.Log().Begin(t.Context(), r.Key(), "s", []byte("1"), []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	client := server.Client()
	defer client.Close()
	if err := client.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Log().Finish(t.Context(), r.Key(), "s", []byte("end")); !errors.Is(err, session.ErrUnavailable) {
		t.Fatalf("H/185 finishing with Redis full: %v", err)
	}
	s.Sweep()
	next := newReplica(t, server.URL(), session.Config{}, session.Deps{})
	for name, s := range map[string]*replica{"its owner": s, "the next": next} {
		events, ended, _, err := s.Log().Read(t.Context(), r.Key(), "s", seq)
		if len(events) != 0 || !ended || !errors.Is(err, session.ErrGap) {
			t.Errorf("%s: %d events, ended %t, %v", name, len(events), ended, err)
		}
	}
}

// TestOneOwnerManyCallers: callers that come before a session is held, while it ends, or that
// give up waiting for Redis are all answered correctly. A caller without an answer does not
// take away another's.
func TestOneOwnerManyCallers(t *testing.T) {
	server := redistest.Start(t)
	writer := newReplica(t, server.URL(), session.Config{}, session.Deps{})
	for range 20 {
		r := writer.create(t)
		reader := newReplica(t, server.URL(), session.Config{}, session.Deps{})
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { reader.want(t, "there", r, nil) })
		}
		all.Wait()
		if reader.Known() != 1 {
			t.Errorf("%d copies of one session", reader.Known())
		}
		all.Go(func() {
			if err := reader.Delete(t.Context(), r.User, r.ID); err != nil {
				t.Error(err)
			}
		})
		for range 8 {
			all.Go(func() {
				if _, err := reader.Get(t.Context(), r.User, r.ID); err != nil && !errors.Is(err, session.ErrNotFound) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		reader.want(t, "H/178 after the end", r, session.ErrNotFound)
		if reader.Known() != 0 {
			t.Error("what has ended is held")
		}
		reader.Close()
		writer.Drop(r.Key())
	}
}

// TestForgottenElsewhere: the next owner knows of a stream that its session's former owner forgot
// that it was forgotten, and not lost.
func TestForgottenElsewhere(t *testing.T) {
	server := redistest.Start(t)
	a := newReplica(t, server.URL(), session.Config{}, session.Deps{})
	r := a.create(t)
	var last uint64
	for i := range session.LogStreams + 1 {
		var err error
		if last, err = a.Log().Append(t.Context(), r.Key(), fmt.Sprint(i), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	b := newReplica(t, server.URL(), session.Config{}, session.Deps{})
	if _, _, _, err := b.Log().Read(t.Context(), r.Key(), "0", 1); !errors.Is(err, session.ErrForgotten) {
		t.Errorf("the oldest stream: %v", err)
	}
	if _, _, _, err := b.Log().Read(t.Context(), r.Key(), "never", last); !errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrForgotten) {
		t.Errorf("a stream that Redis does not have: %v", err)
	}
}
