package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/doorway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// bounded starts a gateway with these bounds and returns its address.
func bounded(t *testing.T, c doorway.Config) string {
	t.Helper()
	g, err := New(Options{
		Config: Config{Listen: "127.0.0.1:0", Connections: c,
			Upstreams: []upstream.Config{{Name: "none", URL: "http://127.0.0.1:1/mcp"}}},
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	g.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := g.Stop(ctx); err != nil {
			t.Errorf("stopping: %v", err)
		}
	})
	return g.Addr().String()
}

func dialTCP(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// answered makes a request on a connection, and reports whether the answer comes in time.
func answered(conn net.Conn, limit time.Duration) (bool, error) {
	if _, err := fmt.Fprint(conn, "GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		return false, err
	}
	_ = conn.SetReadDeadline(time.Now().Add(limit))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return false, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err == nil && resp.StatusCode == http.StatusNotFound, err
}

// busy sends a request and half of the body of a second one on a connection, which is then in
// use.
func busy(t *testing.T, conn net.Conn) {
	t.Helper()
	if ok, err := answered(conn, patience); !ok {
		t.Fatal("one that may be open: ", err)
	}
	_, err := fmt.Fprint(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
		"Accept: application/json, text/event-stream\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || line != "HTTP/1.1 100 Continue\r\n" { // the gateway waits for the body
		t.Fatalf("%q, %v", line, err)
	}
}

// half sends half of the head of a connection's first request.
func half(t *testing.T, conn net.Conn) {
	t.Helper()
	if _, err := fmt.Fprint(conn, "GET /nothing HTTP/1.1\r\nHost: local"); err != nil {
		t.Fatal(err)
	}
}

// closed returns nil if the other side has closed a connection, within a time in which the
// gateway closes none for being silent.
func closed(conn net.Conn) error {
	_ = conn.SetDeadline(time.Now().Add(readHeaderTimeout / 2))
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.New("it is open")
	}
	return nil
}

// TestConnections: connections are bounded, in total and for each client.
func TestConnections(t *testing.T) {
	mcptest.Long(t)
	t.Run("of one address", func(t *testing.T) {
		address := bounded(t, doorway.Config{PerAddress: 3})
		var open []net.Conn
		for range 3 {
			conn := dialTCP(t, address)
			if ok, err := answered(conn, patience); !ok {
				t.Fatal("one that may be open: ", err)
			}
			open = append(open, conn)
		}
		for range 3 {
			if err := closed(dialTCP(t, address)); err != nil {
				t.Errorf("one too many: %v, want it closed at once", err)
			}
		}
		if ok, err := answered(open[0], patience); !ok {
			t.Errorf("one that was there: %v", err)
		}
		open[1].Close()
		for begun := time.Now(); ; { // until that is noticed
			if ok, err := answered(dialTCP(t, address), patience); ok {
				break
			} else if time.Since(begun) > patience {
				t.Fatal("when there is room again: ", err)
			}
		}
	})
	t.Run("of one address, without a request", func(t *testing.T) {
		address := bounded(t, doorway.Config{PerAddress: 2})
		first, second := dialTCP(t, address), dialTCP(t, address)
		half(t, first)
		half(t, second)
		if ok, err := answered(dialTCP(t, address), patience); !ok {
			t.Errorf("one that brings a request: %v", err)
		}
		if err := closed(first); err != nil {
			t.Errorf("the oldest without a request: %v", err)
		}
		if _, err := fmt.Fprint(second, "host\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		_ = second.SetDeadline(time.Now().Add(patience))
		if resp, err := http.ReadResponse(bufio.NewReader(second), nil); err != nil ||
			resp.StatusCode != http.StatusNotFound {
			t.Errorf("the other one: %v", err)
		}
	})
	t.Run("of a proxy", func(t *testing.T) {
		address := bounded(t, doorway.Config{PerAddress: 1, Proxies: []string{"127.0.0.0/8"}})
		for range 3 {
			if ok, err := answered(dialTCP(t, address), patience); !ok {
				t.Errorf("a client of a proxy: %v", err)
			}
		}
	})
	t.Run("in all", func(t *testing.T) {
		address := bounded(t, doorway.Config{Max: 2, PerAddress: 10})
		first, second := dialTCP(t, address), dialTCP(t, address)
		busy(t, first)
		busy(t, second)
		third := dialTCP(t, address)
		if ok, _ := answered(third, 50*time.Millisecond); ok {
			t.Fatal("one too many is served")
		}
		second.Close()
		_ = third.SetDeadline(time.Now().Add(patience))
		if resp, err := http.ReadResponse(bufio.NewReader(third), nil); err != nil || resp.StatusCode != http.StatusNotFound {
			t.Errorf("when there is room again: %v", err)
		}
	})
	t.Run("in all, without a request", func(t *testing.T) {
		address := bounded(t, doorway.Config{Max: 3, PerAddress: 10})
		used, first, second := dialTCP(t, address), dialTCP(t, address), dialTCP(t, address)
		busy(t, used)
		half(t, first)
		if _, err := fmt.Fprint(second,
			"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"); err != nil {
			t.Fatal(err) // a whole head with half a body is not a request either
		}
		for _, before := range []net.Conn{first, second} {
			held := dialTCP(t, address)
			busy(t, held)
			if err := closed(before); err != nil {
				t.Errorf("the oldest without a request: %v", err)
			}
		}
		if err := closed(used); err == nil {
			t.Error("one that is in use made room")
		}
	})
	t.Run("in all, idle", func(t *testing.T) {
		address := bounded(t, doorway.Config{Max: 2, PerAddress: 10})
		used, idle := dialTCP(t, address), dialTCP(t, address)
		busy(t, used)
		if ok, err := answered(idle, patience); !ok {
			t.Fatal(err)
		}
		if ok, err := answered(dialTCP(t, address), patience); !ok {
			t.Errorf("one that brings a request: %v", err)
		}
		if err := closed(idle); err != nil {
			t.Errorf("one that is idle: %v", err)
		}
		if err := closed(used); err == nil {
			t.Error("one that is in use made room")
		}
	})
	t.Run("idle", func(t *testing.T) {
		conn := dialTCP(t, bounded(t, doorway.Config{IdleTimeout: 10 * time.Millisecond}))
		if ok, err := answered(conn, patience); !ok {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(patience / 2)) // less than the default
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("an idle connection: %v", err)
		}
	})
}

