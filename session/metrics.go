package session

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics count the sessions that this process knows. Label values are the revisions given to
// NewMetrics, and words of this file.
type Metrics struct {
	opened map[string]prometheus.Counter // by revision; "" for any other
	// Causes of ends.
	deleted, idle, evicted, gone cause
}

// cause is why a session ended.
type cause = prometheus.Counter

// NewMetrics makes Metrics for the revisions of sessions, and registers them unless reg is nil.
func NewMetrics(reg prometheus.Registerer, revisions ...string) *Metrics {
	with := promauto.With(reg)
	opened := with.NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_sessions_opened_total",
		Help: "Sessions that clients began here, by protocol revision.",
	}, []string{"revision"})
	ended := with.NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_sessions_ended_total",
		Help: "Sessions known here that ended, by the cause: deleted by the client, idle for too long, evicted for a newer one of the same user, or gone from Redis, such as one that made room for a newer one at another replica.",
	}, []string{"cause"})
	m := &Metrics{
		opened:  map[string]prometheus.Counter{"": opened.WithLabelValues("other")},
		deleted: ended.WithLabelValues("deleted"), idle: ended.WithLabelValues("idle"), evicted: ended.WithLabelValues("evicted"),
		gone: ended.WithLabelValues("gone"),
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
