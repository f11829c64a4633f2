package faultproxy

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	// maxConns bounds the open connections on both sides together. Further ones are reset.
	maxConns = 2000
	// dialTime bounds how long a connection waits for the target.
	dialTime = 10 * time.Second
)

// Proxy forwards connections to a target. Its methods are safe for concurrent use. A fault
// applies to open and new connections until the next call.
type Proxy struct {
	listener net.Listener
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	done     sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	target  string
	fault   fault
	changed chan struct{} // closed when the fault changes
	conns   map[*net.TCPConn]struct{}
}

// Start starts a proxy to host:port, where host is a loopback address. It forwards
// everything until a fault is set.
func Start(target string) (*Proxy, error) {
	if err := check(target); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("faultproxy: %w", err)
	}
	p := &Proxy{
		listener: listener,
		target:   target,
		changed:  make(chan struct{}),
		conns:    make(map[*net.TCPConn]struct{}),
	}
	p.ctx, p.cancel = context.WithCancel(context.Background()) // until Close
	p.done.Go(p.accept)
	return p, nil
}

func check(target string) error {
	to, err := netip.ParseAddrPort(target)
	if err != nil || !to.Addr().IsLoopback() {
		return fmt.Errorf("faultproxy: %q: want a loopback address and a port", target)
	}
	return nil
}

// Redirect sends new connections to another target. Open ones stay, as when an address
// moves to another machine.
func (p *Proxy) Redirect(target string) error {
	if err := check(target); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
	return nil
}

// Addr returns the listener's address as host:port. It never changes.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Pass ends the fault. Bytes that were held back go on.
func (p *Proxy) Pass() { p.set(fault{}) }

// Delay delays bytes in each direction. Bytes that arrive while others wait may take twice
// as long.
func (p *Proxy) Delay(by time.Duration) { p.set(fault{kind: delay, by: by}) }

// Drip forwards one byte at a time in each direction, with this pause before each.
func (p *Proxy) Drip(every time.Duration) { p.set(fault{kind: drip, by: every}) }

// BlackHole holds everything back: connections stay open and new ones are accepted, but no
// byte and no end arrives.
func (p *Proxy) BlackHole() { p.set(fault{kind: blackHole}) }

// Cut closes open connections, and new ones as soon as they are accepted.
func (p *Proxy) Cut() { p.set(fault{kind: cut}) }

// Reset resets open connections, and new ones as soon as they are accepted.
func (p *Proxy) Reset() { p.set(fault{kind: reset}) }

// Close ends all connections and the proxy, and waits. It may be called twice.
func (p *Proxy) Close() {
	p.cancel()
	p.listener.Close()
	p.set(fault{kind: cut})
	p.done.Wait()
}

// set changes the fault.
func (p *Proxy) set(f fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	close(p.changed)
	p.changed = make(chan struct{})
	if f.kind == cut || f.kind == reset {
		for conn := range p.conns {
			f.end(conn)
		}
	}
}

// current returns the present fault, and a channel that is closed when it changes.
func (p *Proxy) current() (fault, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault, p.changed
}

// add registers a connection, or ends it and reports false.
func (p *Proxy) add(conn *net.TCPConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.ctx.Err() != nil, p.fault.kind == cut, p.fault.kind == reset:
		p.fault.end(conn)
		return false
	case len(p.conns) >= maxConns:
		fault{kind: reset}.end(conn)
		return false
	}
	p.conns[conn] = struct{}{}
	return true
}

func (p *Proxy) remove(conn *net.TCPConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
	conn.Close()
}

// accept serves connections until the listener is closed.
func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			if p.ctx.Err() != nil {
				return
			}
			select { // such as too many open files
			case <-time.After(10 * time.Millisecond):
			case <-p.ctx.Done():
			}
			continue
		}
		client := conn.(*net.TCPConn)
		if p.add(client) {
			p.done.Go(func() { p.serve(client) })
		}
	}
}

// serve connects a client with the target until either ends.
func (p *Proxy) serve(client *net.TCPConn) {
	defer p.remove(client)
	if _, ok := p.turn(0, time.Now()); !ok {
		return
	}
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	dialer := net.Dialer{Timeout: dialTime}
	conn, err := dialer.DialContext(p.ctx, "tcp", target)
	if err != nil {
		fault{kind: reset}.end(client) // the nearest thing to a refusal that a listener can do
		return
	}
	server := conn.(*net.TCPConn)
	if !p.add(server) {
		return
	}
	defer p.remove(server)
	var back sync.WaitGroup
	back.Go(func() { p.pass(client, server) })
	p.pass(server, client)
	back.Wait()
}
