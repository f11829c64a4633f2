package session

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics count the sessions that begin here. Label values are the revisions given to NewMetrics.
type Metrics struct {
	opened map[string]prometheus.Counter // by revision; "" for any other
}

// NewMetrics makes Metrics for the revisions of sessions, and registers them unless reg is nil.
func NewMetrics(reg prometheus.Registerer, revisions ...string) *Metrics {
	with := promauto.With(reg)
	opened := with.NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_sessions_opened_total",
		Help: "Sessions that clients began here, by protocol revision.",
	}, []string{"revision"})
	m := &Metrics{
		opened: map[string]prometheus.Counter{"": opened.WithLabelValues("other")},
	}
	for _, r := range revisions {
		m.opened[r] = opened.WithLabelValues(r)
	}
	return m
}

// open counts a session that began.
func (m *Metrics) open(revision string) {
	cmp.Or(m.opened[revision], m.opened[""]).Inc()
}
