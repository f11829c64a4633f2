package e2e

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestIdleStreams: the memory of an idle stream is bounded.
func TestIdleStreams(t *testing.T) {
	mcptest.Long(t)
	const streams = 200
	// This measures 21 to 29 KiB, including the client's end of the connection; make bench
	// measures the gateway alone. make test also runs it without the race detector, which
	// enlarges stacks. The limit covers all kinds together, because the runtime may release
	// the stacks of one kind while the next kind is measured.
	limit := int64(3 * 28 << 10)
	if raceEnabled {
		limit = 3 * 80 << 10
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
	sum := int64(0)
	for _, tt := range []struct {
		name    string
		request func(i int) string
		first   string                                   // prefix of the first line after the stream is open
		begin   func(t *testing.T, address, path string) // a session, where that line says at which path; nil for none
	}{
		{"of sessions", func(i int) string {
			return "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nMcp-Session-Id: " +
				sessions[i].Session + "\r\n\r\n"
		}, "id: ", nil},
		{"of subscriptions", func(int) string {
			return "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\n" +
				"Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n" +
				fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(filter), filter)
		}, "data: ", nil},
		{"of HTTP+SSE", func(int) string {
			return "GET /sse HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
		}, "data: ", beginOld},
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
			until := func(prefix string) (line string) {
				for !strings.HasPrefix(line, prefix) {
					if line, err = reader.ReadString('\n'); err != nil {
						t.Fatalf("%s: %q %v", tt.name, line, err)
					}
				}
				return strings.TrimSpace(line[len(prefix):])
			}
			path := until(tt.first)
			if tt.begin != nil {
				tt.begin(t, address, path)
				until("data: ") // the answer
			}
			_ = conn.SetDeadline(time.Time{})
		}
		open(0) // what is allocated once
		before := inUse()
		for i := 1; i < streams; i++ {
			open(i)
		}
		each := (inUse() - before) / (streams - 1)
		t.Logf("%s: %d bytes each", tt.name, each)
		sum += each
	}
	if sum > limit {
		t.Errorf("a stream of each kind holds %d bytes, want at most %d", sum, limit)
	}
}

// beginOld begins the session of an HTTP+SSE stream.
func beginOld(t *testing.T, address, path string) {
	t.Helper()
	for _, message := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
	} {
		resp, err := http.Post("http://"+address+path, "application/json", strings.NewReader(message))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusAccepted {
			t.Fatalf("HTTP+SSE: %s", resp.Status)
		}
	}
}

// inUse returns what this process holds in heap and stacks.
func inUse() int64 {
	for range 6 { // sync.Pools release what they hold, and each time stacks shrink by half
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
