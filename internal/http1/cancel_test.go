//go:build unix

package http1

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// The end of its context ends an exchange wherever it is, and the connection with it.
func TestCancel(t *testing.T) {
	const chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	for _, tt := range []struct{ name, answer string }{
		{"before an answer", ""},
		{"in the status line", "HTTP/1.1 2"},
		{"in the head", "HTTP/1.1 200 OK\r\nContent-Le"},
		{"after an interim answer", "HTTP/1.1 100 Continue\r\n\r\n"},
		{"after the head", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"},
		{"in the body", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel"},
		{"in a chunk", chunks + "5\r\nhel"},
		{"between chunks", chunks + "5\r\nhello\r\n"},
		{"in the trailer", chunks + "5\r\nhello\r\n0\r\n"},
		{"in a body without length", "HTTP/1.1 200 OK\r\n\r\nhello"},
	} {
		for _, used := range []bool{false, true} {
			t.Run(tt.name, func(t *testing.T) {
				said, gone := make(chan struct{}), make(chan bool, 1)
				s := newServer(t, func(n int, p *peer) {
					if n > 0 {
						p.answerAll()
						return
					}
					if used {
						p.request()
						p.say(ok)
					}
					p.request()
					p.say(tt.answer)
					close(said)
					gone <- p.ended()
				})
				tr := newTransport(t, Config{})
				if used {
					wantOK(t, tr, post(t, s.url, "1"), "ok")
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				go func() {
					<-said
					cancel(errLeft)
				}()
				_, _, err := do(tr, post(t, s.url, "2").WithContext(ctx))
				if !errors.Is(err, errLeft) {
					t.Errorf("error %v, want the context's cause", err)
				}
				if !<-gone {
					t.Error("the connection was not closed")
				}
				wantOK(t, tr, post(t, s.url, "3"), "ok")
			})
		}
	}
}

// A body that nobody reads does not keep its connection when the context ends.
func TestCancelWhileNobodyReads(t *testing.T) {
	gone := make(chan bool, 1)
	s := newServer(t, func(_ int, p *peer) {
		p.request()
		p.say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel")
		gone <- p.ended()
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	resp, err := newTransport(t, Config{}).RoundTrip(post(t, s.url, "1").WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	cancel(errLeft)
	if !<-gone {
		t.Error("the connection was not closed")
	}
	if _, err := io.ReadAll(resp.Body); !errors.Is(err, errLeft) {
		t.Errorf("error %v", err)
	}
	resp.Body.Close()
}

func TestCancelledBefore(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errLeft)
	tr := newTransport(t, Config{Dial: func(context.Context, string, string) (net.Conn, error) {
		t.Error("a connection was made")
		return nil, errDeaf
	}})
	if _, _, err := do(tr, post(t, "http://127.0.0.1:1", "1").WithContext(ctx)); !errors.Is(err, errLeft) {
		t.Errorf("error %v", err)
	}
}

func TestCancelWhileDialling(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	tr := newTransport(t, Config{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		cancel(errLeft)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}})
	if _, _, err := do(tr, post(t, "http://127.0.0.1:1", "1").WithContext(ctx)); !errors.Is(err, errLeft) {
		t.Errorf("error %v", err)
	}
}

// A deadline counts as any other end of a context.
func TestDeadline(t *testing.T) {
	s := newServer(t, func(_ int, p *peer) {
		p.request()
		p.ended()
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, _, err := do(newTransport(t, Config{}), post(t, s.url, "1").WithContext(ctx))
	// The latter is net's own, of a dialler that was no faster than its deadline.
	if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

// A context that ends after its exchange touches nothing: the connection may be
// somebody else's by then.
func TestCancelAfterTheEnd(t *testing.T) {
	s := newServer(t, func(_ int, p *peer) { p.answerAll() })
	tr := newTransport(t, Config{})
	for range 200 {
		ctx, cancel := context.WithCancel(t.Context())
		wantOK(t, tr, post(t, s.url, "1").WithContext(ctx), "ok")
		cancel()
	}
	if n := s.connections(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// Close ends a Read that waits.
func TestCloseWhileReading(t *testing.T) {
	for _, answer := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 500000\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\n\r\n",
	} {
		gone := make(chan bool, 1)
		s := newServer(t, func(_ int, p *peer) {
			p.request()
			p.say(answer)
			gone <- p.ended()
		})
		resp, err := newTransport(t, Config{}).RoundTrip(post(t, s.url, "1"))
		if err != nil {
			t.Fatal(err)
		}
		reading := make(chan error)
		go func() {
			_, err := io.ReadAll(resp.Body)
			reading <- err
		}()
		resp.Body.Close()
		if err := <-reading; err != http.ErrBodyReadAfterClose {
			t.Errorf("read: %v", err)
		}
		if !<-gone {
			t.Error("the connection was not closed")
		}
	}
}

// A server that never stops its head is given up.
func TestHeadWithoutEnd(t *testing.T) {
	for name, line := range map[string]string{"one line": strings.Repeat("x", 1000),
		"many lines": "X: " + strings.Repeat("x", 1000) + "\r\n"} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, func(_ int, p *peer) {
				p.request()
				p.say("HTTP/1.1 200 OK\r\nX: ")
				for {
					if _, err := io.WriteString(p.Conn, line); err != nil {
						return
					}
				}
			})
			if _, _, err := do(newTransport(t, Config{}), post(t, s.url, "1")); !errors.Is(err, errLineTooLong) {
				t.Errorf("error %v", err)
			}
		})
	}
}
