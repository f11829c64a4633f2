package faultproxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds the wait for what has to happen.
const patience = time.Minute

// echo is a server that sends back what it gets.
func echo(t *testing.T) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			done.Go(func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		done.Wait()
	})
	return listener.Addr().String()
}

// proxied starts a proxy in front of an echo.
func proxied(t *testing.T) *Proxy {
	t.Helper()
	p, err := Start(echo(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return conn.(*net.TCPConn)
}

// ending returns the error that ends a connection on which nothing arrives.
func ending(conn net.Conn) error {
	_, err := conn.Read(make([]byte, 1))
	return err
}

// newEnding is ending of a new connection, which may be reset before it is dialled.
func newEnding(t *testing.T, p *Proxy) error {
	t.Helper()
	conn, err := net.DialTimeout("tcp", p.Addr(), patience)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	return ending(conn)
}

func send(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != want {
		t.Fatalf("heard %q, %v, want %q", got, err, want)
	}
}

func TestPass(t *testing.T) {
	p := proxied(t)
	conn := dial(t, p.Addr())
	large := strings.Repeat("0123456789abcdef", 64<<10)
	var sent sync.WaitGroup
	sent.Go(func() {
		_, _ = io.WriteString(conn, large)
		_ = conn.CloseWrite()
	})
	got, err := io.ReadAll(conn) // the end is forwarded too, in both directions
	sent.Wait()
	if err != nil || !bytes.Equal(got, []byte(large)) {
		t.Errorf("%d bytes of %d came back, %v", len(got), len(large), err)
	}
}

func TestDelay(t *testing.T) {
	const by = 50 * time.Millisecond
	p := proxied(t)
	conn := dial(t, p.Addr())
	send(t, conn, "a")
	hear(t, conn, "a")
	p.Delay(by)
	start := time.Now()
	send(t, conn, "slow")
	hear(t, conn, "slow")
	if took := time.Since(start); took < 2*by {
		t.Errorf("there and back in %s, want %s at least", took, 2*by)
	}
	p.Delay(time.Hour)
	send(t, conn, "b")
	p.Pass()
	hear(t, conn, "b") // waiting bytes go on at once
}

func TestDrip(t *testing.T) {
	const every = 5 * time.Millisecond
	p := proxied(t)
	conn := dial(t, p.Addr())
	p.Drip(every)
	start := time.Now()
	send(t, conn, "drop by drop")
	hear(t, conn, "drop by drop")
	if took := time.Since(start); took < 12*every {
		t.Errorf("12 bytes in %s, want %s at least", took, 12*every)
	}
	p.Drip(time.Hour)
	send(t, conn, "all of it")
	p.Pass()
	hear(t, conn, "all of it")
}

func TestBlackHole(t *testing.T) {
	p := proxied(t)
	old := dial(t, p.Addr())
	send(t, old, "a")
	hear(t, old, "a")
	p.BlackHole()
	fresh := dial(t, p.Addr())
	for _, conn := range []*net.TCPConn{old, fresh} {
		send(t, conn, "b")
		_ = conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d bytes, %v out of a black hole", n, err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(patience))
	}
	p.Pass()
	for _, conn := range []*net.TCPConn{old, fresh} {
		hear(t, conn, "b") // as a network retransmits what was lost
	}
}

func TestCutAndReset(t *testing.T) {
	for name, fault := range map[string]func(*Proxy){"cut": (*Proxy).Cut, "reset": (*Proxy).Reset} {
		t.Run(name, func(t *testing.T) {
			p := proxied(t)
			old := dial(t, p.Addr())
			send(t, old, "a")
			hear(t, old, "a")
			fault(p)
			for what, err := range map[string]error{"old": ending(old), "new": newEnding(t, p)} {
				// A connection that is closed with unread data ends by a reset, too.
				if isReset := errors.Is(err, syscall.ECONNRESET); err == nil || name == "reset" && !isReset {
					t.Errorf("the %s connection ends with %v", what, err)
				}
			}
			p.Pass()
			again := dial(t, p.Addr())
			send(t, again, "b")
			hear(t, again, "b")
		})
	}
}

// A connection fails if its target does not listen. Only a loopback address can be a target.
func TestTarget(t *testing.T) {
	// Nobody listens at the source address of a connection, and nobody else can take it.
	conn := dial(t, echo(t))
	p, err := Start(conn.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := newEnding(t, p); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("without a target: %v", err)
	}
	other := echo(t)
	if err := p.Redirect(other); err != nil {
		t.Fatal(err)
	}
	again := dial(t, p.Addr())
	send(t, again, "a")
	hear(t, again, "a")
	if err := p.Redirect(conn.LocalAddr().String()); err != nil {
		t.Fatal(err)
	}
	send(t, again, "b")
	hear(t, again, "b") // open connections keep their target
	for _, target := range []string{"192.0.2.1:80", "example.com:80", "127.0.0.1", "0.0.0.0:1", ""} {
		if p, err := Start(target); err == nil {
			p.Close()
			t.Errorf("a proxy to %q", target)
		}
		if err := p.Redirect(target); err == nil {
			t.Errorf("a proxy goes on to %q", target)
		}
	}
}

// Close ends everything that is open, under any fault. TestMain checks that no goroutine is
// left.
func TestClose(t *testing.T) {
	faults := map[string]func(*Proxy){
		"none": (*Proxy).Pass, "black hole": (*Proxy).BlackHole,
		"delay": func(p *Proxy) { p.Delay(time.Hour) }, "drip": func(p *Proxy) { p.Drip(time.Hour) },
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			p := proxied(t)
			conn := dial(t, p.Addr())
			send(t, conn, "a")
			hear(t, conn, "a")
			fault(p)
			send(t, conn, "b")
			fresh := dial(t, p.Addr())
			send(t, fresh, "c")
			p.Close()
			p.Close()
			for _, conn := range []*net.TCPConn{conn, fresh} {
				if _, err := io.ReadAll(conn); errors.Is(err, os.ErrDeadlineExceeded) {
					t.Error("it is still open")
				}
			}
		})
	}
}
