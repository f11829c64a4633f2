package home

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics count the homes of this replica.
type Metrics struct {
	homes     prometheus.Gauge
	takeovers prometheus.Counter
	lost      prometheus.Counter
	ends      map[Why]prometheus.Counter
}

// NewMetrics makes Metrics, and registers them unless reg is nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	with := promauto.With(reg)
	ends := with.NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_sessions_ended_total",
		Help: "Sessions known here that ended, by the cause: deleted by the client, idle for too long, evicted for a newer one of the same user, or gone from Redis, such as one that made room for a newer one at another replica.",
	}, []string{"cause"})
	return &Metrics{
		homes: with.NewGauge(prometheus.GaugeOpts{
			Name: "gatehouse_homes_held",
			Help: "Sessions that this replica owns.",
		}),
		takeovers: with.NewCounter(prometheus.CounterOpts{
			Name: "gatehouse_takeovers_total",
			Help: "Sessions taken over from replicas that had gone.",
		}),
		lost: with.NewCounter(prometheus.CounterOpts{
			Name: "gatehouse_homes_lost_total",
			Help: "Sessions that another replica had taken over from this one, which could not renew its lease in time or was not reachable.",
		}),
		ends: map[Why]prometheus.Counter{
			Ended: ends.WithLabelValues("deleted"), Idle: ends.WithLabelValues("idle"),
			Evicted: ends.WithLabelValues("evicted"), Gone: ends.WithLabelValues("gone"),
		},
	}
}

// ended counts a session that has ended.
func (m *Metrics) ended(h *Home, why Why) {
	if end := m.ends[why]; end != nil && !h.key.Derived() {
		end.Inc()
	}
}
