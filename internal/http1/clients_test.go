package http1

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const plainRequest = "POST /mcp?a HTTP/1.1\r\nHost: example.com:80\r\nContent-Length: 5\r\nX: y\r\nx: z\r\n\r\nhello"

// clientOf is a client of a Server of a test, at the other end of a pipe.
type clientOf struct {
	net.Conn
	in     *bufio.Reader
	states []http.ConnState
	other  chan string // what Clients.Other got
	caught chan any    // what Clients.Panicked got
	served chan struct{}
	server *Server
}

type keyOfTest struct{}

// clientServer serves one connection until the test ends. Times are those of a bubble.
func clientServer(t *testing.T, handler http.HandlerFunc) *clientOf {
	theirs, ours := net.Pipe()
	c := &clientOf{Conn: theirs, in: bufio.NewReader(theirs), other: make(chan string, 1), caught: make(chan any, 1), served: make(chan struct{})}
	c.server = NewClientServer(handler, Clients{
		Other: func(nc net.Conn, received []byte) {
			c.other <- string(received)
			nc.Close()
		},
		Context:  func(net.Conn) context.Context { return context.WithValue(context.Background(), keyOfTest{}, "conn") },
		State:    func(_ net.Conn, state http.ConnState) { c.states = append(c.states, state) },
		Panicked: func(cause any) { c.caught <- cause },
		First:    5 * time.Second, Idle: time.Minute, Write: 10 * time.Second,
	})
	go func() {
		defer close(c.served)
		c.server.Serve(ours, nil)
	}()
	t.Cleanup(func() {
		theirs.Close()
		<-c.served
	})
	return c
}

// send writes parts, each of which arrives alone.
func (c *clientOf) send(t *testing.T, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if _, err := io.WriteString(c.Conn, part); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
	}
}

// answer reads an answer with its body.
func (c *clientOf) answer(t *testing.T) (*http.Response, string) {
	t.Helper()
	resp, err := http.ReadResponse(c.in, &http.Request{Method: http.MethodPost})
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	fmt.Fprint(w, r.Host, " ", r.RequestURI, " ", r.Header["X"], " ", string(body), " ", r.Context().Value(keyOfTest{}))
}

func TestClients(t *testing.T) {
	const want = "example.com:80 /mcp?a [y z] hello conn"
	synctest.Test(t, func(t *testing.T) {
		c := clientServer(t, echo)
		for _, in := range [][]string{
			{plainRequest},
			{strings.Replace(plainRequest, "X:", "Connection: Keep-Alive\r\nX:", 1)},
			{plainRequest[:len(plainRequest)-5], "hel", "lo"},
		} {
			c.send(t, in...)
			resp, got := c.answer(t)
			date, err := http.ParseTime(resp.Header.Get("Date"))
			if got != want || resp.StatusCode != 200 || resp.Close || err != nil || time.Since(date) >= time.Second {
				t.Errorf("%q: %d %v %q", in, resp.StatusCode, resp.Header, got)
			}
			time.Sleep(50 * time.Second) // nearly idle for too long
		}
		time.Sleep(11 * time.Second)
		if _, err := c.in.ReadByte(); err != io.EOF {
			t.Errorf("an idle connection: %v", err)
		}
		<-c.served
		states := []http.ConnState{http.StateNew}
		for range 3 {
			states = append(states, http.StateActive, http.StateIdle)
		}
		if states = append(states, http.StateClosed); !slices.Equal(c.states, states) {
			t.Errorf("states %v", c.states)
		}
	})
}

