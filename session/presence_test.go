package session_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/session"
)

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// frozen is a replica whose clock the test alone moves on.
func frozen(t *testing.T, url string) *replica {
	t.Helper()
	r := &replica{}
	var err error
	r.Redis, err = session.NewRedisAt(session.Config{Store: session.StoreRedis, Redis: redisdb.Config{URL: mcp.Secret(url)}, Key: "0123456789abcdef0123456789abcdef"},
		session.Deps{}, func() time.Duration { return time.Duration(r.skew.Load()) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// TestPresence: a replica that has gone is known for it, one that is there is not, and
// where Redis has lost what it knew nobody is taken to have gone.
func TestPresence(t *testing.T) {
	server, cluster := redistest.Start(t), redistest.StartCluster(t)
	places := map[string]struct {
		url    string
		client redis.UniversalClient
	}{"single": {server.URL(), server.Client()}, "cluster": {cluster.URL(), cluster.Client()}}
	for name, place := range places {
		t.Run(name, func(t *testing.T) {
			client := place.client
			defer client.Close()
			a := frozen(t, place.url)
			b := newReplica(t, place.url, session.Config{}, session.Deps{})
			there, stopThere := a.Watch(b.Self())
			defer stopThere()
			crashed, stopCrashed := a.Watch("crashed")
			defer stopCrashed()
			if lease := a.Beat(); isClosed(crashed) || !a.Present(t.Context(), "crashed") {
				t.Errorf("one that is younger than %s knows who has gone", lease)
			}
			a.skew.Add(int64(a.Beat()))
			a.Beat()
			if !isClosed(crashed) || a.Present(t.Context(), "crashed") {
				t.Error("nobody notices that a replica has gone")
			}
			if isClosed(there) || !a.Present(t.Context(), b.Self()) {
				t.Error("one that is there is taken to have gone")
			}

			// All that Redis knew is lost.
			const lease = "gatehouse:r:{replicas}:"
			if n, err := client.Del(t.Context(), lease+a.Self(), lease+b.Self()).Result(); n != 2 || err != nil {
				t.Fatalf("%d leases, %v", n, err)
			}
			other, stopOther := a.Watch("other")
			defer stopOther()
			second, stopSecond := a.Watch("other")
			stopSecond()
			stopSecond()
			if a.Beat(); isClosed(there) || isClosed(other) {
				t.Error("H/190 a replica is taken to have gone since Redis has lost its lease")
			}
			b.Beat()
			a.skew.Add(int64(a.Beat()))
			if a.Beat(); isClosed(there) || !isClosed(other) || !isClosed(second) {
				t.Errorf("after that: %t %t %t", isClosed(there), isClosed(other), isClosed(second))
			}

			b.Close() // which gives the lease up
			if a.Beat(); !isClosed(there) {
				t.Error("one that has ended is not known to have gone")
			}
			if gone, stop := a.Watch(b.Self()); true {
				defer stop()
				eventually(t, "one that went before it was watched", func() bool { return isClosed(gone) })
			}
		})
	}
}

// TestH192_NobodyIsJudgedWithoutRedis: for as long as Redis does not answer, and for a
// lease's time after that, nobody can know who has gone.
func TestH192_NobodyIsJudgedWithoutRedis(t *testing.T) {
	server := redistest.Start(t)
	a := frozen(t, server.URL())
	a.skew.Add(int64(a.Beat()))
	if server.Kill(); !a.Present(t.Context(), "crashed") {
		t.Error("without Redis it is known that a replica has gone")
	}
	gone, stop := a.Watch("crashed")
	defer stop()
	a.Beat()
	server.Restart(t)
	eventually(t, "Redis is there again", func() bool {
		_, err := a.Create(t.Context(), session.Record{User: "alice"})
		return err == nil
	})
	if a.Beat(); isClosed(gone) {
		t.Error("right after that it is")
	}
	a.skew.Add(int64(a.Beat()))
	if a.Beat(); !isClosed(gone) {
		t.Error("it stays unknown")
	}
}

// A stream that could not be ended in time is ended later, and whoever follows it learns
// that its end is missing.
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
	if _, ended, _, err := s.Log().Read(t.Context(), r.Key(), "s", seq); ended || err != nil {
		t.Fatalf("before: ended %t, %v", ended, err)
	}
	s.Sweep()
	events, ended, _, err := s.Log().Read(t.Context(), r.Key(), "s", seq)
	if len(events) != 0 || !ended || !errors.Is(err, session.ErrGap) {
		t.Errorf("%d events, ended %t, %v", len(events), ended, err)
	}
}

// A large message for a replica that is not there, whose name a client may have made up,
// takes no room in Redis.
func TestLargeMailToNobody(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	defer client.Close()
	a := frozen(t, server.URL())
	a.skew.Add(int64(a.Beat())) // for as long as any other one could have been there unseen
	a.Beat()
	if err := a.Send(t.Context(), "madeup", make([]byte, 1<<20)); !errors.Is(err, session.ErrNobody) {
		t.Errorf("a letter to nobody: %v", err)
	}
	if kept, err := client.Keys(t.Context(), "gatehouse:x:*").Result(); err != nil || len(kept) != 0 {
		t.Errorf("it is kept: %q, %v", kept, err)
	}
}

// Who asks whether a replica is there, and leaves before the answer, leaves nobody in doubt.
func TestPresenceOfWhoLeaves(t *testing.T) {
	server := redistest.Start(t)
	a := frozen(t, server.URL())
	left, cancel := context.WithCancel(t.Context())
	cancel()
	eventually(t, "it stays known who has gone", func() bool { // unless Redis was slow
		a.skew.Add(int64(a.Beat()))
		for range 20 { // who has left may have the turn, too
			a.Present(left, "crashed")
		}
		return !a.Present(t.Context(), "crashed")
	})
}
