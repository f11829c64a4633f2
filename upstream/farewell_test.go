package upstream_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// P9/81: when a client session ends, its server is told that the calls are over before it
// is told that the session is: some servers end no call when the session ends. The time for
// this is limited.
func TestP9_081_CallsEndBeforeTheirSession(t *testing.T) {
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
				u.EndSession("user:session")
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
