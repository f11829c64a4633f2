package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// newcomers has users join during an attack, with clients of both eras: all their calls
// must be answered.
func (s *siege) newcomers(t *testing.T, echo string, users ...string) {
	t.Helper()
	for _, user := range users {
		for _, revision := range []string{clientRev, statelessRev} {
			if err := echoes(s.as(t, user, revision, "{}"), echo, user); err != nil {
				t.Errorf("%s (%s): %v", user, revision, err)
			}
		}
	}
}

// madeUp is a call of a stateless client with an invented name.
func madeUp(tool string, n int) string {
	return fmt.Sprintf(`{"name":%q,"arguments":{"key":"made-up-%d"},"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"client-%d","version":"1"}}}`, tool, n, n)
}

// flood makes calls until the returned function is called, which waits for them to end.
func flood(t *testing.T, c *mcptest.Client, calls int, tool string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all, answered sync.WaitGroup
	for n := range calls {
		answered.Add(1)
		all.Go(func() {
			once := sync.OnceFunc(answered.Done)
			defer once()
			timer := time.AfterFunc(2*time.Second, once) // it is under way, or queued
			defer timer.Stop()
			if x, err := c.Send(ctx, "tools/call", madeUp(tool, n)); err == nil {
				_, _ = x.Response() // a refusal, or no answer before the end
				x.Close()
			}
		})
	}
	answered.Wait()
	return func() { cancel(); all.Wait() }
}

// TestSiegeMadeUpClients: alice calls under the names of many clients, each of which gets a
// session or process, and holds all that she gets.
func TestSiegeMadeUpClients(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	program := filepath.Join(t.TempDir(), "carry") // TestMain recognizes this name
	if err := os.Symlink(os.Args[0], program); err != nil {
		t.Fatal(err)
	}
	sessions, processes := newWorker(t, serverRev), newWorker(t, serverRev)
	address, err := processes.ListenLines()
	if err != nil {
		t.Fatal(err)
	}
	const places = 16
	s := besiege(t,
		fmt.Sprintf("upstreams:\n- {name: sessions, url: %q, limits: {sessions: %d}}\n- {name: processes, command: [%q, %q], limits: {sessions: %d}}\n",
			sessions.URL, places, program, address, places), "sessions", "processes")
	for name, w := range map[string]*worker{"sessions": sessions, "processes": processes} {
		t.Run(name, func(t *testing.T) {
			s.undisturbed(t, name+"__echo", func() {
				stop := flood(t, s.as(t, "alice", statelessRev, "{}"), 4*places, name+"__wait")
				defer stop()
				s.newcomers(t, name+"__echo", "carol")
				if _, open, _ := w.Load(); open > places {
					t.Errorf("the server has %d sessions, and may have %d", open, places)
				}
			})
		})
	}
}

// TestSiegeSlowCalls: alice makes more calls than may run at a server, none of which ends.
func TestSiegeSlowCalls(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	up := newWorker(t, statelessRev)
	s := besiege(t, fmt.Sprintf("upstreams:\n- {name: up, url: %q, limits: {concurrent: 20}}\n", up.URL), "up")
	s.undisturbed(t, "up__echo", func() {
		stop := flood(t, s.as(t, "alice", statelessRev, "{}"), 100, "up__wait")
		defer stop()
		s.newcomers(t, "up__echo", "carol", "dave")
	})
}

