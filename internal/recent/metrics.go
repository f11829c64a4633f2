package recent

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics count records.
type Metrics struct {
	unshared prometheus.Counter
}

// NewMetrics makes the metrics and, unless reg is nil, registers them.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	return &Metrics{unshared: promauto.With(reg).NewCounter(prometheus.CounterOpts{
		Name: "gatehouse_recent_unshared_total",
		Help: "Recent records that other replicas do not know, because Redis was too slow or away: the admin API of this replica alone has them.",
	})}
}
