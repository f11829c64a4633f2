package stateful_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

func TestEphemeralSessionsEndByIdleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fake.NewBubble(t, true, nil)
		u := f.Upstream(t, upstream.Config{Timeout: upstream.Timeout{Idle: 30 * time.Second}})
		c := fake.Tool("a")
		c.Ephemeral = true
		fake.WantOK(t, u, c)
		time.Sleep(29 * time.Second)
		synctest.Wait()
		if n := len(f.Requests(http.MethodDelete)); n != 0 {
			t.Errorf("ended %d times before its time", n)
		}
		f.Await(t, http.MethodDelete, 1)
		fake.WantOK(t, u, c)
	})
}

func TestSessionLimit(t *testing.T) {
	f := fake.New(t, true, nil)
	u := fake.Start(t, upstream.Config{URL: f.URL, Limits: upstream.Limits{Sessions: 2}})
	for _, s := range []string{"a", "b"} {
		c := fake.Tool("x")
		c.Session = s
		fake.WantOK(t, u, c)
	}
	c := fake.Tool("x")
	c.Session = "c"
	_, err := fake.Do(t, u, c)
	fake.WantError(t, err, mcp.CodeOverloaded, mcp.ExecutedNo)
	u.EndSession("a", true)
	fake.WantOK(t, u, c)
}

func TestLogLevelOfABadServer(t *testing.T) {
	debug := func() *mcp.Call {
		c := fake.Tool("a")
		c.LogLevel = "debug"
		return c
	}
	t.Run("it refuses", func(t *testing.T) {
		f := fake.New(t, true, func(_ *fake.Server, w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
			if m.Method == mcp.MethodSetLevel {
				fake.Failure(w, http.StatusOK, m, `{"code":-32601,"message":"Method not found"}`)
			}
			return m.Method == mcp.MethodSetLevel
		})
		u := fake.Start(t, upstream.Config{URL: f.URL})
		fake.WantOK(t, u, debug())
		fake.WantOK(t, u, debug())
		if n := len(f.Requests(mcp.MethodSetLevel)); n != 1 {
			t.Errorf("it was asked %d times", n)
		}
	})
	t.Run("it does not answer", func(t *testing.T) {
		f := fake.New(t, true, func(_ *fake.Server, _ http.ResponseWriter, r *http.Request, m fake.Message) bool {
			if m.Method == mcp.MethodSetLevel {
				<-r.Context().Done()
			}
			return m.Method == mcp.MethodSetLevel
		})
		u := fake.Start(t, upstream.Config{URL: f.URL})
		first, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer leave()
		wg.Go(func() { _, _ = u.Handle(first, debug()) }) // it is cancelled
		f.Await(t, mcp.MethodSetLevel, 1)
		second, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		left := make(chan error, 1)
		wg.Go(func() {
			_, err := u.Handle(second, debug())
			left <- err
		})
		select {
		case err := <-left:
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v", err)
			}
		case <-time.After(fake.Patience):
			t.Error("a caller who leaves has to wait for another one's log level")
		}
	})
}

// A call that is cancelled together with its session must not open another session, which would
// never end.
func TestCancelledCallOpensNoSession(t *testing.T) {
	f := fake.New(t, true, nil)
	u := fake.Start(t, upstream.Config{URL: f.URL, Limits: upstream.Limits{Sessions: 1}})
	fake.WantOK(t, u, fake.Tool("a"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	u.EndSession(fake.Tool("a").Session, true)
	if _, err := u.Handle(ctx, fake.Tool("a")); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	other := fake.Tool("b")
	other.Session = "other"
	fake.WantOK(t, u, other)
}
