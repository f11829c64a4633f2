package cluster

import (
	"context"
	"io"
	"net"
	"os"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
)

// redisHost is the host of Redis in a memory network.
const redisHost = "redis"

// latency is how long anything takes on its path.
const latency = time.Millisecond

// memory is a network and a Redis in memory, for a synctest bubble: they wait for nothing outside.
type memory struct {
	redis    *miniredis.Miniredis
	carrying sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	hosts   map[string]*host
	blocked map[[2]string]chan struct{} // paths that carry nothing; closed when they do again
	conns   map[*memoryConn]struct{}
}

func newMemory(t *testing.T) *memory {
	m := &memory{
		redis: miniredis.NewMiniRedis(), hosts: make(map[string]*host),
		blocked: make(map[[2]string]chan struct{}), conns: make(map[*memoryConn]struct{}),
	}
	m.redis.ClockTTL(true)
	conn, err := m.redis.Dial() // starts it
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	m.redis.Server().SetPreHook(func(_ *server.Peer, command string, args ...string) bool {
		if command == "EVAL" {
			args[0] = strings.Replace(args[0], "#!", "--", 1) // it does not know the first line of scripts
		}
		return false
	})
	return m
}

// db returns a connection to Redis from a host. The product has no way to replace the client.
func (m *memory) db(t *testing.T, from string) *redisdb.DB {
	db, err := redisdb.Open(redisdb.Config{URL: "redis://" + redisHost}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		if err := m.wait(ctx, path(from, redisHost)); err != nil {
			return nil, err
		}
		m.mu.Lock()
		here, there := m.pair(path(from, redisHost))
		m.mu.Unlock()
		m.redis.Server().ServeConn(there)
		return here, nil
	}
	client := reflect.ValueOf(db).Elem().FieldByName("client")
	as := redis.NewClient(&redis.Options{
		Addr: redisHost, Dialer: dial, ContextTimeoutEnabled: true, DialTimeout: time.Second / 2, DialerRetries: 1,
		ReadTimeout: time.Second, WriteTimeout: time.Second, MaxRetries: 1, DisableIdentity: true, Protocol: 2,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	reflect.NewAt(client.Type(), client.Addr().UnsafePointer()).Elem().Set(reflect.ValueOf(as))
	return db
}

func path(a, b string) [2]string { return [2]string{min(a, b), max(a, b)} }

// block makes a path carry nothing, or carry again.
func (m *memory) block(a, b string, blocked bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := path(a, b)
	was := m.blocked[p]
	switch {
	case blocked && was == nil:
		m.blocked[p] = make(chan struct{})
	case !blocked && was != nil:
		close(was)
		delete(m.blocked, p)
	}
}

// kill ends a host: connections break, and new ones are refused.
func (m *memory) kill(name string) {
	m.mu.Lock()
	h := m.hosts[name]
	var all []*memoryConn
	for c := range m.conns {
		if c.path[0] == name || c.path[1] == name {
			all = append(all, c)
		}
	}
	m.mu.Unlock()
	h.Close()
	for _, c := range all {
		c.change(func() { c.in, c.out, c.eof = nil, nil, true })
		c.Close()
	}
}

// end ends what is still under way.
func (m *memory) end() {
	m.mu.Lock()
	for p, blocked := range m.blocked {
		close(blocked)
		delete(m.blocked, p)
	}
	m.mu.Unlock()
	m.redis.Close()
	m.carrying.Wait()
}

// host is one machine of a memory network: its network, and its listener.
type host struct {
	*memory
	name   string
	accept chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (h *host) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, h.name[0]), Port: 1} }

func (h *host) listen(string) (net.Listener, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.accept, h.closed = make(chan net.Conn, 100), make(chan struct{})
	h.hosts[h.name] = h
	return h, nil
}

