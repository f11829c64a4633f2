package http1

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

func TestMain(m *testing.M) { mcptest.VerifyMain(m) }

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

// server is a TCP server whose every byte a test writes: serve has a connection for
// itself, and its number, from 0 on. The connection is closed when serve returns.
type server struct {
	url  string
	seen chan struct{} // one for each connection

	mu    sync.Mutex // guards conns
	conns []net.Conn
}

func newServer(t *testing.T, serve func(n int, c *peer)) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{url: "http://" + l.Addr().String(), seen: make(chan struct{}, 1000)}
	var running sync.WaitGroup
	running.Go(func() {
		for n := 0; ; n++ {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, nc)
			s.mu.Unlock()
			s.seen <- struct{}{}
			running.Go(func() {
				defer nc.Close()
				serve(n, &peer{t: t, Conn: nc, in: bufio.NewReader(nc)})
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		s.mu.Lock()
		for _, nc := range s.conns {
			nc.Close()
		}
		s.mu.Unlock()
		running.Wait()
	})
	return s
}

func (s *server) host() string { return strings.TrimPrefix(s.url, "http://") }

// connections is how many there were.
func (s *server) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// peer is the server's end of a connection.
type peer struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

// request reads the next request with its body; nil when the connection has ended.
func (p *peer) request() (*http.Request, string) {
	req, err := http.ReadRequest(p.in)
	if err != nil {
		return nil, ""
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, ""
	}
	return req, string(body)
}

// say writes; that the other end has gone is for the test to notice there.
func (p *peer) say(text string) { _, _ = io.WriteString(p.Conn, text) }

// answerAll answers all requests with ok.
func (p *peer) answerAll() {
	for {
		if req, _ := p.request(); req == nil {
			return
		}
		p.say(ok)
	}
}

// ended waits until the other end has closed the connection.
func (p *peer) ended() bool {
	_ = p.SetReadDeadline(time.Now().Add(patience))
	_, err := io.Copy(io.Discard, p.in)
	timeout, ok := err.(net.Error)
	return !ok || !timeout.Timeout()
}

func newTransport(t *testing.T, cfg Config) *Transport {
	t.Helper()
	tr := New(cfg)
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

func post(t *testing.T, url, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// do makes a request and reads the answer to its end.
func do(tr *Transport, req *http.Request) (status int, body string, err error) {
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), err
}

func wantOK(t *testing.T, tr *Transport, req *http.Request, want string) {
	t.Helper()
	if _, body, err := do(tr, req); err != nil || body != want {
		t.Errorf("answer %q, error %v; want %q", body, err, want)
	}
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

var (
	errDeaf = errors.New("broken pipe")
	errLeft = errors.New("the caller has left")
)
