package dial

import (
	"context"
	"net"
	"sync/atomic"

	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are the numbers of the connections of all upstreams.
type Metrics struct {
	open       prometheus.Gauge
	ok, failed prometheus.Counter
}

// NewMetrics makes them, and registers them unless reg is nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	with := promauto.With(reg)
	dials := with.NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_upstream_dials_total",
		Help: "Attempts to connect to upstreams on HTTP, by whether they came to something. Upstreams of one origin share their connections.",
	}, []string{"result"})
	return &Metrics{
		open: with.NewGauge(prometheus.GaugeOpts{
			Name: "gatehouse_upstream_connections_open",
			Help: "Connections to upstreams on HTTP, idle ones included.",
		}),
		ok: dials.WithLabelValues("ok"), failed: dials.WithLabelValues("failed"),
	}
}

// counting counts the connections that dial makes, until they are closed.
func (m *Metrics) counting(dial egress.DialFunc) egress.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			m.failed.Inc()
			return nil, err
		}
		m.ok.Inc()
		m.open.Inc()
		if tcp, ok := c.(*net.TCPConn); ok {
			return &countedConn{TCPConn: tcp, open: m.open}, nil
		}
		return &countedTunnel{Conn: c, open: m.open}, nil
	}
}

// countedTunnel is a countedConn within TLS to a proxy.
type countedTunnel struct {
	net.Conn
	open   prometheus.Gauge
	closed atomic.Bool
}

// Close closes the connection.
func (c *countedTunnel) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.open.Dec()
	}
	return c.Conn.Close()
}

// countedConn is a connection that counts until it is closed. What it embeds has the
// methods that make it fast, and tell whether it is alive.
type countedConn struct {
	*net.TCPConn
	open   prometheus.Gauge
	closed atomic.Bool
}

// Close closes the connection.
func (c *countedConn) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.open.Dec()
	}
	return c.TCPConn.Close()
}
