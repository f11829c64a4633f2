package upstream_test

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
)

func TestEphemeralSessionsEndByIdleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBubbleFake(t, true, nil)
		u := f.start(t, upstream.Config{Timeout: upstream.Timeout{Idle: 30 * time.Second}})
		c := tool("a")
		c.Ephemeral = true
		wantOK(t, u, c)
		time.Sleep(29 * time.Second)
		synctest.Wait()
		if n := len(f.requests(http.MethodDelete)); n != 0 {
			t.Errorf("ended %d times before its time", n)
		}
		f.await(t, http.MethodDelete, 1)
		wantOK(t, u, c)
	})
}

func TestSessionLimit(t *testing.T) {
	f := newFake(t, true, nil)
	u := start(t, upstream.Config{URL: f.URL, Limits: upstream.Limits{Sessions: 2}})
	for _, s := range []string{"a", "b"} {
		c := tool("x")
		c.Session = s
		wantOK(t, u, c)
	}
	c := tool("x")
	c.Session = "c"
	_, err := do(t, u, c)
	wantError(t, err, mcp.CodeOverloaded, mcp.ExecutedNo)
	endSession(u, "a", true)
	wantOK(t, u, c)
}

func TestLogLevelOfABadServer(t *testing.T) {
	debug := func() *mcp.Call {
		c := tool("a")
		c.LogLevel = "debug"
		return c
	}
	t.Run("it refuses", func(t *testing.T) {
		f := newFake(t, true, func(_ *fake, w http.ResponseWriter, _ *http.Request, m rpc) bool {
			if m.Method == mcp.MethodSetLevel {
				failure(w, http.StatusOK, m, `{"code":-32601,"message":"Method not found"}`)
			}
			return m.Method == mcp.MethodSetLevel
		})
		u := start(t, upstream.Config{URL: f.URL})
		wantOK(t, u, debug())
		wantOK(t, u, debug())
		if n := len(f.requests(mcp.MethodSetLevel)); n != 1 {
			t.Errorf("it was asked %d times", n)
		}
	})
	t.Run("it does not answer", func(t *testing.T) {
		f := newFake(t, true, func(_ *fake, _ http.ResponseWriter, r *http.Request, m rpc) bool {
			if m.Method == mcp.MethodSetLevel {
				<-r.Context().Done()
			}
			return m.Method == mcp.MethodSetLevel
		})
		u := start(t, upstream.Config{URL: f.URL})
		first, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer leave()
		wg.Go(func() { _, _ = u.Handle(first, debug()) }) // it is cancelled
		f.await(t, mcp.MethodSetLevel, 1)
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
		case <-time.After(patience):
			t.Error("a caller who leaves has to wait for another one's log level")
		}
	})
}

// A call that is cancelled together with its session must not open another session, which
// nobody would end.
func TestCancelledCallOpensNoSession(t *testing.T) {
	f := newFake(t, true, nil)
	u := start(t, upstream.Config{URL: f.URL, Limits: upstream.Limits{Sessions: 1}})
	wantOK(t, u, tool("a"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	endSession(u, tool("a").Session, true)
	if _, err := u.Handle(ctx, tool("a")); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	other := tool("b")
	other.Session = "other"
	wantOK(t, u, other)
}

func TestConcurrencyLimit(t *testing.T) {
	const places, waiting = 2, 4000
	arrived, release := make(chan struct{}, places+waiting), make(chan struct{})
	f := newFake(t, false, func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
		if m.Method == mcp.MethodToolsCall {
			arrived <- struct{}{}
			<-release
		}
		return false
	})
	u := start(t, upstream.Config{URL: f.URL, Limits: upstream.Limits{Concurrent: places}})
	outcome := make(chan error, places+waiting+8)
	for range places + waiting + 8 {
		go func() {
			_, err := u.Handle(t.Context(), tool("a"))
			outcome <- err
		}()
	}
	for range 8 {
		wantError(t, <-outcome, mcp.CodeOverloaded, mcp.ExecutedNo)
	}
	if n := len(arrived); n > places {
		t.Errorf("%d calls run at once", n)
	}
	close(release)
	for range places + waiting {
		if err := <-outcome; err != nil {
			t.Error(err)
		}
	}
}

// A call that is still queued when the upstream is closed was never sent.
func TestCloseWhileCallsWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBubbleFake(t, false, func(_ *fake, _ http.ResponseWriter, r *http.Request, m rpc) bool {
			if m.Method == mcp.MethodToolsCall {
				<-r.Context().Done()
			}
			return m.Method == mcp.MethodToolsCall
		})
		u := f.start(t, upstream.Config{Limits: upstream.Limits{Concurrent: 1}})
		running := make(chan error, 1)
		go func() {
			_, err := u.Handle(t.Context(), tool("a"))
			running <- err
		}()
		f.await(t, mcp.MethodToolsCall, 1)
		waiting := make(chan error, 20)
		for range cap(waiting) {
			go func() {
				_, err := u.Handle(t.Context(), tool("b"))
				waiting <- err
			}()
		}
		synctest.Wait()
		if n := u.Status().Queued; n != cap(waiting) {
			t.Errorf("%d calls wait for their turn", n)
		}
		soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := u.Close(soon); err != nil {
			t.Error(err)
		}
		wantError(t, <-running, mcp.CodeDraining, mcp.ExecutedUnknown)
		for range cap(waiting) {
			wantError(t, <-waiting, mcp.CodeDraining, mcp.ExecutedNo)
		}
		if n := len(f.requests(mcp.MethodToolsCall)); n != 1 {
			t.Errorf("the server got %d calls", n)
		}
	})
}
