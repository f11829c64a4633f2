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
	// maxConns bounds the connections that are open, on both sides together. What comes
	// beyond is reset.
	maxConns = 2000
	// dialTime bounds how long a connection waits for the target.
	dialTime = 10 * time.Second
)

// Proxy passes connections on to a target. Its methods are safe for concurrent use; a
// fault holds for connections that are open and for those to come, until the next call.
type Proxy struct {
	listener net.Listener
	ctx      context.Context // over with Close
	cancel   context.CancelFunc
	done     sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	target  string
	fault   fault
	changed chan struct{} // closed when the fault is another one
	conns   map[*net.TCPConn]struct{}
}

// Start makes a proxy to host:port, where host is a loopback address. It passes everything
// on until it is told otherwise.
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

// Redirect has new connections go to another target. Those that are open stay, as they do
// when an address moves to another machine.
func (p *Proxy) Redirect(target string) error {
	if err := check(target); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
	return nil
}

// Addr is where the proxy listens, as host:port. It stays the same whatever the fault.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Pass heals: bytes go on as they come, also those that were held back.
func (p *Proxy) Pass() { p.set(fault{}) }

// Delay passes bytes on by this much later, in each direction. What comes while others
// wait may take twice as long.
func (p *Proxy) Delay(by time.Duration) { p.set(fault{kind: delay, by: by}) }

// Drip passes on one byte at a time, in each direction, with this pause before each.
func (p *Proxy) Drip(every time.Duration) { p.set(fault{kind: drip, by: every}) }

// BlackHole holds everything back: connections stay open and new ones open, but no byte
// and no end of one arrives.
func (p *Proxy) BlackHole() { p.set(fault{kind: blackHole}) }

// Cut ends the connections in order, and new ones as soon as they are open.
func (p *Proxy) Cut() { p.set(fault{kind: cut}) }

// Reset resets the connections, and new ones as soon as they are open.
func (p *Proxy) Reset() { p.set(fault{kind: reset}) }

// Close ends the connections and the proxy, and waits. It may be called twice.
func (p *Proxy) Close() {
	p.cancel()
	p.listener.Close()
	p.set(fault{kind: cut})
	p.done.Wait()
}

// set makes another fault the one that holds.
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

// current returns the fault that holds, and what is closed when it does not any more.
func (p *Proxy) current() (fault, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault, p.changed
}

// add notes a connection, or ends it and reports false.
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

// serve connects a client with the target until either is done.
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
		fault{kind: reset}.end(client) // as refused as it can be by one who listens
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
