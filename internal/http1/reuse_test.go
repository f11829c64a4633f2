//go:build unix

package http1

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestConnectionIsUsedAgain(t *testing.T) {
	answers := []string{
		ok,
		"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX: y\r\n\r\n",
		"HTTP/1.1 204 No Content\r\n\r\n",
		"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 20<<10) + "\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 100000),
	}
	s := newServer(t, func(_ int, p *peer) {
		for _, answer := range answers {
			if req, body := p.request(); req == nil || body != "hello" {
				t.Errorf("request %v, body %q", req, body)
			}
			p.say(answer)
		}
		p.ended()
	})
	tr := newTransport(t, Config{})
	for range answers {
		if _, _, err := do(tr, post(t, s.url, "hello")); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.connections(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// What is left behind an answer is never taken for the next one: not what came with
// it, and not what came while nobody asked.
func TestNothingIsReadThatWasNotAskedFor(t *testing.T) {
	const evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
	for _, tt := range []struct{ name, answer, later string }{
		{"a second answer at once", ok + evil, ""},
		{"a second answer after chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n" + evil,
			""},
		{"a second answer later", ok, evil},
		{"half an answer later", ok, evil[:10]},
		{"one byte later", ok, "\n"},
		{"the server's good-bye", ok, "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n"},
		{"a body after 204", "HTTP/1.1 204 No Content\r\n\r\nok" + evil, ""},
		{"a body after 204 later", "HTTP/1.1 204 No Content\r\n\r\n", "ok" + evil},
		{"a body after 304", "HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\nok" + evil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			said := make(chan struct{})
			s := newServer(t, func(n int, p *peer) {
				if n > 0 {
					p.answerAll()
					return
				}
				p.request()
				p.say(tt.answer)
				<-said
				p.say(tt.later)
				said <- struct{}{}
				if req, _ := p.request(); req != nil {
					t.Error("a second request came on the spoilt connection")
				}
			})
			tr := newTransport(t, Config{})
			if _, body, err := do(tr, post(t, s.url, "1")); err != nil || strings.Contains(body, "evil") {
				t.Fatalf("body %q, error %v", body, err)
			}
			said <- struct{}{}
			<-said
			if tt.later != "" {
				arrive(t, tr, s)
			}
			for range 3 {
				wantOK(t, tr, post(t, s.url, "2"), "ok")
			}
		})
	}
}

// What a server says on a new connection before anything was asked is not taken for an
// answer either.
func TestServerSpeaksFirst(t *testing.T) {
	for _, greeting := range []string{"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", "\n", ""} {
		spoken := make(chan struct{})
		s := newServer(t, func(_ int, p *peer) {
			p.say(greeting)
			if greeting == "" {
				p.Close()
			}
			close(spoken)
			if req, _ := p.request(); req != nil {
				t.Errorf("after %q a request came", greeting)
			}
		})
		tr := newTransport(t, Config{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			nc, err := (&net.Dialer{}).DialContext(ctx, network, address)
			if err == nil {
				<-spoken
				hear(t, newConn(nc, address))
			}
			return nc, err
		}})
		if _, body, err := do(tr, post(t, s.url, "1")); !errors.Is(err, ErrNotSent) {
			t.Errorf("after %q: body %q, error %v", greeting, body, err)
		}
	}
}

// A connection that was idle for as long as it is kept is not used again, even if nothing
// has closed it yet.
func TestOldConnectionIsNotUsedAgain(t *testing.T) {
	s := newServer(t, func(_ int, p *peer) { p.answerAll() })
	tr := newTransport(t, Config{IdleTime: time.Hour})
	age := func(by time.Duration) {
		c := tr.pool.pop(s.host())
		if c == nil || !tr.pool.push(c) {
			t.Fatal("no connection is idle")
		}
		c.since = c.since.Add(-by)
	}
	wantOK(t, tr, post(t, s.url, "1"), "ok")
	age(59 * time.Minute)
	wantOK(t, tr, post(t, s.url, "2"), "ok")
	if n := s.connections(); n != 1 {
		t.Errorf("%d connections, want the first used again", n)
	}
	age(61 * time.Minute)
	wantOK(t, tr, post(t, s.url, "3"), "ok")
	if n := s.connections(); n != 2 || idle(tr) != 1 {
		t.Errorf("%d connections, %d of them idle; want the old one closed", n, idle(tr))
	}
}

// arrive waits until what the server said last has come to the idle connection, if
// that was kept.
func arrive(t *testing.T, tr *Transport, s *server) {
	t.Helper()
	c := tr.pool.pop(s.host())
	if c == nil {
		return
	}
	hear(t, c)
	if !tr.pool.push(c) {
		t.Error("the pool is full")
	}
}

// hear waits until something has come, or the end.
func hear(t *testing.T, c *conn) {
	t.Helper()
	err := c.raw.Read(func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK)
		return err != syscall.EAGAIN
	})
	if err != nil {
		t.Error(err)
	}
}

func TestConnectionIsNotUsedAgain(t *testing.T) {
	read := func(t *testing.T, tr *Transport, url string) {
		if _, _, err := do(tr, post(t, url, "1")); err != nil {
			t.Error(err)
		}
	}
	for _, tt := range []struct {
		name, answer string
		use          func(t *testing.T, tr *Transport, url string)
	}{
		{"connection close", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", read},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", read},
		{"the request says so", ok, func(t *testing.T, tr *Transport, url string) {
			req := post(t, url, "1")
			req.Close = true
			wantOK(t, tr, req, "ok")
		}},
		{"a body that was closed early", ok, func(t *testing.T, tr *Transport, url string) {
			resp, err := tr.RoundTrip(post(t, url, "1"))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			resp.Body.Close()
			if _, err := resp.Body.Read(make([]byte, 1)); err != http.ErrBodyReadAfterClose {
				t.Errorf("read after close: %v", err)
			}
		}},
		{"a malformed answer", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!",
			func(t *testing.T, tr *Transport, url string) {
				if _, _, err := do(tr, post(t, url, "1")); err == nil {
					t.Error("no error")
				}
			}},
		{"malformed chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\nx\r\n",
			func(t *testing.T, tr *Transport, url string) {
				if _, body, err := do(tr, post(t, url, "1")); err == nil || body != "ok" {
					t.Errorf("body %q, error %v", body, err)
				}
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, func(n int, p *peer) {
				if n > 0 {
					p.answerAll()
					return
				}
				p.request()
				p.say(tt.answer)
				if req, _ := p.request(); req != nil || !p.ended() {
					t.Error("the connection was not closed")
				}
			})
			tr := newTransport(t, Config{})
			tt.use(t, tr, s.url)
			wantOK(t, tr, post(t, s.url, "2"), "ok")
			if n := s.connections(); n != 2 {
				t.Errorf("%d connections", n)
			}
		})
	}
}