// TestSiegeConnections: one address repeatedly opens more connections than allowed, with
// half a request on each, while other clients connect from that address and from elsewhere.
func TestSiegeConnections(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	const most = 1000
	up := newWorker(t, statelessRev)
	s := besiege(t, fmt.Sprintf("connections: {max: %d}\nupstreams:\n- {name: up, url: %q}\n", most, up.URL), "up")
	host := strings.TrimPrefix(s.endpoint(), "http://")
	host = host[:strings.IndexByte(host, '/')]
	s.undisturbed(t, "up__echo", func() {
		for _, from := range []string{"127.0.0.1", "127.0.0.2"} {
			dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
			var held []net.Conn
			open := func() error {
				conn, err := dialer.DialContext(t.Context(), "tcp", host)
				if err != nil {
					return err
				}
				held = append(held, conn)
				half := "POST /mcp HTTP/1.1\r\nHost: local"
				if len(held)%2 == 0 {
					half = "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{"
				}
				_, _ = io.WriteString(conn, half) // fails on a connection that had to make room
				return nil
			}
			for range most {
				if err := open(); err != nil {
					t.Skipf("this system has no %s: %v", from, err) // not all have a second loopback address
				}
			}
			over, more := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(more)
				tick := time.NewTicker(5 * time.Millisecond)
				defer tick.Stop()
				for range 4 * most {
					select {
					case <-tick.C:
						_ = open()
					case <-over:
						return
					}
				}
			}()
			begun := time.Now()
			s.newcomers(t, "up__echo", "carol", "dave")
			wantWithin(t, "the calls of newcomers", siegePatience/2, begun)
			close(over)
			<-more
			for _, conn := range held {
				conn.Close()
			}
		}
	})
}

// TestSiegeEventsWithoutAnEnd: alice opens sessions at a server that sends events without
// an end on all streams. The gateway bounds how much of them it reads.
func TestSiegeEventsWithoutAnEnd(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	const sessions, piece, pieces = 25, 64 << 10, 240 // 15 MiB of each event
	begun := make(chan struct{}, 1000)                // receives a value for each event that was sent as far as possible
	bad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.NewDecoder(r.Body).Decode(&m) // a GET has none
		switch {
		case r.Method == http.MethodGet:
			w.Header().Set("Content-Type", "text/event-stream")
			_, err := io.WriteString(w, "data: ")
			for range pieces {
				if err == nil {
					_, err = io.WriteString(w, strings.Repeat("x", piece))
				}
			}
			begun <- struct{}{}
			if err == nil {
				<-r.Context().Done()
			}
		case m.ID == nil:
			w.WriteHeader(http.StatusAccepted)
		default:
			result := `{"content":[]}`
			switch m.Method {
			case "server/discover":
				w.WriteHeader(http.StatusBadRequest)
				return
			case "initialize":
				w.Header().Set("Mcp-Session-Id", fmt.Sprint(time.Now().UnixNano()))
				result = fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"bad","version":"1"}}`, serverRev)
			case "tools/list":
				result = `{"tools":[{"name":"do","inputSchema":{"type":"object"}}]}`
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
		}
	}))
	t.Cleanup(bad.Close)
	up := newWorker(t, statelessRev)
	s := besiegeWith(t, siegeConfig{http: ", max_in_flight_bytes: 32MiB",
		rest: fmt.Sprintf("upstreams:\n- {name: up, url: %q}\n- {name: bad, url: %q}\n", up.URL, bad.URL)}, "up", "bad")
	before := s.heap(t)
	s.undisturbed(t, "up__echo", func() {
		for range sessions {
			c := s.as(t, "alice", clientRev, `{"elicitation":{}}`)
			must(t, "alice", c, "tools/call", `{"name":"bad__do","arguments":{}}`)
		}
		for range sessions {
			select {
			case <-begun:
			case <-deadline(t).Done():
				t.Fatal("the events are not read")
			}
		}
		s.newcomers(t, "up__echo", "carol")
		if grown := s.heap(t) - before; grown > 200<<20 {
			t.Errorf("the gateway holds %d MiB for events that do not end, of which it may hold 16", grown>>20)
		}
	})
}

// heap returns the size of the gateway's heap, in bytes, including garbage not collected
// yet.
func (s *siege) heap(t *testing.T) int {
	t.Helper()
	resp, err := http.Get(s.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\ngo_memstats_heap_inuse_bytes ")
	var bytes float64
	if _, err := fmt.Sscan(rest, &bytes); err != nil {
		t.Fatal(err)
	}
	return int(bytes)
}
