package dial_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// TestClosedAtReuse: if the server closes a connection just after the next request was
// written to it, that request is not written again.
func TestClosedAtReuse(t *testing.T) {
	for _, client := range []string{"own", "standard"} {
		t.Run(client, func(t *testing.T) {
			s := newCloser(t)
			u := fake.Start(t, upstream.Config{URL: "http://" + s.listener.Addr().String() + "/mcp", Revision: "2026-07-28",
				HTTPClient: client})
			fake.WantOK(t, u, fake.Tool("a"))
			_, err := fake.Do(t, u, fake.Tool("close"))
			fake.WantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
			fake.WantOK(t, u, fake.Tool("a"))
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
		answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, fake.OK)
		fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			len(answer), answer)
	}
}
