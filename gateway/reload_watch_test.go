package gateway

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestLastGoodStays: a file that is deleted, half-written or changed again and again
// changes nothing until there is a good one, which is then applied.
func TestLastGoodStays(t *testing.T) {
	p := newSite(t, true, one("work", saying("x")))
	upstreams := fmt.Sprintf("upstreams: [{name: a, url: %q}]\n", p.url)
	c := startConfigured(t, upstreams)
	session := connect(t, c.Gateway, stateless)
	ctx, cancel := context.WithCancel(t.Context())
	var calls atomic.Int64
	var calling sync.WaitGroup
	calling.Go(func() {
		for ctx.Err() == nil {
			if got, err := callTool(t.Context(), session, "a__work"); err != nil || got != "x" {
				t.Errorf("a call: %q, %v", got, err)
				return
			}
			calls.Add(1)
		}
	})
	defer calling.Wait()
	defer cancel()

	held := c.graph()
	if err := os.Remove(c.file); err != nil {
		t.Fatal(err)
	}
	told := func(what string) {
		t.Helper()
		eventually(t, what, func() bool {
			err := c.ReloadStatus().Err
			return err != nil && strings.Contains(err.Error(), what)
		})
	}
	told("cannot be read")
	c.write(t, "upstreams: [")
	told(":2:")
	if c.graph() != held {
		t.Error("something was replaced")
	}
	for i := range 100 {
		c.write(t, fmt.Sprintf("%sshutdown_timeout: %ds\n", upstreams, i+1))
	}
	cancel()
	calling.Wait() // the last one allows none
	c.write(t, upstreams+"policy: {default: deny}\n")
	eventually(t, "the last one holds", func() bool { return len(listTools(t, session)) == 0 })
	if calls.Load() == 0 {
		t.Error("no call was made meanwhile")
	}
}
