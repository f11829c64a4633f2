package upstream_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestProgressOfNoCall: only messages with the call's own token, before its answer,
// are its progress.
func TestProgressOfNoCall(t *testing.T) {
	for _, stateful := range []bool{true, false} {
		t.Run(fmt.Sprintf("stateful=%v", stateful), func(t *testing.T) {
			f := newFake(t, stateful, func(_ *fake, w http.ResponseWriter, _ *http.Request, m rpc) bool {
				if m.Method != mcp.MethodToolsCall {
					return false
				}
				step := func(token, n string) string {
					return `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + token +
						`,"progress":` + n + "}}\n\n"
				}
				id := string(m.ID)
				events(w, step("4711", "1")+step(`"`+id+`0"`, "2")+step("null", "3")+step(id, "4")+event(m, "",
					okResult)+step(id, "5"))
				return true
			})
			u := start(t, upstream.Config{URL: f.URL})
			c := tool("a")
			var told []string
			c.Notify = func(e mcp.Event) {
				n, _ := e.Params.Member("progress")
				told = append(told, string(n))
			}
			wantOK(t, u, c)
			if got := strings.Join(told, " "); got != "4" {
				t.Errorf("told of %s, want 4 alone", got)
			}
		})
	}
}

// TestSessionsLostAtOnce: a server that forgets all sessions, as after a restart, gets
// them back a few at a time, and no call is lost.
func TestSessionsLostAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const sessions, atOnce = 200, 20
		var mu sync.Mutex // guards the rest
		known, made, opening, most := map[string]bool{}, 0, 0, 0
		var times []time.Time
		f := newBubbleFake(t, true, func(_ *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case m.Method == mcp.MethodInitialize:
				opening++
				most = max(most, opening)
				times = append(times, time.Now())
				mu.Unlock()
				time.Sleep(50 * time.Millisecond) // of the bubble
				mu.Lock()
				opening--
				made++
				id := fmt.Sprint("s", made)
				known[id] = true
				w.Header().Set("Mcp-Session-Id", id)
				result(w, m, `{"protocolVersion":"2025-11-25","capabilities":{}}`)
			case m.Method == mcp.MethodToolsCall && !known[r.Header.Get("Mcp-Session-Id")]:
				w.WriteHeader(http.StatusNotFound)
			default:
				return false
			}
			return true
		})
		u := f.start(t, upstream.Config{Limits: upstream.Limits{Concurrent: sessions}})
		all := func() {
			var calls sync.WaitGroup
			for i := range sessions {
				calls.Go(func() {
					c := tool("a")
					c.Session = fmt.Sprint("user:", i)
					if reply, err := u.Handle(t.Context(), c); err != nil || string(reply.Result) != okResult {
						t.Errorf("session %d: %v", i, err)
					}
				})
			}
			calls.Wait()
		}
		all()
		mu.Lock()
		clear(known)
		made, most, times = 0, 0, nil
		mu.Unlock()
		all()
		if made != sessions || most != atOnce {
			t.Errorf("%d sessions were opened, %d at once; want each once, and %d", made, most, atOnce)
		}
		apart := map[time.Time]int{}
		for _, at := range times[atOnce:] {
			apart[at]++
		}
		if len(apart) < sessions/4 {
			t.Errorf("those that had to wait came at only %d different times", len(apart))
		}
	})
}

// TestClosedAtReuse: if the server closes a connection just after the next request was
// written to it, that request is not written again.
func TestClosedAtReuse(t *testing.T) {
	for _, client := range []string{"own", "standard"} {
		t.Run(client, func(t *testing.T) {
			s := newCloser(t)
			u := start(t, upstream.Config{URL: "http://" + s.listener.Addr().String() + "/mcp", Revision: "2026-07-28",
				HTTPClient: client})
			wantOK(t, u, tool("a"))
			_, err := do(t, u, tool("close"))
			wantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
			wantOK(t, u, tool("a"))
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.closed != 1 || !s.again {
				t.Errorf("the request came %d times, want once, on a connection that was used before: %v", s.closed, s.again)
			}
		})
	}
}

// closer is a server that ends the connection on which the tool "close" is called.
type closer struct {
	listener net.Listener
	conns    sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	closed int        // how often it was asked
	again  bool       // on a connection that was used before
}

func newCloser(t *testing.T) *closer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &closer{listener: listener}
	s.conns.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.conns.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		s.conns.Wait() // the client has closed its connections by then
	})
	return s
}

func (s *closer) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for used := false; ; used = true {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		name, _ := mcp.Raw(body).Member("params")
		name, _ = name.Member("name")
		if name.Text() == "close" {
			s.mu.Lock()
			s.closed++
			s.again = used
			s.mu.Unlock()
			return
		}
		id, _ := mcp.Raw(body).Member("id")
		answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, okResult)
		fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			len(answer), answer)
	}
}
