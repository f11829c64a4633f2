package stateful_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// TestSessionsLostAtOnce: a server that forgets all sessions, as after a restart, gets
// them back a few at a time, and no call is lost.
func TestSessionsLostAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const sessions, atOnce = 200, 20
		var mu sync.Mutex // guards the rest
		known, made, opening, most := map[string]bool{}, 0, 0, 0
		var times []time.Time
		f := fake.NewBubble(t, true, func(_ *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case m.Method == mcp.MethodInitialize:
				opening++
				most = max(most, opening)
				times = append(times, time.Now())
				mu.Unlock()
				time.Sleep(50 * time.Millisecond) // of the bubble
				mu.Lock()
				opening--
				made++
				id := fmt.Sprint("s", made)
				known[id] = true
				w.Header().Set("Mcp-Session-Id", id)
				fake.Result(w, m, `{"protocolVersion":"2025-11-25","capabilities":{}}`)
			case m.Method == mcp.MethodToolsCall && !known[r.Header.Get("Mcp-Session-Id")]:
				w.WriteHeader(http.StatusNotFound)
			default:
				return false
			}
			return true
		})
		u := f.Upstream(t, upstream.Config{Limits: upstream.Limits{Concurrent: sessions}})
		all := func() {
			var calls sync.WaitGroup
			for i := range sessions {
				calls.Go(func() {
					c := fake.Tool("a")
					c.Session = fmt.Sprint("user:", i)
					if reply, err := u.Handle(t.Context(), c); err != nil || string(reply.Result) != fake.OK {
						t.Errorf("session %d: %v", i, err)
					}
				})
			}
			calls.Wait()
		}
		all()
		mu.Lock()
		clear(known)
		made, most, times = 0, 0, nil
		mu.Unlock()
		all()
		if made != sessions || most != atOnce {
			t.Errorf("%d sessions were opened, %d at once; want each once, and %d", made, most, atOnce)
		}
		apart := map[time.Time]int{}
		for _, at := range times[atOnce:] {
			apart[at]++
		}
		if len(apart) < sessions/4 {
			t.Errorf("those that had to wait came at only %d different times", len(apart))
		}
	})
}
