package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// TestSiegeLogsOfASharedProcess: a process keeps writing log messages for a call that alice
// has cancelled. Nobody else receives them, with or without a log level set.
func TestSiegeLogsOfASharedProcess(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "carry") // TestMain recognizes this name
	if err := os.Symlink(os.Args[0], program); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, revision, how string }{
		{"stateful", serverRev, ", shared: true"},
		{"stateless", statelessRev, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cancelled, over := make(chan struct{}), make(chan struct{})
			server := mcptest.NewServer(wire.Lookup(tt.revision))
			t.Cleanup(server.Close)
			server.Tools("echo", "grudge")
			server.On("tools/call", func(c *mcptest.Call) {
				var name, key string
				c.Param("name", &name)
				c.Param("arguments|key", &key)
				if name == "echo" {
					c.Text("echo " + key)
					return
				}
				c.Progress(1)
				<-c.Done()
				tick := time.NewTicker(time.Millisecond)
				defer tick.Stop()
				for first := true; ; first = false {
					c.Notify("notifications/message", `{"level":"emergency","data":"the secret of alice"}`)
					if first {
						close(cancelled)
					}
					select {
					case <-over:
						return
					case <-tick.C:
					}
				}
			})
			address, err := server.ListenLines()
			if err != nil {
				t.Fatal(err)
			}
			s := besiege(t, fmt.Sprintf("upstreams:\n- {name: up, command: [%q, %q]%s}\n", program, address, tt.how), "up")
			s.undisturbed(t, "up__echo", func() {
				defer close(over)
				alice := s.as(t, "alice", statelessRev, "{}")
				x, err := alice.Send(deadline(t), "tools/call", call("up__grudge", "x"))
				if err != nil {
					t.Error(err)
					return
				}
				defer x.Close()
				if _, err := x.Until("notifications/progress"); err != nil {
					t.Error(err)
				}
				x.Close()
				select {
				case <-cancelled:
				case <-deadline(t).Done():
					t.Error("alice's call is not cancelled")
					return
				}
				carol, dave := s.as(t, "carol", clientRev, "{}"), s.as(t, "dave", statelessRev, "{}")
				must(t, "carol wants all log messages", carol, "logging/setLevel", `{"level":"debug"}`)
				dave.LogLevel = "debug"
				for n := range 20 {
					for _, c := range []*mcptest.Client{carol, dave} {
						if err := echoes(c, "up__echo", fmt.Sprint(n)); err != nil {
							t.Errorf("%s: %v", c.Revision.Name, err)
						}
					}
				}
			})
		})
	}
}
