package doorway

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pires/go-proxyproto"
)

// looks bounds the idle connections that are compared to find one that makes room.
const looks = 256

// Listener is a listener that bounds the open connections of clients. When all places are taken,
// the oldest connection that has not sent a whole request yet makes room for a new one; if there is
// none, one that has been idle for long does. So unused connections do not keep clients out.
type Listener struct {
	net.Listener
	most, mostOf int // in total, and of one address
	proxies      []netip.Prefix
	headers      bool // of the PROXY protocol
	idleTimeout  time.Duration
	metrics      *Metrics

	vacant  chan struct{} // holds one token: there may be a free place again
	closing chan struct{} // closed by Close
	once    sync.Once
	began   time.Time
	waits   atomic.Bool // a new connection waits for a place

	mu    sync.Mutex // guards the fields below, and fresh of all visitors
	open  map[*visitor]struct{}
	of    map[netip.Addr]int // how many connections; only addresses that have some
	fresh *list.List         // of *visitor, those without a whole request, oldest first

	requests   int                // that run over HTTP/2
	requestsOf map[netip.Addr]int // likewise, of the addresses that have some
}

// visitor is a connection of a client.
type visitor struct {
	net.Conn
	door  *Listener
	peer  netip.Addr    // the other end; zero if it has no address
	name  string        // of peer
	from  netip.Addr    // the client that it is counted for
	proxy bool          // other clients than its peer use it, too
	fresh *list.Element // in door.fresh; nil after the first request
	begun atomic.Bool   // a request has begun
	known atomic.Bool   // a whole request has come
	idle  atomic.Int64  // since when, in nanoseconds after door.began; 0 while a request runs
}

// Read reads, and answers a proxy that has left out its header.
func (v *visitor) Read(p []byte) (int, error) {
	n, err := v.Conn.Read(p)
	if errors.Is(err, proxyproto.ErrNoProxyProtocol) {
		v.refuse()
	}
	return n, err
}

// New returns a listener that bounds the connections of another one. The configuration has its
// defaults.
func New(l net.Listener, c Config, m *Metrics) *Listener {
	m.most.Set(float64(c.Max))
	return &Listener{
		Listener: l, most: c.Max, mostOf: c.PerAddress, proxies: c.networks(), headers: c.ProxyProtocol,
		idleTimeout: c.IdleTimeout, metrics: m,
		vacant: make(chan struct{}, 1), closing: make(chan struct{}), began: time.Now(),
		open: make(map[*visitor]struct{}), of: make(map[netip.Addr]int), fresh: list.New(),
		requestsOf: make(map[netip.Addr]int),
	}
}

// Serve runs a server on the connections until it is shut down; over TLS, if it has a configuration for
// that. It sets the server's hooks, idle timeout and bounds of HTTP/2. The server limits the time of a
// handshake to the shortest of its time limits. Until then, the connection is one without a request.
func (d *Listener) Serve(server *http.Server) error {
	server.ConnState, server.ConnContext, server.IdleTimeout = d.state, d.context, d.idleTimeout
	server.HTTP2 = multiplexing()
	if server.TLSConfig != nil {
		return server.ServeTLS(d, "", "")
	}
	return server.Serve(d)
}

// Accept returns the next connection that has a place. After an error the server waits before
// it tries again, longer each time, up to a second.
func (d *Listener) Accept() (net.Conn, error) {
	for {
		conn, err := d.Listener.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				d.metrics.notAccepted.Inc()
			}
			d.relieve()
			return nil, err
		}
		peer := addressOf(conn.RemoteAddr().String())
		v := &visitor{Conn: conn, door: d, peer: peer, name: nameOf(peer), from: clientOf(peer),
			proxy: isProxy(d.proxies, peer)}
		if d.headers && v.proxy {
			validate := proxyproto.ValidateHeader(v.announced)
			v.Conn = proxyproto.NewConn(conn, proxyproto.SetReadHeaderTimeout(headerTime), validate)
		}
		for !d.admit(v) {
			select {
			case <-d.vacant:
			case <-d.closing:
				conn.Close()
				return nil, net.ErrClosed
			}
		}
		if v.fresh != nil {
			return v, nil
		}
		d.metrics.refused.Inc()
		conn.Close() // nothing was said on it, so nothing is lost
	}
}

// Close ends listening, the wait for a place, and connections on which no request has begun: for
// these, net/http's Shutdown would wait for seconds.
func (d *Listener) Close() error {
	d.once.Do(func() { close(d.closing) })
	defer d.endUnused()
	return d.Listener.Close()
}

func (d *Listener) endUnused() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for e := d.fresh.Front(); e != nil; e = e.Next() {
		if v := e.Value.(*visitor); v.idle.Load() > 0 {
			v.Conn.Close() // its server notices
		}
	}
}