// TestClientsOther: what is not plain goes on with all its bytes.
func TestClientsOther(t *testing.T) {
	with := func(old, now string) string { return strings.Replace(plainRequest, old, now, 1) }
	for name, in := range map[string]string{
		"another method":           with("POST", "GET"),
		"a method in lower case":   with("POST", "post"),
		"no length":                "POST / HTTP/1.1\r\nHost: a\r\n\r\n",
		"HTTP/1.0":                 with("HTTP/1.1", "HTTP/1.0"),
		"HTTP/2":                   "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"no host":                  with("Host", "Ghost"),
		"two hosts":                with("X:", "Host:"),
		"a strange host":           with("example.com", "exa mple.com"),
		"chunks":                   with("Content-Length: 5", "Transfer-Encoding: chunked"),
		"chunks and a length":      with("X: y", "Transfer-Encoding: chunked"),
		"two lengths":              with("X: y", "Content-Length: 5"),
		"a length with a sign":     with(": 5", ": +5"),
		"a length of two":          with(": 5", ": 5, 5"),
		"a length beyond numbers":  with(": 5", ": 99999999999999999999"),
		"a large body":             with(": 5", ": 4096"),
		"a long head":              with("X: y", "X: "+strings.Repeat("y", inBuffer)),
		"an expectation":           with("X: y", "Expect: 100-continue"),
		"the end of a connection":  with("X: y", "Connection: close"),
		"options of a connection":  with("X: y", "Connection: keep-alive, x"),
		"an upgrade":               with("X: y", "Upgrade: h2c"),
		"a trailer":                with("X: y", "Trailer: a"),
		"a pragma":                 with("X: y", "Pragma: no-cache"),
		"an absolute target":       with("/mcp", "http://example.com/mcp"),
		"no target":                with(" /mcp?a ", " "),
		"a continued line":         with("X: y", "X: y\r\n z"),
		"a blank before the colon": with("X:", "X :"),
		"a control character":      with("y", "\x01"),
		"a bare line feed":         with("y\r\n", "y\n"),
		"an empty line first":      "\r\n" + plainRequest,
		"a part of a head":         plainRequest[:30],
		"more than one request":    plainRequest + "P",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := clientServer(t, echo)
				c.send(t, plainRequest)
				c.answer(t)
				go io.WriteString(c.Conn, in) // Other may close before it has it all
				if got := <-c.other; got != in[:min(len(in), inBuffer)] {
					t.Errorf("Other got %q", got)
				}
				if <-c.served; c.states[len(c.states)-1] != http.StateIdle {
					t.Errorf("states %v", c.states)
				}
			})
		})
	}
	t.Run("a body that does not come", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, begun := clientServer(t, echo), time.Now()
			c.send(t, plainRequest[:len(plainRequest)-1])
			if got := <-c.other; got != plainRequest[:len(plainRequest)-1] || time.Since(begun) != 5*time.Second {
				t.Errorf("after %v Other got %q", time.Since(begun), got)
			}
		})
	})
}

// TestClientsSilent: a connection without a request ends, as does one whose client leaves.
func TestClientsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, begun := clientServer(t, echo), time.Now()
		if <-c.served; time.Since(begun) != 5*time.Second {
			t.Errorf("it lasted %v", time.Since(begun))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{})
		c := clientServer(t, func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			close(ended)
		})
		c.send(t, plainRequest)
		time.Sleep(time.Hour) // the handler takes longer than any wait for a request
		select {
		case <-ended:
			t.Error("the handler was cancelled by a deadline that was not for it")
		default:
		}
		c.Close()
		<-ended
	})
}

// TestClientsLong: after a request that takes long, the connection waits for the next one as
// long as after any other.
func TestClientsLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clientServer(t, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(2 * time.Minute)
			echo(w, r)
		})
		c.send(t, plainRequest)
		c.answer(t)
		time.Sleep(50 * time.Second)
		c.send(t, plainRequest)
		c.answer(t)
		answered := time.Now()
		if _, err := c.in.ReadByte(); err != io.EOF || time.Since(answered) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(answered))
		}
	})
}

// TestClientsEarly: what comes while a handler runs is the next request.
func TestClientsEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clientServer(t, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			echo(w, r)
		})
		c.send(t, plainRequest)
		time.Sleep(watchAfter)
		c.send(t, plainRequest)
		c.answer(t)
		c.answer(t)
	})
}

// TestClientsEnd: a handler may ask that the connection ends with its answer; a panic ends it, too.
// All runs in synctest bubbles.
func TestClientsEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		handler http.HandlerFunc
		answer  bool
		caught  any
	}{
		"as the handler asks": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Connection", "close")
			echo(w, r)
		}, true, nil},
		"an abort":             {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, false, nil},
		"a panic":              {func(http.ResponseWriter, *http.Request) { panic("oh") }, false, "oh"},
		"a panic after a time": {func(http.ResponseWriter, *http.Request) { time.Sleep(time.Second); panic("oh") }, false, "oh"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := clientServer(t, tt.handler)
				c.send(t, plainRequest)
				if tt.answer {
					if resp, _ := c.answer(t); !resp.Close {
						t.Error("the answer does not say so")
					}
				}
				if _, err := c.in.ReadByte(); err != io.EOF {
					t.Errorf("the connection: %v", err)
				}
				<-c.served
				select {
				case cause := <-c.caught:
					if cause != tt.caught {
						t.Errorf("caught %v", cause)
					}
				default:
					if tt.caught != nil {
						t.Error("nobody was told of the panic")
					}
				}
			})
		})
	}
}

