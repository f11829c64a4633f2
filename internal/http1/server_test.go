package http1

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// served is a Server of a test, with a Transport for it.
type served struct {
	*Server
	*Transport
	url string
	in  *server // counts the connections
}

// serve runs a Server until the test ends.
func serve(t *testing.T, handler http.HandlerFunc) *served {
	t.Helper()
	s := &served{Server: NewServer(handler, 4<<10)}
	s.in = newServer(t, func(_ int, c *peer) {
		defer func() { _ = recover() }() // as net/http does
		s.Serve(c.Conn, nil)
	})
	s.url = s.in.url
	s.Transport = newTransport(t, Config{})
	return s
}

// TestServer: one connection carries request after request, and each answer arrives whole.
func TestServer(t *testing.T) {
	long := strings.Repeat("x", 3*joined)
	for _, tt := range []struct {
		name   string
		handle func(w http.ResponseWriter, r *http.Request)
		status int
		length int64
		want   string
	}{
		{"a request", func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			fmt.Fprint(w, r.Method, " ", r.RequestURI, " ", r.URL.Path, " ", r.Header["X"], " ", r.ContentLength, " ",
				string(body), " ", err)
		}, 200, 42, "POST /a%20b?c /a b [1] 5 hello <nil>"},
		{"nothing", func(http.ResponseWriter, *http.Request) {}, 200, 0, ""},
		{"a status", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusAccepted)
			w.WriteHeader(http.StatusTeapot)
		}, 202, 0, ""},
		{"no content", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, 204, 0, ""},
		{"long", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, long) }, 200, -1, long},
		{"of a known length", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(long)+2))
			_, _ = io.WriteString(w, "a")
			_, _ = io.WriteString(w, long)
			_, _ = io.WriteString(w, "b")
		}, 200, int64(len(long)) + 2, "a" + long + "b"},
		{"in parts", func(w http.ResponseWriter, _ *http.Request) {
			for _, part := range []string{"", "a", "", long, "b"} {
				_, _ = io.WriteString(w, part)
				_ = http.NewResponseController(w).Flush()
			}
		}, 200, -1, "a" + long + "b"},
		{"headers of the connection", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close")
			w.Header().Set("Transfer-Encoding", "gzip")
		}, 200, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, tt.handle)
			for range 3 {
				req := post(t, s.url+"/a%20b?c", "hello")
				req.Header.Set("X", "1")
				resp, err := s.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				if err != nil || resp.StatusCode != tt.status || string(body) != tt.want ||
					tt.name != "a request" && resp.ContentLength != tt.length {
					t.Errorf("status %d, length %d, %d bytes %.80q, error %v", resp.StatusCode, resp.ContentLength, len(body),
						body, err)
				}
			}
			if n := s.in.connections(); n != 1 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

// TestServerFlushes: each part arrives when it is flushed.
func TestServerFlushes(t *testing.T) {
	next := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for i := range 3 {
			fmt.Fprintln(w, i)
			_ = http.NewResponseController(w).Flush()
			<-next
		}
	})
	resp, err := s.RoundTrip(post(t, s.url, ""))
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(resp.Body)
	for i := range 3 {
		if !lines.Scan() || lines.Text() != fmt.Sprint(i) {
			t.Errorf("%q %v", lines.Text(), lines.Err())
		}
		next <- struct{}{}
	}
}

// TestServerNoticesItsClient: a client that leaves ends the context of its request.
func TestServerNoticesItsClient(t *testing.T) {
	began, ended := make(chan struct{}), make(chan struct{})
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
		close(ended)
	})
	ctx, leave := context.WithCancelCause(t.Context())
	go func() {
		<-began
		leave(errLeft)
	}()
	if _, err := s.RoundTrip(post(t, s.url, "x").WithContext(ctx)); !errors.Is(err, errLeft) {
		t.Errorf("%v", err)
	}
	<-ended
}

// TestServerEndsContexts: the context of a request ends with its handler.
func TestServerEndsContexts(t *testing.T) {
	contexts := make(chan context.Context, 1)
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) { contexts <- r.Context() })
	wantOK(t, s.Transport, post(t, s.url, ""), "")
	<-(<-contexts).Done()
}

