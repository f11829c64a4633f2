package session_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gatehouse-mcp/gatehouse/internal/home"
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
	s := newReplica(t, server.URL(), session.Config{}, session.Deps{})
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
	if left, err := client.PTTL(t.Context(), s.RecordKey(home.ParseKey(r.Key()))).Result(); err != nil ||
		left < 30*time.Minute {
		t.Errorf("it lasts for %s more, %v", left, err)
	}
	before = commands(t, client)
	if s.Sweep(); commands(t, client) != before {
		t.Error("Redis is told again of what it knows")
	}
}

// overs are the Events of a replica, and the reasons for which its homes are over.
type overs struct {
	t   *testing.T
	why chan home.Why
}

func newOvers(t *testing.T) *overs { return &overs{t, make(chan home.Why, 100)} }

func (e *overs) Opened(*home.Home)                 {}
func (e *overs) Closed(_ *home.Home, why home.Why) { e.why <- why }

// want waits for the next home that is over.
func (e *overs) want(want home.Why) {
	e.t.Helper()
	select {
	case why := <-e.why:
		if why != want {
			e.t.Errorf("it is over for reason %d, want %d", why, want)
		}
	case <-time.After(patience):
		e.t.Error("it is not over")
	}
}

// TestFence: a former owner is refused whatever it writes, and gives its copy up. Nothing of its
// write is stored.
func TestFence(t *testing.T) {
	server := redistest.Start(t)
	tests := map[string]func(s *replica, h *home.Home) error{
		"Update": func(s *replica, h *home.Home) error {
			_, err := s.Redis.Update(t.Context(), h, func(r *session.Record) { r.LogLevel = "debug" })
			return err
		},
		"Delete": func(_ *replica, h *home.Home) error { return h.End(t.Context(), home.Ended) },
		"Append": func(s *replica, h *home.Home) error {
			_, err := s.Redis.Log().Append(t.Context(), h, "s", []byte("late"))
			return err
		},
		"Begin": func(s *replica, h *home.Home) error {
			_, err := s.Redis.Log().Begin(t.Context(), h, "new", []byte("1"), []byte("late"))
			return err
		},
		"Finish": func(s *replica, h *home.Home) error {
			_, err := s.Redis.Log().Finish(t.Context(), h, "s", []byte("late"))
			return err
		},
		"End": func(s *replica, h *home.Home) error { return s.Redis.Log().End(t.Context(), h, "s") },
		"Save": func(s *replica, h *home.Home) error {
			return s.Keeper().Save(t.Context(), h.String(), "crm", []byte("late"))
		},
		"Save, to forget": func(s *replica, h *home.Home) error {
			return s.Keeper().Save(t.Context(), h.String(), "crm", nil)
		},
		"Keep": func(s *replica, h *home.Home) error {
			defer s.Sweep() // by itself, Keep ends nothing
			return s.Keep(t.Context(), h, 0)
		},
		"Load": func(s *replica, h *home.Home) error {
			defer s.Sweep()
			return s.Load(t.Context(), h)
		},
	}
	for name, write := range tests {
		t.Run(name, func(t *testing.T) {
			over := newOvers(t)
			old := newReplica(t, server.URL(), session.Config{}, session.Deps{Homes: home.Config{Events: over}})
			next := newReplica(t, server.URL(), session.Config{}, session.Deps{})
			r := old.create(t)
			if _, err := old.Log().Append(t.Context(), r.Key(), "s", []byte("one")); err != nil {
				t.Fatal(err)
			}
			if err := old.Keeper().Save(t.Context(), r.Key(), "crm", []byte("kept")); err != nil {
				t.Fatal(err)
			}
			next.use(t, r.Key())
			err := old.Use(t.Context(), home.ParseKey(r.Key()), func(h *home.Home) error { return write(old, h) })
			if !errors.Is(err, session.ErrMoved) {
				t.Errorf("got %v, want ErrMoved", err)
			}
			if old.Homes().Known(home.ParseKey(r.Key())) != nil {
				t.Fatal("the old owner has it still")
			}
			over.want(home.Moved)
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
			if value, err := next.Keeper().Load(t.Context(), r.Key(), "crm"); err != nil || string(value) != "kept" {
				t.Errorf("what was kept: %q, %v", value, err)
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
			over := newOvers(t)
			old := newReplica(t, place.url, session.Config{}, session.Deps{Homes: home.Config{Events: over}})
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

			next := newReplica(t, place.url, session.Config{}, session.Deps{})
			next.use(t, r.Key())
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
			if <-more; old.Homes().Len() != 0 {
				t.Error("after a sweep the old owner has it still")
			}
			over.want(home.Moved)
			old.drop(r.Key()) // giving up what is not here does nothing
			next.want(t, "at its owner", r, nil)
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
	over := newOvers(t)
	old := newReplica(t, server.URL(), session.Config{}, session.Deps{Homes: home.Config{Events: over}})
	next := newReplica(t, server.URL(), session.Config{}, session.Deps{})
	moved, nobodys, own, homeless := old.create(t), old.create(t), old.create(t), old.create(t)
	homes := make(map[string]*home.Home)
	for _, r := range []session.Record{moved, nobodys, own, homeless} {
		homes[r.ID] = old.Homes().Known(home.ParseKey(r.Key()))
	}
	next.use(t, moved.Key())
	next.use(t, nobodys.Key())
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
	if err := client.Del(t.Context(), homeOf(nobodys), homeOf(homeless)).Err(); err != nil {
		t.Fatal(err)
	}
	old.Sweep()
	next.want(t, "at its owner, still", moved, nil)
	newReplica(t, server.URL(), session.Config{}, session.Deps{}).want(t, "used not long ago", nobodys, nil)
	for id, want := range map[string]home.Why{
		moved.ID: home.Moved, nobodys.ID: home.Moved, own.ID: home.Idle, homeless.ID: home.Idle,
	} {
		if why := homes[id].Why(); why != want {
			t.Errorf("one is over for reason %d, want %d", why, want)
		}
	}
	if n := old.Homes().Len(); n != 0 || len(over.why) != 4 {
		t.Errorf("%d are here still, %d are over", n, len(over.why))
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
			if s.Homes().Known(home.ParseKey(r.Key())) != nil {
				t.Error("the write ends nothing")
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			over := newOvers(t)
			cfg := session.Config{MaxPerUser: 1, Redis: redisdb.Config{Prefix: strings.ReplaceAll(name, " ", "-") + ":"}}
			a := newReplica(t, server.URL(), cfg, session.Deps{Homes: home.Config{Events: over}})
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
			over.want(home.Gone)
			if a.Homes().Close(t.Context()); len(over.why) != 0 {
				t.Error("it has ended again")
			}
		})
	}
}

// TestKept: the next owner finds what is kept of a session at a server, as long as the session
// lasts; with a derived id, as long as a replica holds it.
func TestKept(t *testing.T) {
	server := redistest.Start(t)
	a, b := newReplica(t, server.URL(), session.Config{}, session.Deps{}),
		newReplica(t, server.URL(), session.Config{}, session.Deps{})
	r := a.create(t)
	const derived = "alice:~0123456789abcdef"
	want := func(what, key, name, want string) {
		t.Helper()
		if got, err := b.Keeper().Load(t.Context(), key, name); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", what, got, err, want)
		}
	}
	save := func(key, name, value string) {
		t.Helper()
		if err := a.Keeper().Save(t.Context(), key, name, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{r.Key(), derived} {
		a.use(t, key)
		want("nothing yet", key, "crm", "")
		save(key, "crm", "one")
		save(key, "crm", "two")
		want("the last one", key, "crm", "two")
		want("another's", key, "erp", "")
		if err := a.Keeper().Save(t.Context(), key, "crm", make([]byte, 64<<10+1)); !errors.Is(err, session.ErrTooLarge) {
			t.Errorf("too much: %v", err)
		}
		for i := range 255 {
			save(key, fmt.Sprint(i), "x")
		}
		if err := a.Keeper().Save(t.Context(), key, "one more", []byte("x")); !errors.Is(err, session.ErrTooMany) {
			t.Errorf("too many: %v", err)
		}
		for range 2 {
			if err := a.Keeper().Save(t.Context(), key, "0", nil); err != nil {
				t.Errorf("forgetting: %v", err)
			}
		}
		want("forgotten", key, "0", "")
	}
	for range 3 {
		server.Advance(t, 20*time.Minute)
		a.skew.Add(int64(20 * time.Minute))
		a.use(t, derived)
		a.want(t, "in use", r, nil)
		a.Sweep()
	}
	want("of a session in use", r.Key(), "crm", "two")
	want("of a derived id that is held", derived, "crm", "two")
	if err := a.Delete(t.Context(), r.User, r.ID); err != nil {
		t.Fatal(err)
	}
	want("after the session's end", r.Key(), "crm", "")
	if err := a.Keeper().Save(t.Context(), r.Key(), "crm", []byte("x")); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("keeping after the session's end: %v", err)
	}
	if err := a.Keeper().Save(t.Context(), r.Key(), "crm", nil); err != nil {
		t.Errorf("forgetting after the session's end: %v", err)
	}
	a.drop(derived)
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
		t.Fatalf("finishing with Redis full: %v", err)
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
		if reader.Homes().Len() != 1 {
			t.Errorf("%d copies of one session", reader.Homes().Len())
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
		reader.want(t, "after the end", r, session.ErrNotFound)
		if reader.Homes().Len() != 0 {
			t.Error("what has ended is held")
		}
		reader.close()
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
	if _, _, _, err := b.Log().Read(t.Context(), r.Key(), "never", last); !errors.Is(err, session.ErrNotFound) ||
		errors.Is(err, session.ErrForgotten) {
		t.Errorf("a stream that Redis does not have: %v", err)
	}
}