// TestClientsHijack: a handler gets the connection, early or late, with what was answered before.
func TestClientsHijack(t *testing.T) {
	for _, after := range []time.Duration{0, watchAfter, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			over := make(chan struct{})
			c := clientServer(t, func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprint(w, "first")
				time.Sleep(after)
				to := http.NewResponseController(w)
				nc, _, err := to.Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				if _, _, err := to.Hijack(); err != http.ErrHijacked {
					t.Errorf("once more: %v", err)
				}
				if r.Context().Err() != nil {
					t.Error("the request is cancelled")
				}
				go func() {
					defer close(over)
					time.Sleep(2 * time.Minute) // no deadline remains
					_, _ = io.WriteString(nc, "4\r\nlast\r\n0\r\n\r\n")
					in, _ := io.ReadAll(nc)
					if nc.Close(); string(in) != "more" {
						t.Errorf("read %q", in)
					}
				}()
			})
			c.send(t, plainRequest)
			if _, body := c.answer(t); body != "firstlast" {
				t.Errorf("body %q", body)
			}
			c.send(t, "more")
			c.Close()
			<-over
			<-c.served
			if want := []http.ConnState{http.StateNew, http.StateActive, http.StateHijacked}; !slices.Equal(c.states, want) {
				t.Errorf("states %v", c.states)
			}
		})
	}
}

// TestClientsShutdown: idle connections end at once, others with their answer or when time is up.
func TestClientsShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		idle := clientServer(t, echo)
		if err := idle.server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		<-idle.served
		busy := clientServer(t, func(w http.ResponseWriter, r *http.Request) { time.Sleep(time.Second); echo(w, r) })
		busy.send(t, plainRequest)
		down := make(chan error)
		go func() { down <- busy.server.Shutdown(context.Background()) }()
		busy.answer(t)
		if err := <-down; err != nil {
			t.Error(err)
		}
		long := clientServer(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		long.send(t, plainRequest)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := long.server.Shutdown(ctx); err != context.DeadlineExceeded {
			t.Errorf("with a request that does not end: %v", err)
		}
		<-long.served
		theirs, ours := net.Pipe()
		long.server.Serve(ours, nil)
		if _, err := theirs.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// TestClientsWrite: an answer that nobody reads ends the connection in time, unless the handler
// gives it more.
func TestClientsWrite(t *testing.T) {
	for own, want := range map[time.Duration]time.Duration{0: 10 * time.Second, time.Minute: time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			c := clientServer(t, func(w http.ResponseWriter, _ *http.Request) {
				if own > 0 {
					_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(own))
				}
				_, _ = io.WriteString(w, strings.Repeat("x", 2*joined))
			})
			c.send(t, plainRequest)
			begun := time.Now()
			if <-c.served; time.Since(begun) != want {
				t.Errorf("it took %v, want %v", time.Since(begun), want)
			}
		})
	}
}

// FuzzPlain holds the reader of plain requests against net/http's: what we take, net/http takes,
// and reads the same, with nothing left.
func FuzzPlain(f *testing.F) {
	f.Add([]byte(plainRequest), 0)
	f.Add([]byte("POST /%41?b=%zz#c HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n"), 1)
	f.Add([]byte("POST //a/../b HTTP/1.1\r\nhost: [::1]:8\r\ncontent-length:\t2 \r\nA-b:\r\nCookie: \xff\r\n\r\n{}"), 0)
	// The body begins in a piece of its own, and is too short or too long.
	head := "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n"
	f.Add([]byte(head+"{"), len(head))
	f.Add([]byte(head+"{}GET / HTTP/1.1\r\n\r\n"), len(head))
	f.Fuzz(func(t *testing.T, in []byte, step int) {
		step = max(step, 0)
		c := newConn(&script{in: bytes.NewReader(in), step: step}, "")
		ours, err := c.plain(&Clients{})
		if err == errOther {
			if !bytes.HasPrefix(in, c.in[:c.w]) {
				t.Fatalf("Other gets %q", c.in[:c.w])
			}
			return
		}
		if err != nil {
			return // nothing came
		}
		reader := bufio.NewReader(bytes.NewReader(in))
		theirs, err := http.ReadRequest(reader)
		if err != nil {
			t.Fatalf("net/http refuses it: %v", err)
		}
		body, err := io.ReadAll(theirs.Body)
		if err != nil {
			t.Fatalf("net/http refuses the body: %v", err)
		}
		got, _ := io.ReadAll(ours.Body)
		if rest := reader.Buffered(); step == 0 && len(in) <= inBuffer && rest > 0 {
			t.Fatalf("net/http leaves %d bytes", rest)
		}
		if !bytes.Equal(got, body) || ours.Method != theirs.Method || ours.RequestURI != theirs.RequestURI || ours.Host != theirs.Host ||
			ours.ContentLength != theirs.ContentLength || ours.Proto != theirs.Proto || theirs.Close || len(theirs.TransferEncoding) > 0 ||
			!reflect.DeepEqual(ours.URL, theirs.URL) || !reflect.DeepEqual(ours.Header, theirs.Header) {
			t.Fatalf("ours %+v %q\ntheirs %+v %q", ours, got, theirs, body)
		}
	})
}