func (h *host) Accept() (net.Conn, error) {
	select {
	case conn := <-h.accept:
		return conn, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close has further connections be refused.
func (h *host) Close() error {
	h.mu.Lock()
	delete(h.hosts, h.name)
	h.mu.Unlock()
	h.once.Do(func() { close(h.closed) })
	return nil
}

func (h *host) dial(ctx context.Context, address string) (net.Conn, error) {
	h.mu.Lock()
	var to *host
	for _, one := range h.hosts {
		if one.Addr().String() == address {
			to = one
		}
	}
	h.mu.Unlock()
	if to == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	if err := h.wait(ctx, path(h.name, to.name)); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hosts[to.name] != to {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	here, there := h.pair(path(h.name, to.name))
	to.accept <- there
	return here, nil
}

// wait waits until a path carries something.
func (m *memory) wait(ctx context.Context, p [2]string) error {
	m.mu.Lock()
	blocked := m.blocked[p]
	m.mu.Unlock()
	if blocked == nil {
		return nil
	}
	select {
	case <-blocked:
		return nil
	case <-ctx.Done():
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
	}
}

// memoryConn is one side of a connection. Writes do not block, since a writer may hold a lock.
type memoryConn struct {
	memory *memory
	path   [2]string
	peer   *memoryConn
	ready  chan struct{} // holds one token: something has changed for the reader
	kick   chan struct{} // holds one token: something has changed for carry

	mu       sync.Mutex // guards the fields below
	in, out  []byte
	eof      bool // after in
	closed   bool
	deadline time.Time // of reads
}

// pair makes a connection over a path. The caller holds mu.
func (m *memory) pair(p [2]string) (a, b *memoryConn) {
	one := func() *memoryConn {
		return &memoryConn{memory: m, path: p, ready: make(chan struct{}, 1), kick: make(chan struct{}, 1)}
	}
	a, b = one(), one()
	a.peer, b.peer = b, a
	for _, c := range []*memoryConn{a, b} {
		m.conns[c] = struct{}{}
		m.carrying.Go(c.carry)
	}
	return a, b
}

func give(token chan struct{}) {
	select {
	case token <- struct{}{}:
	default:
	}
}

// change changes a connection and has its goroutines look.
func (c *memoryConn) change(do func()) {
	c.mu.Lock()
	do()
	c.mu.Unlock()
	give(c.ready)
	give(c.kick)
}

// carry brings what is written to the other side, as long as the path is not blocked. It runs in a
// synctest bubble.
func (c *memoryConn) carry() {
	for {
		c.mu.Lock()
		out, closed := c.out, c.closed
		c.out = nil
		c.mu.Unlock()
		if len(out) == 0 && !closed {
			<-c.kick
			continue
		}
		time.Sleep(latency)
		_ = c.memory.wait(context.Background(), c.path)
		c.peer.change(func() { c.peer.in, c.peer.eof = append(c.peer.in, out...), c.peer.eof || len(out) == 0 })
		if len(out) == 0 {
			return
		}
	}
}

func (c *memoryConn) Read(p []byte) (int, error) {
	for {
		c.mu.Lock()
		n := copy(p, c.in)
		c.in = c.in[n:]
		eof, closed, deadline := c.eof, c.closed, c.deadline
		c.mu.Unlock()
		switch {
		case closed:
			return 0, net.ErrClosed
		case n > 0:
			return n, nil
		case eof:
			return 0, io.EOF
		}
		var late <-chan time.Time
		if !deadline.IsZero() {
			if !time.Now().Before(deadline) {
				return 0, os.ErrDeadlineExceeded
			}
			late = time.After(time.Until(deadline))
		}
		select {
		case <-c.ready:
		case <-late:
		}
	}
}

func (c *memoryConn) Write(p []byte) (n int, err error) {
	c.change(func() {
		if n, err = len(p), net.ErrClosed; !c.closed && !c.eof {
			c.out, err = append(c.out, p...), nil
		}
	})
	return n, err
}

func (c *memoryConn) Close() error {
	c.change(func() { c.closed = true })
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	delete(c.memory.conns, c)
	return nil
}

func (c *memoryConn) SetDeadline(at time.Time) error { return c.SetReadDeadline(at) }

func (c *memoryConn) SetReadDeadline(at time.Time) error {
	c.change(func() { c.deadline = at })
	return nil
}

func (c *memoryConn) SetWriteDeadline(time.Time) error { return nil }

func (c *memoryConn) LocalAddr() net.Addr { return &net.TCPAddr{} }

func (c *memoryConn) RemoteAddr() net.Addr { return &net.TCPAddr{} }
