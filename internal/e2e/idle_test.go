package e2e

import (
	"bufio"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestIdleStreams: what an idle stream costs is bounded (H/252).
func TestIdleStreams(t *testing.T) {
	const streams = 200
	// About 50 KiB are measured, with the client's end of the connection, where H/252 wants
	// 30: this keeps it from growing.
	limit := int64(60 << 10)
	if raceEnabled { // whose instrumentation makes stacks larger
		limit *= 2
	}
	s := doing(t)
	cfg := gateway.Config{Upstreams: []upstream.Config{{Name: "up", URL: s.URL}}}
	cfg.Sessions.MaxPerUser = 2 * streams
	url := start(t, cfg)
	address := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/mcp")
	var sessions []*mcptest.Client
	for range streams {
		sessions = append(sessions, opened(t, url, statefulClient))
	}
	const filter = `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	for _, tt := range []struct {
		name    string
		request func(i int) string
		first   string // the beginning of the first line that says that it is open
	}{
		{"of sessions", func(i int) string {
			return "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nMcp-Session-Id: " + sessions[i].Session + "\r\n\r\n"
		}, "id: "},
		{"of subscriptions", func(int) string {
			return "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\n" +
				"Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n" +
				fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(filter), filter)
		}, "data: "},
	} {
		reader := bufio.NewReaderSize(nil, 4096)
		open := func(i int) {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			_ = conn.SetDeadline(time.Now().Add(patience))
			if _, err := conn.Write([]byte(tt.request(i))); err != nil {
				t.Fatal(err)
			}
			reader.Reset(conn)
			for line := ""; !strings.HasPrefix(line, tt.first); {
				if line, err = reader.ReadString('\n'); err != nil {
					t.Fatalf("%s: %q %v", tt.name, line, err)
				}
			}
			_ = conn.SetDeadline(time.Time{})
		}
		open(0) // what is made once
		before := inUse()
		for i := 1; i < streams; i++ {
			open(i)
		}
		each := (inUse() - before) / (streams - 1)
		t.Logf("%s: %d bytes each", tt.name, each)
		if each > limit {
			t.Errorf("H/252 streams %s hold %d bytes each, want at most %d", tt.name, each, limit)
		}
	}
}

// inUse is what this process holds in heap and stacks.
func inUse() int64 {
	for range 6 { // sync.Pools give up what they hold, and each time stacks shrink by half
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
