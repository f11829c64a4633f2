package admit_test

import (
	"errors"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// TestBreaker: a server that cannot be reached is left alone, except for one trial
// call at a time, with longer and longer pauses.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		f := fake.NewBubble(t, false, func(_ *fake.Server, w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
			if !broken.Load() {
				return false
			}
			time.Sleep(100 * time.Millisecond) // of the bubble: so that calls meet
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		})
		u := f.Upstream(t, upstream.Config{Name: "u"})
		fake.WantOK(t, u, fake.Tool("a"))
		if s := u.Status(); s.State != upstream.StateReady || !s.Refused.IsZero() {
			t.Errorf("at first: %+v", s)
		}
		// many makes calls at the same time, and returns how many reached the server and
		// how many succeeded.
		many := func(calls int) (asked, good int) {
			t.Helper()
			before := len(f.Requests(mcp.MethodToolsCall))
			var all sync.WaitGroup
			var ok atomic.Int64
			for range calls {
				all.Go(func() {
					_, err := u.Handle(t.Context(), fake.Tool("a"))
					e, ours := errors.AsType[*mcp.Error](err)
					switch {
					case err == nil:
						ok.Add(1)
					case !ours || e.Code != mcp.CodeUpstreamUnreachable:
						t.Errorf("got %v", err)
					}
				})
			}
			all.Wait()
			return len(f.Requests(mcp.MethodToolsCall)) - before, int(ok.Load())
		}
		broken.Store(true)
		for range 5 {
			if asked, good := many(1); asked != 1 || good != 0 {
				t.Fatalf("before it opens: %d of 1 calls got there, %d good", asked, good)
			}
		}
		if s := u.Status(); s.State != upstream.StateDown || s.Refused.IsZero() || s.Last.Stage != upstream.StageCall ||
			s.Last.Error == "" {
			t.Errorf("open: %+v", s)
		}
		if asked, _ := many(20); asked != 0 {
			t.Errorf("open: %d of 20 calls got there", asked)
		}
		_, err := u.Handle(t.Context(), fake.Tool("a"))
		e, _ := errors.AsType[*mcp.Error](err)
		retry, _ := e.Data.Member("retryAfterMs")
		executed, _ := e.Data.Member("executed")
		if ms, err := strconv.Atoi(string(retry)); err != nil || ms <= 0 || ms > 1201 ||
			executed.Text() != string(mcp.ExecutedNo) {
			t.Errorf("refused with %s", e.Data)
		}
		for _, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			time.Sleep(pause*8/10 - 200*time.Millisecond) // jitter is a fifth; the last trial took 100 ms
			if asked, _ := many(20); asked != 0 {
				t.Errorf("before %s: %d calls got there", pause, asked)
			}
			time.Sleep(pause*4/10 + 400*time.Millisecond)
			if asked, good := many(20); asked != 1 || good != 0 {
				t.Errorf("after %s: %d calls got there, %d good", pause, asked, good)
			}
		}
		broken.Store(false)
		time.Sleep(10 * time.Second)
		if asked, good := many(1); asked != 1 || good != 1 {
			t.Errorf("back: %d calls got there, %d good", asked, good)
		}
		if asked, good := many(20); asked != 20 || good != 20 {
			t.Errorf("closed again: %d calls got there, %d good", asked, good)
		}
		if s := u.Status(); s.State != upstream.StateReady || !s.Refused.IsZero() {
			t.Errorf("at last: %+v", s)
		}
	})
}

// TestBreakerIsClosedByDiscovery: the catalog's watch asks the server for its capabilities
// whatever happened to calls, and its success counts for them.
func TestBreakerIsClosedByDiscovery(t *testing.T) {
	var broken atomic.Bool
	f := fake.New(t, false, func(_ *fake.Server, w http.ResponseWriter, _ *http.Request, _ fake.Message) bool {
		if broken.Load() {
			w.WriteHeader(http.StatusBadGateway)
		}
		return broken.Load()
	})
	u := f.Upstream(t, upstream.Config{Name: "u"})
	fake.WantOK(t, u, fake.Tool("a"))
	broken.Store(true)
	for range 6 {
		if _, err := fake.Do(t, u, fake.Tool("a")); err == nil {
			t.Fatal("no error")
		}
	}
	broken.Store(false)
	if _, err := fake.Do(t, u, &mcp.Call{Method: mcp.MethodDiscover}); err != nil {
		t.Fatal(err)
	}
	fake.WantOK(t, u, fake.Tool("a"))
}

// TestBreakerSurvivesAPanic: a trial call that panics does not keep other calls out, and
// gives its place in the queue back.
func TestBreakerSurvivesAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		f := fake.NewBubble(t, false, func(_ *fake.Server, w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
			switch {
			case broken.Load():
				w.WriteHeader(http.StatusServiceUnavailable)
			case m.Method == mcp.MethodToolsCall:
				fake.Events(w, `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`+string(m.ID)+
					`,"progress":1}}`+"\n\n")
				fake.Events(w, fake.Event(m, "", fake.OK))
			default:
				return false
			}
			return true
		})
		u := f.Upstream(t, upstream.Config{Name: "u", Limits: upstream.Limits{Concurrent: 1}})
		fake.WantOK(t, u, fake.Tool("a"))
		broken.Store(true)
		for range 5 {
			_, err := fake.Do(t, u, fake.Tool("a"))
			fake.WantError(t, err, mcp.CodeUpstreamUnreachable, mcp.ExecutedUnknown)
		}
		broken.Store(false)
		time.Sleep(2 * time.Second) // of the bubble: the first pause
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic: the test shows nothing")
				}
			}()
			c := fake.Tool("a")
			c.Notify = func(mcp.Event) { panic("on purpose") }
			_, _ = u.Handle(t.Context(), c)
		}()
		fake.WantOK(t, u, fake.Tool("a"))
	})
}
