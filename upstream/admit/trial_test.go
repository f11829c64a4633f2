package admit_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// TestLongTrial: the trial call may take as long as any call: others do not wait for
// its end.
func TestLongTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		f := fake.NewBubble(t, false, func(_ *fake.Server, w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
			if broken.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
				return true
			}
			if m.Method == mcp.MethodToolsCall && strings.Contains(string(m.Params), `"long"`) {
				time.Sleep(50 * time.Second) // of the bubble
			}
			return false
		})
		u := f.Upstream(t, upstream.Config{Name: "u", Timeout: upstream.Timeout{Call: 55 * time.Second}})
		fake.WantOK(t, u, fake.Tool("a"))
		broken.Store(true)
		for range 6 {
			if _, err := fake.Do(t, u, fake.Tool("a")); err == nil {
				t.Fatal("no error")
			}
		}
		broken.Store(false)
		time.Sleep(time.Minute)
		ended := make(chan error, 1)
		go func() {
			_, err := u.Handle(t.Context(), fake.Tool("long"))
			ended <- err
		}()
		synctest.Wait()
		refused := func() bool {
			_, err := u.Handle(t.Context(), fake.Tool("a"))
			return mcp.HasCode(err, mcp.CodeUpstreamUnreachable)
		}
		if !refused() {
			t.Error("a second call is let through to see")
		}
		time.Sleep(40 * time.Second)
		for range 2 {
			if refused() {
				t.Error("the server is back, and calls wait for the end of the one that sees")
			}
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