// TestServerBreaksOff: an answer that goes wrong does not look whole, and its connection is not
// used again.
func TestServerBreaksOff(t *testing.T) {
	for name, handle := range map[string]http.HandlerFunc{
		"a panic": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"a panic in the midst": func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
		"too short": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "1") },
		"a header of two lines": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", "a\r\nY: b")
		},
		"too late": func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(-time.Second))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, handle)
			for n := range 2 {
				if _, _, err := do(s.Transport, post(t, s.url, "x")); err == nil {
					t.Error("the answer looks whole")
				}
				if got := s.in.connections(); got != n+1 {
					t.Errorf("%d connections after %d requests", got, n+1)
				}
			}
		})
	}
}

// TestServerCloses: Close closes idle connections at once and others after their answers.
func TestServerCloses(t *testing.T) {
	began, end := make(chan struct{}), make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > 0 {
			began <- struct{}{}
			<-end
		}
		_, _ = io.WriteString(w, "whole")
	})
	var all sync.WaitGroup
	all.Go(func() { wantOK(t, s.Transport, post(t, s.url, "x"), "whole") })
	<-began
	wantOK(t, s.Transport, post(t, s.url, ""), "whole")
	idle := s.pool.pop(s.in.host())
	s.Server.Close()
	if _, err := idle.nc.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the idle connection: %v", err)
	}
	idle.close()
	close(end)
	all.Wait()
	if _, _, err := do(s.Transport, post(t, s.url, "")); err == nil {
		t.Error("a request after Close is answered")
	}
}

// TestServerRefuses: the handler gets only what a Transport sends.
func TestServerRefuses(t *testing.T) {
	const host = "Host: h\r\n"
	for name, in := range map[string]string{
		"nothing":          "\r\n\r\n",
		"another version":  "POST / HTTP/1.0\r\n" + host + "\r\n",
		"no host":          "POST / HTTP/1.1\r\n\r\n",
		"two hosts":        "POST / HTTP/1.1\r\n" + host + host + "\r\n",
		"a strange host":   "POST / HTTP/1.1\r\nHost: a/b\r\n\r\n",
		"a strange target": "POST a HTTP/1.1\r\n" + host + "\r\n",
		"a strange method": "P@ST / HTTP/1.1\r\n" + host + "\r\n",
		"chunks":           "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"two lengths":      "POST / HTTP/1.1\r\n" + host + "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx",
		"a large body":     fmt.Sprintf("POST / HTTP/1.1\r\n"+host+"Content-Length: %d\r\n\r\n", MaxRequest+1),
		"a large head":     "POST / HTTP/1.1\r\n" + host + "X: " + strings.Repeat("x", 4<<10) + "\r\n\r\n",
		"more than one":    "POST / HTTP/1.1\r\n" + host + "\r\nPOST / HTTP/1.1\r\n" + host + "\r\n",
		"a folded line":    "POST / HTTP/1.1\r\n" + host + "X: a\r\n b\r\n\r\n",
		"line feeds":       "POST / HTTP/1.1\nHost: h\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the handler gets it") })
			nc, err := net.Dial("tcp", s.in.host())
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			if _, err := io.WriteString(nc, in); err != nil {
				t.Fatal(err)
			}
			_ = nc.SetReadDeadline(time.Now().Add(patience))
			if answer, err := io.ReadAll(nc); len(answer) > 0 || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%q, %v", answer, err)
			}
		})
	}
}

// FuzzServe holds the reader of requests against net/http's: what we take, net/http reads in the
// same way.
func FuzzServe(f *testing.F) {
	f.Add([]byte("POST /a%20b?c HTTP/1.1\r\nHost: h\r\nX: y\r\nContent-Length: 5\r\n\r\nhello"))
	f.Add([]byte("POST / HTTP/1.1\r\nHost: h\r\nX:  y \r\nx: z\r\n\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		ours, err := newConn(&script{in: bytes.NewReader(in), step: len(in)}, "").request(4 << 10)
		if err != nil || ours.Header["Trailer"] != nil { // net/http takes only some of these
			return
		}
		theirs, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(in)))
		if err != nil {
			t.Fatalf("net/http does not take it: %v", err)
		}
		a, errA := io.ReadAll(ours.Body)
		b, errB := io.ReadAll(theirs.Body)
		if errA != nil || errB != nil || !bytes.Equal(a, b) || ours.Method != theirs.Method ||
			ours.URL.String() != theirs.URL.String() ||
			ours.Host != theirs.Host || ours.ContentLength != theirs.ContentLength ||
			fmt.Sprint(ours.Header["X"]) != fmt.Sprint(theirs.Header["X"]) {
			t.Errorf("ours: %+v %q %v\nnet/http's: %+v %q %v", ours, a, errA, theirs, b, errB)
		}
	})
}
