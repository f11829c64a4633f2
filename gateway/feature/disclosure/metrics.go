package disclosure

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are the counters of the stage.
type Metrics struct {
	refused prometheus.Counter // calls of tools that were not described
}

// NewMetrics makes the metrics, and registers them unless reg is nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	return &Metrics{refused: promauto.With(reg).NewCounter(prometheus.CounterOpts{
		Name: "gatehouse_refused_total", ConstLabels: prometheus.Labels{"stage": "disclosure"},
		Help: "Requests and calls that were refused before they reached an upstream, by the stage that refused them.",
	})}
}
