package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// TestOwnerKilled kills the replica that owns clients' sessions, with their processes and
// event streams. Calls there that came through another replica are reported as lost; later
// calls get a new process or stream at once.
func TestOwnerKilled(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	program := filepath.Join(t.TempDir(), "carry") // TestMain recognizes this name
	if err := os.Symlink(os.Args[0], program); err != nil {
		t.Fatal(err)
	}
	began := make(chan string, 10)
	keeping := func(start func(*wire.Revision) *mcptest.Server) *mcptest.Server {
		server := start(wire.Lookup(serverRev))
		t.Cleanup(server.Close)
		server.Tools("count", "wait")
		var uses [1000]atomic.Int64 // by the number of the process
		server.On("tools/call", func(c *mcptest.Call) {
			var tool string
			if c.Param("name", &tool); tool == "wait" {
				began <- c.Session
				c.Hang()
				return
			}
			var process int
			_, _ = fmt.Sscanf(c.Session, "pipe-%d", &process)
			c.Text(fmt.Sprint(uses[process].Add(1)))
		})
		return server
	}
	lines, events := keeping(mcptest.NewServer), keeping(mcptest.NewSSEServer)
	address, err := lines.ListenLines()
	if err != nil {
		t.Fatal(err)
	}
	s := replicate(t, fmt.Sprintf("upstreams:\n- {name: lines, command: [%q, %q]}\n- {name: events, url: %q}\n", program,
		address, events.URL), "lines", "events")
	type forwarded struct {
		*mcptest.Exchange
		c *mcptest.Client
	}
	var lost []forwarded
	clients := map[string]*mcptest.Client{}
	for _, revision := range []string{clientRev, statelessRev} {
		c := s.clientOf(t, 0, revision, "{}")
		clients[revision] = c
		for _, name := range []string{"lines", "events"} {
			for n := range 3 { // the first is the owner
				if got := textOf(must(t, name, s.at(c, n), "tools/call", call(name+"__count", "x"))); got != fmt.Sprint(n+1) {
					t.Errorf("%s: client %s counted as %s at replica %d", name, revision, got, n)
				}
			}
			x, err := s.at(c, 1).Send(deadline(t), "tools/call", call(name+"__wait", "x"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(x.Close)
			lost = append(lost, forwarded{x, c})
			<-began
		}
	}
	s.replicas[0].signal(t, syscall.SIGKILL)
	s.replicas[0].wait(t)
	gone := time.Now()
	for _, revision := range []string{clientRev, statelessRev} {
		for _, name := range []string{"lines", "events"} {
			for n := range 4 {
				if got := textOf(must(t, name, s.at(clients[revision], 2-n%2), "tools/call",
					call(name+"__count", "x"))); got != fmt.Sprint(n+1) {
					t.Errorf("%s: after the end of its replica client %s counted as %s, want %d", name, revision, got, n+1)
				}
			}
		}
	}
	for _, x := range lost {
		m, err := x.Response()
		if id := x.LastEventID(); err != nil && id != "" { // in a session the client can ask for the rest
			again, getErr := s.at(x.c, 2).Get(deadline(t), id)
			if getErr != nil {
				t.Fatal(getErr)
			}
			defer again.Close()
			m, err = again.Response()
		}
		wantLost(t, "a call at the replica that was killed", m, err)
	}
	wantWithin(t, "new processes, and to say what is lost", soon, gone)
}
