package upstream_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// TestCloseIsBounded: a gateway that has to end does not wait for servers that heed nothing, and
// leaves none of its processes behind.
func TestCloseIsBounded(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]time.Duration{"time that runs out": 100 * time.Millisecond, "no time": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := fake.Start(t, fake.Command(t, "ignores SIGTERM"))
			number, env := fake.PID(t, u, "u1:s")
			_, child, _ := strings.Cut(env, `"CHILD=`)
			child, _, _ = strings.Cut(child, `"`)
			hangs, runs, ended := fake.Tool("hang"), make(chan struct{}), make(chan error, 1)
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
			if took := time.Since(began); took > before+upstream.Overtime+20*time.Second { // a busy machine needs a moment
				t.Errorf("it took %s", took)
			}
			if fake.Lives(t, strconv.Itoa(number)) {
				t.Errorf("process %d lives", number)
			}
			fake.AwaitEnd(t, child)
			if err := <-ended; err == nil {
				t.Error("the call that hangs has a result")
			}
		})
	}
}
