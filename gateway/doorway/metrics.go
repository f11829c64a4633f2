package doorway

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics count connections. All listeners of a gateway share them.
type Metrics struct {
	open, most                    prometheus.Gauge
	notAccepted, refused, evicted prometheus.Counter
	overloaded                    prometheus.Counter // requests
}

// NewMetrics registers metrics.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	with := promauto.With(reg)
	return &Metrics{
		open: with.NewGauge(prometheus.GaugeOpts{
			Name: "gatehouse_connections_open",
			Help: "Connections of clients.",
		}),
		most: with.NewGauge(prometheus.GaugeOpts{
			Name: "gatehouse_connections_max",
			Help: "How many connections of clients may be open at a time; beyond that, connections that are not in use make room.",
		}),
		notAccepted: with.NewCounter(prometheus.CounterOpts{
			Name: "gatehouse_accept_failures_total",
			Help: "Times that a client's connection could not be accepted, mostly because there was no file descriptor left. It waits until it can be.",
		}),
		refused: with.NewCounter(prometheus.CounterOpts{
			Name: "gatehouse_bound_refusals_total", ConstLabels: prometheus.Labels{"bound": "connections_per_address"},
			Help: "What clients wanted and was refused because a bound on what they can use was reached, by the bound.",
		}),
		overloaded: with.NewCounter(prometheus.CounterOpts{
			Name: "gatehouse_bound_refusals_total", ConstLabels: prometheus.Labels{"bound": "requests_at_a_time"},
			Help: "What clients wanted and was refused because a bound on what they can use was reached, by the bound.",
		}),
		evicted: with.NewCounter(prometheus.CounterOpts{
			Name: "gatehouse_connections_evicted_total",
			Help: "Connections of clients that were closed to make room for others, because they had brought no whole request or were idle.",
		}),
	}
}

func (m *Metrics) count(state http.ConnState) {
	switch state {
	case http.StateNew:
		m.open.Inc()
	case http.StateClosed, http.StateHijacked:
		m.open.Dec()
	}
}
