package upstream_test

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// TestDegraded: a server that can be reached but does not answer is degraded.
func TestDegraded(t *testing.T) {
	var broken atomic.Bool
	f := fake.New(t, false, func(_ *fake.Server, w http.ResponseWriter, _ *http.Request, _ fake.Message) bool {
		if broken.Load() {
			_, _ = w.Write([]byte("<html>"))
		}
		return broken.Load()
	})
	u := f.Upstream(t, upstream.Config{Name: "u"})
	fake.WantOK(t, u, fake.Tool("a"))
	broken.Store(true)
	for i, want := range []upstream.State{upstream.StateReady, upstream.StateReady, upstream.StateDegraded} {
		if _, err := fake.Do(t, u, fake.Tool("a")); err == nil {
			t.Fatal("no error")
		}
		if got := u.Status().State; got != want {
			t.Errorf("after %d: %s, want %s", i+1, got, want)
		}
	}
	broken.Store(false)
	fake.WantOK(t, u, fake.Tool("a"))
	if s := u.Status(); s.State != upstream.StateReady || s.Last.Stage != upstream.StageCall {
		t.Errorf("back: %+v", s)
	}
}
