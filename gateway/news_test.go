package gateway

import (
	"bufio"
	"fmt"
	"net"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// TestNewsIsCheap: a list that changed, and a reload, take little memory for each stream that hears of
// it, and leave its stacks small.
func TestNewsIsCheap(t *testing.T) {
	const streams = 300
	for _, tt := range []struct {
		name   string
		stacks float64 // KiB of all goroutines of a stream
		open   func(t *testing.T, url string) string
	}{
		{"streams of sessions", 22, func(t *testing.T, url string) string {
			client := mcptest.NewClient(url, wire.Lookup(stateful))
			if err := client.Open(t.Context()); err != nil {
				t.Fatal(err)
			}
			return "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n" +
				"Mcp-Session-Id: " + client.Session + "\r\n\r\n"
		}},
		{"subscriptions", 16, func(*testing.T, string) string {
			const filter = `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{` +
				`"notifications":{"toolsListChanged":true},"_meta":{` +
				`"io.modelcontextprotocol/protocolVersion":"` + stateless + `",` +
				`"io.modelcontextprotocol/clientCapabilities":{}}}}`
			return "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: application/json, text/event-stream\r\n" +
				"Content-Type: application/json\r\nMcp-Protocol-Version: " + stateless + "\r\n" +
				"Mcp-Method: subscriptions/listen\r\n" +
				fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(filter), filter)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := mcptest.NewServer(wire.Lookup(stateful))
			t.Cleanup(server.Close)
			server.OffersOnly(`{"tools":{"listChanged":true}}`)
			server.Tools("one", "hidden")
			const text = "upstreams: [{name: a, url: %q}]\nsessions: {max_per_user: 1000}\n" +
				"http: {streams_per_user: 1000}\npolicy: {default: allow, rules: [{name: r, deny: [\"tools:a/%s\"]}]}\n"
			c := startUnwatched(t, fmt.Sprintf(text, server.URL, "hidden"))
			address := strings.TrimSuffix(strings.TrimPrefix(c.URL(), "http://"), "/mcp")
			reader := bufio.NewReader(nil)
			until := func(conn net.Conn, prefix, part string) {
				t.Helper()
				reader.Reset(conn)
				_ = conn.SetDeadline(time.Now().Add(patience))
				for line := ""; !strings.HasPrefix(line, prefix) || !strings.Contains(line, part); {
					var err error
					if line, err = reader.ReadString('\n'); err != nil {
						t.Fatalf("no %s%s: %v", prefix, part, err)
					}
				}
			}
			var conns []net.Conn
			runtime.GC()
			var idle runtime.MemStats
			runtime.ReadMemStats(&idle)
			for range streams {
				request := tt.open(t, c.URL())
				conn, err := net.Dial("tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { conn.Close() })
				if _, err := conn.Write([]byte(request)); err != nil {
					t.Fatal(err)
				}
				until(conn, "", "data: ")
				conns = append(conns, conn)
			}
			for range 6 { // each time stacks shrink by half
				runtime.GC()
			}
			defer debug.SetGCPercent(debug.SetGCPercent(-1))
			measure := func(what string, burst func()) {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				burst()
				for _, conn := range conns {
					until(conn, "data: ", "tools/list_changed")
				}
				runtime.ReadMemStats(&after)
				heap := float64(after.TotalAlloc-before.TotalAlloc) / 1024 / streams
				stacks := (float64(after.StackInuse) - float64(idle.StackInuse)) / 1024 / streams
				t.Logf("%s: %.1f KiB in the heap, %.1f in stacks", what, heap, stacks)
				if (heap > 16 || stacks > tt.stacks) && !underRace() {
					t.Errorf("%s: that is more than 16 and %.0f", what, tt.stacks)
				}
			}
			measure("a list that changed", func() {
				server.Tools("one", "two", "hidden")
				server.Push("notifications/tools/list_changed", "{}")
			})
			measure("a reload", func() { c.reload(t, fmt.Sprintf(text, server.URL, "two")) })
		})
	}
}

// underRace reports whether the race detector runs, which enlarges stacks.
func underRace() bool {
	info, _ := debug.ReadBuildInfo()
	return slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
