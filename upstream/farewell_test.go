package upstream_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// When a client session ends, its server is told that the calls are over before it
// is told that the session is: some servers end no call when the session ends. The time for
// this is limited.
func TestCallsEndBeforeTheirSession(t *testing.T) {
	for name, tt := range map[string]struct{ takes, want time.Duration }{
		"a server that takes its time": {2 * time.Second, 2 * time.Second},
		"a server that does not take":  {time.Hour, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, u := statefulBubbleFake(t, func(_ *fake, w http.ResponseWriter, r *http.Request, _ rpc) {
					events(w, ": here\n\n")
					<-r.Context().Done()
				})
				call := f.handle
				f.handle = func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
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
				c := tool("a")
				c.Session = "user:session"
				go func() {
					defer close(done)
					_, _ = u.Handle(ctx, c)
				}()
				f.await(t, mcp.MethodToolsCall, 1)
				began := time.Now()
				cancel()
				endSession(u, "user:session", true)
				<-done
				f.await(t, mcp.NoteCancelled, 1)
				f.await(t, http.MethodDelete, 1)
				if took := time.Since(began); took != tt.want {
					t.Errorf("the session ended after %s, want %s", took, tt.want)
				}
			})
		})
	}
}

// TestCloseIsBounded: a gateway that has to end does not wait for servers that heed nothing, and
// leaves none of its processes behind.
func TestCloseIsBounded(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]time.Duration{"time that runs out": 100 * time.Millisecond, "no time": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := start(t, command(t, "ignores SIGTERM"))
			number, env := pid(t, u, "u1:s")
			_, child, _ := strings.Cut(env, `"CHILD=`)
			child, _, _ = strings.Cut(child, `"`)
			hangs, runs, ended := tool("hang"), make(chan struct{}), make(chan error, 1)
			hangs.Session, hangs.Notify = "u1:s", func(mcp.Event) { close(runs) }
			hangs.Params = hangs.Params.With("_meta", mcp.Raw(`{"progressToken":1}`))
			go func() {
				_, err := u.Handle(context.WithoutCancel(t.Context()), hangs)
				ended <- err
			}()
			<-runs
			ctx, cancel := context.WithTimeout(t.Context(), before)
			defer cancel()
			began := time.Now()
			if err := u.Close(ctx); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > before+upstream.Overtime+time.Second { // a busy machine needs a moment
				t.Errorf("it took %s", took)
			}
			if lives(t, strconv.Itoa(number)) {
				t.Errorf("process %d lives", number)
			}
			awaitEnd(t, child)
			if err := <-ended; err == nil {
				t.Error("the call that hangs has a result")
			}
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
				f, u := statefulBubbleFake(t, func(_ *fake, w http.ResponseWriter, r *http.Request, _ rpc) {
					events(w, ": here\n\n")
					<-r.Context().Done()
				})
				call := f.handle
				f.handle = func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
					if m.Method == mcp.NoteCancelled && !tt.cancelled || r.Method == http.MethodDelete && !tt.deleted {
						<-r.Context().Done()
					}
					return call(f, w, r, m)
				}
				c, done := tool("a"), make(chan struct{})
				go func() {
					defer close(done)
					_, _ = u.Handle(t.Context(), c)
				}()
				f.await(t, mcp.MethodToolsCall, 1)
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
				f.await(t, mcp.NoteCancelled, 1)
				f.await(t, http.MethodDelete, 1)
			})
		})
	}
}