// TestHalfAHead: by default, a connection has five seconds for the head of its
// first request.
func TestHalfAHead(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	address := bounded(t, doorway.Config{})
	begun := time.Now() // the time runs from when the connection is made
	conn := dialTCP(t, address)
	half(t, conn)
	_ = conn.SetDeadline(begun.Add(4 * readHeaderTimeout))
	if _, err := io.Copy(io.Discard, conn); err != nil {
		t.Errorf("half a head: %v, want the end of the connection", err)
	}
	if took := time.Since(begun); took < 5*time.Second || took > 15*time.Second {
		t.Errorf("closed after %s, want 5s", took)
	}
}

// scarce is a listener of a process that at times has no file descriptor left.
type scarce struct {
	net.Listener
	left atomic.Int64 // how many more calls fail
}

func (l *scarce) Accept() (net.Conn, error) {
	if l.left.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.Listener.Accept()
}

// TestConnectionNumbers: connections are counted, including those that are refused or cannot
// be accepted.
func TestConnectionNumbers(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	few := &scarce{Listener: listener}
	few.left.Store(2)
	g, err := New(Options{
		Config: Config{Admin: config.Admin{Listen: "127.0.0.1:0"}, Connections: doorway.Config{Max: 10, PerAddress: 2},
			Upstreams: []upstream.Config{{Name: "none", URL: "http://127.0.0.1:1/mcp"}}},
		Log: slog.New(slog.DiscardHandler), Listener: few,
	})
	if err != nil {
		t.Fatal(err)
	}
	g.Start()
	t.Cleanup(func() {
		if err := g.Stop(context.Background()); err != nil {
			t.Errorf("stopping: %v", err)
		}
	})
	first, second := dialTCP(t, g.Addr().String()), dialTCP(t, g.Addr().String())
	for _, conn := range []net.Conn{first, second} {
		if ok, err := answered(conn, patience); !ok {
			t.Fatal(err)
		}
	}
	if ok, _ := answered(dialTCP(t, g.Addr().String()), patience); ok {
		t.Fatal("one too many is served")
	}
	for name, want := range map[string]string{
		`gatehouse_accept_failures_total`:                                 "2",
		`gatehouse_connections_open`:                                      "2",
		`gatehouse_connections_max`:                                       "10",
		`gatehouse_bound_refusals_total{bound="connections_per_address"}`: "1",
	} {
		if got := numbersOf(t, g)[name]; got != want {
			t.Errorf("%s is %q, want %s", name, got, want)
		}
	}
	first.Close()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for begun := time.Now(); numbersOf(t, g)["gatehouse_connections_open"] != "1"; <-tick.C {
		if time.Since(begun) > patience {
			t.Fatal("a connection that was closed counts as open")
		}
	}
}
