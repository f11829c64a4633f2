package gateway

import (
	"container/list"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// looks is how many idle connections are compared for one of them to make room.
const looks = 256

// doorway is a listener that bounds how many connections clients have open. When all
// places are taken, the oldest connection that has brought no whole request yet makes room
// for a new one, and then one that has been idle for long: whoever keeps connections
// without using them keeps nobody out.
type doorway struct {
	net.Listener
	most, mostOf int // in all, and of one address
	proxies      []netip.Prefix
	metrics      *metrics

	vacant  chan struct{} // holds one: there may be a place again
	closing chan struct{} // closed by Close
	once    sync.Once
	began   time.Time
	waits   atomic.Bool // a new connection waits for a place

	mu    sync.Mutex // guards the fields below, and fresh of all visitors
	open  map[*visitor]struct{}
	of    map[netip.Addr]int // how many, of addresses that have any
	fresh *list.List         // of *visitor, those without a whole request, the oldest first
}

// visitor is a connection of a client.
type visitor struct {
	net.Conn
	door  *doorway
	from  netip.Addr    // what it is counted by
	proxy bool          // others than its peer use it, too
	fresh *list.Element // in door.fresh; nil once a request has come
	known atomic.Bool   // a request has come
	idle  atomic.Int64  // since when it has none, in nanoseconds after door.began; 0 for one that has
}

func newDoorway(l net.Listener, c Connections, m *metrics) *doorway {
	m.connectionsMax.Set(float64(c.Max))
	return &doorway{
		Listener: l, most: c.Max, mostOf: c.PerAddress, proxies: c.networks(), metrics: m,
		vacant: make(chan struct{}, 1), closing: make(chan struct{}), began: time.Now(),
		open: make(map[*visitor]struct{}), of: make(map[netip.Addr]int), fresh: list.New(),
	}
}

// Accept returns the next connection that has a place. After an error its server waits
// before it tries again, longer each time, up to a second.
func (d *doorway) Accept() (net.Conn, error) {
	for {
		conn, err := d.Listener.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				d.metrics.notAccepted.Inc()
			}
			d.relieve()
			return nil, err
		}
		from := addressOf(conn.RemoteAddr())
		v := &visitor{Conn: conn, door: d, from: clientOf(from), proxy: slices.ContainsFunc(d.proxies, func(n netip.Prefix) bool { return n.Contains(from) })}
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
		d.metrics.tooManyOfOneAddress.Inc()
		conn.Close() // with nothing said on it, there is nothing to lose
	}
}

// Close ends the listening, and the wait for a place.
func (d *doorway) Close() error {
	d.once.Do(func() { close(d.closing) })
	return d.Listener.Close()
}

// admit finds a place for a connection; false means that it has to wait for one. A
// connection that is one too many of its address does not become fresh.
func (d *doorway) admit(v *visitor) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of[v.from] >= d.mostOf && !v.proxy {
		before := d.oldestOf(v.from)
		if before == nil {
			d.waits.Store(false)
			return true
		}
		d.evict(before)
	}
	if len(d.open) >= d.most {
		d.waits.Store(true) // before the search: whatever becomes idle from here on wakes us
		before := d.leastUsed()
		if before == nil {
			return false
		}
		d.evict(before)
	}
	d.waits.Store(false)
	d.open[v] = struct{}{}
	d.of[v.from]++
	v.fresh = d.fresh.PushBack(v)
	return true
}

// relieve ends a connection that is not used: there may be no file descriptor left for a
// new one.
func (d *doorway) relieve() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if least := d.leastUsed(); least != nil && len(d.open) > 1 {
		d.evict(least)
	}
}

// oldestOf returns the oldest connection of an address that has brought no request, nil
// for none. d.mu is held.
func (d *doorway) oldestOf(from netip.Addr) *visitor {
	for e := d.fresh.Front(); e != nil; e = e.Next() {
		if v := e.Value.(*visitor); v.from == from {
			return v
		}
	}
	return nil
}

// leastUsed returns the connection that has to make room, nil where all are in use.
// d.mu is held.
func (d *doorway) leastUsed() (least *visitor) {
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

// evict closes a connection. d.mu is held.
func (d *doorway) evict(v *visitor) {
	d.forget(v)
	d.metrics.madeRoom.Inc()
	v.Conn.Close() // its server notices
}

// forget takes a connection out, once. d.mu is held.
func (d *doorway) forget(v *visitor) {
	if _, there := d.open[v]; !there {
		return
	}
	delete(d.open, v)
	if d.of[v.from]--; d.of[v.from] == 0 {
		delete(d.of, v.from)
	}
	d.settle(v)
}

// settle takes a connection out of those without a whole request. d.mu is held.
func (d *doorway) settle(v *visitor) {
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

// wake has a connection that waits look for a place.
func (d *doorway) wake() {
	if !d.waits.Load() {
		return
	}
	select {
	case d.vacant <- struct{}{}:
	default:
	}
}

// state hears of connections from their server.
func (d *doorway) state(conn net.Conn, state http.ConnState) {
	v, ok := conn.(*visitor)
	if !ok {
		return
	}
	switch state {
	case http.StateActive:
		v.idle.Store(0)
	case http.StateIdle:
		v.brought() // and was answered
		v.idle.Store(max(1, int64(time.Since(d.began))))
		d.wake()
	}
}

// brought notes that a whole request has come.
func (v *visitor) brought() {
	if v.known.Swap(true) {
		return
	}
	v.door.mu.Lock()
	defer v.door.mu.Unlock()
	v.door.settle(v)
}

type visitorKey struct{}

// context puts a connection into the contexts of its requests.
func (d *doorway) context(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, visitorKey{}, conn)
}

// watch returns a request whose body, on a connection that has brought none yet, says when
// it was read to its end.
func watch(r *http.Request) *http.Request {
	v, ok := r.Context().Value(visitorKey{}).(*visitor)
	switch {
	case !ok || v.known.Load():
		return r
	case r.ContentLength == 0:
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

// Read notes the end.
func (b *firstBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.from.brought()
	}
	return n, err
}
