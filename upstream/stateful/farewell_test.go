package stateful_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// When a client session ends, its server hears of the end of the calls before that of the
// session: some servers end no call when the session ends. The time for this is limited.
func TestCallsEndBeforeTheirSession(t *testing.T) {
	for name, tt := range map[string]struct{ takes, want time.Duration }{
		"a server that takes its time": {2 * time.Second, 2 * time.Second},
		"a server that does not take":  {time.Hour, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, u := statefulBubbleFake(t, func(_ *fake.Server, w http.ResponseWriter, r *http.Request, _ fake.Message) {
					fake.Events(w, ": here\n\n")
					<-r.Context().Done()
				})
				call := f.Handle
				f.Handle = func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
					if m.Method == mcp.NoteCancelled {
						select {
						case <-time.After(tt.takes):
						case <-r.Context().Done():
						}
					}
					return call(f, w, r, m)
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				c := fake.Tool("a")
				c.Session = "user:session"
				go func() {
					defer close(done)
					_, _ = u.Handle(ctx, c)
				}()
				f.Await(t, mcp.MethodToolsCall, 1)
				began := time.Now()
				cancel()
				u.EndSession("user:session", true)
				<-done
				f.Await(t, mcp.NoteCancelled, 1)
				f.Await(t, http.MethodDelete, 1)
				if took := time.Since(began); took != tt.want {
					t.Errorf("the session ended after %s, want %s", took, tt.want)
				}
			})
		})
	}
}

// TestCloseTellsServersInTime: calls that are cut off have half of the time for farewells, and the
// ends of sessions the other half.
func TestCloseTellsServersInTime(t *testing.T) {
	for name, tt := range map[string]struct {
		cancelled, deleted bool // whether the server takes these
		want               time.Duration
	}{
		"both":            {true, true, 0},
		"cancellations":   {true, false, 2 * time.Second},
		"ends":            {false, true, time.Second},
		"neither of them": {false, false, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, u := statefulBubbleFake(t, func(_ *fake.Server, w http.ResponseWriter, r *http.Request, _ fake.Message) {
					fake.Events(w, ": here\n\n")
					<-r.Context().Done()
				})
				call := f.Handle
				f.Handle = func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
					if m.Method == mcp.NoteCancelled && !tt.cancelled || r.Method == http.MethodDelete && !tt.deleted {
						<-r.Context().Done()
					}
					return call(f, w, r, m)
				}
				c, done := fake.Tool("a"), make(chan struct{})
				go func() {
					defer close(done)
					_, _ = u.Handle(t.Context(), c)
				}()
				f.Await(t, mcp.MethodToolsCall, 1)
				const before = 3 * time.Second
				ctx, cancel := context.WithTimeout(t.Context(), before)
				defer cancel()
				began := time.Now()
				if err := u.Close(ctx); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took != before+tt.want {
					t.Errorf("it took %s, want %s", took, before+tt.want)
				}
				<-done
				f.Await(t, mcp.NoteCancelled, 1)
				f.Await(t, http.MethodDelete, 1)
			})
		})
	}
}
