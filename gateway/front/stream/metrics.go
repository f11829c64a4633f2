package stream

import (
	"errors"
	"os"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics count streams and the bytes written to them.
type Metrics struct {
	Open prometheus.Gauge   // streams
	Sent prometheus.Counter // bytes
	Cut  prometheus.Counter // connections of clients that read too slowly
}

// unread counts a connection that could not be written to in time.
func (m *Metrics) unread(err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		m.Cut.Inc()
	}
}
