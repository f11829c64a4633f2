//go:build unix

package http1

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// A connection that the server has closed meanwhile is noticed before a byte is sent.
func TestClosedIdleConnection(t *testing.T) {
	for _, reset := range []bool{false, true} {
		var requests atomic.Int32
		s := newServer(t, func(n int, p *peer) {
			for {
				if req, _ := p.request(); req == nil {
					return
				}
				requests.Add(1)
				p.say(ok)
				if n > 0 {
					continue
				}
				if reset {
					p.Conn.(*net.TCPConn).SetLinger(0)
				}
				return
			}
		})
		tr := newTransport(t, Config{})
		wantOK(t, tr, post(t, s.url, "1"), "ok")
		arrive(t, tr, s)
		for range 3 {
			wantOK(t, tr, post(t, s.url, "2"), "ok")
		}
		if requests.Load() != 4 || s.connections() != 2 {
			t.Errorf("reset %v: %d requests on %d connections", reset, requests.Load(), s.connections())
		}
	}
}

// A request of which the server may have seen something is not sent twice, unless
// nothing comes of that.
func TestConnectionEndsInsteadOfAnAnswer(t *testing.T) {
	for _, tt := range []struct {
		method string
		used   bool   // the connection was used before
		say    string // before the end
		again  bool
	}{
		{"POST", true, "", false},
		{"DELETE", true, "", false},
		{"PUT", true, "", false},
		{"PATCH", true, "", false},
		{"GET", true, "", true},
		{"HEAD", true, "", true},
		{"GET", true, "HTTP/1.1 100 Continue\r\n\r\n", false},
		{"GET", true, "H", false},
		{"GET", false, "", false},
		{"POST", false, "", false},
	} {
		t.Run(tt.method+" "+tt.say, func(t *testing.T) {
			requests := make(chan string, 10)
			s := newServer(t, func(n int, p *peer) {
				for first := true; ; first = false {
					req, _ := p.request()
					if req == nil {
						return
					}
					if first && tt.used && n == 0 {
						p.say(ok)
						continue
					}
					requests <- req.Method
					if n == 0 {
						p.say(tt.say)
						return
					}
					p.say("HTTP/1.1 204 No Content\r\n\r\n")
				}
			})
			tr := newTransport(t, Config{})
			if tt.used {
				wantOK(t, tr, post(t, s.url, "1"), "ok")
			}
			req, err := http.NewRequestWithContext(t.Context(), tt.method, s.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = do(tr, req)
			if tt.again != (err == nil) {
				t.Errorf("error %v", err)
			}
			want := 1
			if tt.again {
				want = 2
			}
			if len(requests) != want {
				t.Errorf("%d requests, want %d", len(requests), want)
			}
		})
	}
}

// deaf is a connection that cannot be written to.
type deaf struct {
	*net.TCPConn
	dead    *atomic.Bool
	written int // what a write that fails takes before
}

func (d *deaf) Write(p []byte) (int, error) {
	if d.dead.Load() {
		return d.written, errDeaf
	}
	return d.TCPConn.Write(p)
}

// A request of which not a byte was sent is sent on another connection, once.
func TestWriteFails(t *testing.T) {
	for _, tt := range []struct {
		name    string
		written int
		always  bool // on the new connection too
		wantErr bool
	}{
		{"at once", 0, false, false},
		{"after some bytes", 10, false, true},
		{"on the new connection too", 0, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var requests atomic.Int32
			s := newServer(t, func(_ int, p *peer) {
				for {
					req, body := p.request()
					if req == nil {
						return
					}
					if requests.Add(1); body != "hello" {
						t.Errorf("body %q", body)
					}
					p.say(ok)
				}
			})
			var dead, later atomic.Bool
			dials := 0
			tr := newTransport(t, Config{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				nc, err := (&net.Dialer{}).DialContext(ctx, network, address)
				if err != nil {
					return nil, err
				}
				d := &deaf{TCPConn: nc.(*net.TCPConn), dead: &dead, written: tt.written}
				if dials++; dials > 1 && !tt.always {
					d.dead = &later
				}
				return d, nil
			}})
			wantOK(t, tr, post(t, s.url, "hello"), "ok")
			dead.Store(true)
			_, _, err := do(tr, post(t, s.url, "hello"))
			if tt.wantErr != (err != nil) || tt.wantErr && !errors.Is(err, errDeaf) {
				t.Errorf("error %v", err)
			}
			want := int32(2)
			if tt.wantErr {
				want = 1
			}
			if n := requests.Load(); n != want || dials > 2 {
				t.Errorf("%d requests, %d connections", n, dials)
			}
		})
	}
}

func TestDialFails(t *testing.T) {
	_, _, err := do(newTransport(t, Config{}), post(t, "http://"+mcptest.LoopbackAddress(t), "1"))
	if op, ok := errors.AsType[*net.OpError](err); !ok || op.Op != "dial" {
		t.Errorf("error %v, want one of dialling", err)
	}
}

func TestDefaultPort(t *testing.T) {
	for url, want := range map[string]string{
		"http://example.com/":      "example.com:80",
		"http://example.com:/":     "example.com:80",
		"http://example.com:81/":   "example.com:81",
		"http://[::1]/":            "[::1]:80",
		"http://[::1]:8080/":       "[::1]:8080",
		"http://127.0.0.1/mcp?a=b": "127.0.0.1:80",
	} {
		tr := newTransport(t, Config{Dial: func(_ context.Context, network, address string) (net.Conn, error) {
			if network != "tcp" || address != want {
				t.Errorf("%s: dialled %s %s, want %s", url, network, address, want)
			}
			return nil, errDeaf
		}})
		if _, _, err := do(tr, post(t, url, "")); err != errDeaf {
			t.Errorf("%s: error %v", url, err)
		}
	}
}
