package admit_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

func TestConcurrencyLimit(t *testing.T) {
	const places, waiting = 2, 4000
	arrived, release := make(chan struct{}, places+waiting), make(chan struct{})
	f := fake.New(t, false, func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		if m.Method == mcp.MethodToolsCall {
			arrived <- struct{}{}
			<-release
		}
		return false
	})
	u := fake.Start(t, upstream.Config{URL: f.URL, Limits: upstream.Limits{Concurrent: places}})
	outcome := make(chan error, places+waiting+8)
	for range places + waiting + 8 {
		go func() {
			_, err := u.Handle(t.Context(), fake.Tool("a"))
			outcome <- err
		}()
	}
	for range 8 {
		fake.WantError(t, <-outcome, mcp.CodeOverloaded, mcp.ExecutedNo)
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
		f := fake.NewBubble(t, false, func(_ *fake.Server, _ http.ResponseWriter, r *http.Request, m fake.Message) bool {
			if m.Method == mcp.MethodToolsCall {
				<-r.Context().Done()
			}
			return m.Method == mcp.MethodToolsCall
		})
		u := f.Upstream(t, upstream.Config{Limits: upstream.Limits{Concurrent: 1}})
		running := make(chan error, 1)
		go func() {
			_, err := u.Handle(t.Context(), fake.Tool("a"))
			running <- err
		}()
		f.Await(t, mcp.MethodToolsCall, 1)
		waiting := make(chan error, 20)
		for range cap(waiting) {
			go func() {
				_, err := u.Handle(t.Context(), fake.Tool("b"))
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
		fake.WantError(t, <-running, mcp.CodeDraining, mcp.ExecutedUnknown)
		for range cap(waiting) {
			fake.WantError(t, <-waiting, mcp.CodeDraining, mcp.ExecutedNo)
		}
		if n := len(f.Requests(mcp.MethodToolsCall)); n != 1 {
			t.Errorf("the server got %d calls", n)
		}
	})
}
