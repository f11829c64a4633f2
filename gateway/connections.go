package gateway

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/netutil"
)

const (
	defaultConnections = 10_000
	// networkBits is how much of an IPv6 address counts as one client: whoever has one
	// address has all of its network.
	networkBits = 64
)

// Connections is the section "connections": those of clients to the endpoint.
type Connections struct {
	// Max is how many may be open at a time. Further clients wait until one is closed: the
	// system keeps them in its queue. Default 10000.
	Max int `yaml:"max"`
	// PerAddress is how many of one client address may be open at a time, of IPv6 of one
	// network of 64 bits; further ones are closed at once. Behind a proxy all come from
	// the proxy's. Default 0: no bound.
	PerAddress int `yaml:"per_address"`
	// IdleTimeout is after what time without a request a connection is closed. Default
	// 60s.
	IdleTimeout time.Duration `yaml:"idle_timeout"`
}

// Validate reports everything that is wrong.
func (c Connections) Validate() error {
	var errs []error
	if c.Max < 0 {
		errs = append(errs, fmt.Errorf("max: %d is negative", c.Max))
	}
	if c.PerAddress < 0 {
		errs = append(errs, fmt.Errorf("per_address: %d is negative", c.PerAddress))
	}
	if c.IdleTimeout < 0 {
		errs = append(errs, fmt.Errorf("idle_timeout: %s is negative", c.IdleTimeout))
	}
	return errors.Join(errs...)
}

// withDefaults fills in what was left out.
func (c Connections) withDefaults() Connections {
	if c.Max == 0 {
		c.Max = defaultConnections
	}
	if c.IdleTimeout == 0 {
		c.IdleTimeout = defaultIdleTimeout
	}
	return c
}

// bound returns the listener with the limits around it.
func (c Connections) bound(l net.Listener, m *metrics) net.Listener {
	m.connectionsMax.Set(float64(c.Max))
	l = &accepting{l, m.notAccepted.Inc}
	if c.PerAddress > 0 {
		l = &perAddress{Listener: l, most: c.PerAddress, refused: m.tooManyOfOneAddress.Inc, open: make(map[netip.Addr]int)}
	}
	return netutil.LimitListener(l, c.Max)
}

// accepting is a listener that tells when no connection could be taken. The server waits
// before it tries again, longer each time, up to a second.
type accepting struct {
	net.Listener
	failed func()
}

// Accept returns the next connection.
func (l *accepting) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		l.failed()
	}
	return conn, err
}

// perAddress is a listener that closes what is one connection too many of its client.
type perAddress struct {
	net.Listener
	most    int
	refused func()

	mu   sync.Mutex         // guards open
	open map[netip.Addr]int // connections, of those who have any
}

// Accept returns the next connection that may stay.
func (l *perAddress) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := clientOf(conn.RemoteAddr())
		if l.count(from, 1) {
			return &counted{Conn: conn, gone: sync.OnceFunc(func() { l.count(from, -1) })}, nil
		}
		l.refused()
		_ = conn.Close() // with nothing said on it, there is nothing to lose
	}
}

// count counts a connection in or out; false when there would be too many.
func (l *perAddress) count(from netip.Addr, n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n > 0 && l.open[from] >= l.most {
		return false
	}
	if l.open[from] += n; l.open[from] == 0 {
		delete(l.open, from)
	}
	return true
}

// clientOf is what connections are counted by. All addresses that are none count as one.
func clientOf(a net.Addr) netip.Addr {
	from, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{}
	}
	ip := from.Addr().Unmap().WithZone("")
	if ip.Is6() {
		network, err := ip.Prefix(networkBits)
		if err != nil {
			return netip.Addr{}
		}
		return network.Addr()
	}
	return ip
}

// counted is a connection that is counted out when it is closed.
type counted struct {
	net.Conn
	gone func()
}

// Close closes the connection.
func (c *counted) Close() error {
	defer c.gone()
	return c.Conn.Close()
}