// admit finds a place for a connection. It returns false if the connection has to wait. A
// connection beyond the bound of its address does not become fresh.
func (d *Listener) admit(v *visitor) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !v.proxy && !d.leaves(v.from) {
		d.waits.Store(false)
		return true
	}
	if len(d.open) >= d.most {
		d.waits.Store(true) // before the search: whatever becomes idle from here on wakes us
		before := d.leastUsed()
		if before == nil {
			return false
		}
		d.drop(before)
	}
	d.waits.Store(false)
	d.open[v] = struct{}{}
	d.of[v.from]++
	v.fresh = d.fresh.PushBack(v)
	v.rest()
	return true
}

// leaves reports whether its bound leaves an address one more connection. If it has all that it may
// have, the oldest of them that has sent no request makes room. d.mu is held.
func (d *Listener) leaves(from netip.Addr) bool {
	if d.of[from] < d.mostOf {
		return true
	}
	before := d.oldestOf(from)
	if before == nil {
		return false
	}
	d.drop(before)
	return true
}

// relieve closes an unused connection: there may be no file descriptor left for a new one.
func (d *Listener) relieve() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if least := d.leastUsed(); least != nil && len(d.open) > 1 {
		d.drop(least)
	}
}

// oldestOf returns the oldest connection of an address that has sent no request, or nil. d.mu
// is held.
func (d *Listener) oldestOf(from netip.Addr) *visitor {
	for e := d.fresh.Front(); e != nil; e = e.Next() {
		if v := e.Value.(*visitor); v.from == from {
			return v
		}
	}
	return nil
}

// leastUsed returns the connection that has to make room, or nil if all are in use. d.mu is
// held.
func (d *Listener) leastUsed() (least *visitor) {
	if oldest := d.fresh.Front(); oldest != nil {
		return oldest.Value.(*visitor)
	}
	since, left := int64(0), looks
	for v := range d.open {
		at := v.idle.Load()
		if at == 0 {
			continue
		}
		if least == nil || at < since {
			least, since = v, at
		}
		if left--; left == 0 {
			break
		}
	}
	return least
}

// drop closes a connection. d.mu is held.
func (d *Listener) drop(v *visitor) {
	d.forget(v)
	d.metrics.evicted.Inc()
	v.Conn.Close() // its server notices
}

// forget removes a connection, once. d.mu is held.
func (d *Listener) forget(v *visitor) {
	if _, there := d.open[v]; !there {
		return
	}
	delete(d.open, v)
	d.uncount(v)
	d.settle(v)
}

// uncount subtracts a connection from those of its client. d.mu is held.
func (d *Listener) uncount(v *visitor) {
	if d.of[v.from]--; d.of[v.from] == 0 {
		delete(d.of, v.from)
	}
}

// settle removes a connection from the list of those without a whole request. d.mu is held.
func (d *Listener) settle(v *visitor) {
	if v.fresh != nil {
		d.fresh.Remove(v.fresh)
		v.fresh = nil
	}
}

// Close closes the connection.
func (v *visitor) Close() error {
	v.door.mu.Lock()
	v.door.forget(v)
	v.door.mu.Unlock()
	v.door.wake()
	return v.Conn.Close()
}

// wake makes a waiting connection look for a place.
func (d *Listener) wake() {
	if !d.waits.Load() {
		return
	}
	select {
	case d.vacant <- struct{}{}:
	default:
	}
}

// state is the server's ConnState hook.
func (d *Listener) state(conn net.Conn, state http.ConnState) {
	v := visitorOf(conn)
	d.metrics.count(state)
	switch state {
	case http.StateActive:
		v.idle.Store(0)
	case http.StateIdle:
		if v.begun.Load() { // with HTTP/2, a connection rests before its first request, too
			v.brought() // and was answered
		}
		v.rest()
		d.wake()
	}
}

// rest records that no request runs.
func (v *visitor) rest() { v.idle.Store(max(1, int64(time.Since(v.door.began)))) }

// brought records that a whole request has come.
func (v *visitor) brought() {
	if v.known.Swap(true) {
		return
	}
	v.door.mu.Lock()
	defer v.door.mu.Unlock()
	v.door.settle(v)
}

type visitorKey struct{}

// context adds a connection to the contexts of its requests. It is the server's ConnContext.
func (d *Listener) context(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, visitorKey{}, visitorOf(conn))
}

// visitorOf returns the visitor of a server's connection.
func visitorOf(conn net.Conn) *visitor {
	if over, ok := conn.(*tls.Conn); ok {
		conn = over.NetConn()
	}
	return conn.(*visitor)
}

// Watch returns a request with a body that reports its end, if its connection has not brought a
// whole request yet.
func Watch(r *http.Request) *http.Request {
	v, ok := r.Context().Value(visitorKey{}).(*visitor)
	if !ok || v.known.Load() {
		return r
	}
	v.begun.Store(true)
	if r.ContentLength == 0 {
		v.brought()
		return r
	}
	first := *r
	first.Body = &firstBody{r.Body, v}
	return &first
}

// firstBody is the body of the first request of a connection.
type firstBody struct {
	io.ReadCloser
	from *visitor
}

// Read reads from the body and reports its end.
func (b *firstBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.from.brought()
	}
	return n, err
}
