package session

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are the numbers of sessions that this process knows. Labels are the revisions
// that it was made with, and words of this file.
type Metrics struct {
	opened map[string]prometheus.Counter // by revision; "" for any other
	// Why sessions ended.
	deleted, idle, evicted, gone cause
	// How this replica's lease was renewed, and what it found of others.
	leaseRenewed, leaseLate, leaseFailed prometheus.Counter
	replicasGone                         prometheus.Counter
	uncollected                          prometheus.Counter // large letters
	unopened, repeated                   prometheus.Counter // letters
}

// cause is why a session ended.
type cause = prometheus.Counter

// NewMetrics makes them for the revisions that sessions can have, and registers them
// unless reg is nil.
func NewMetrics(reg prometheus.Registerer, revisions ...string) *Metrics {
	with := promauto.With(reg)
	opened := with.NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_sessions_opened_total",
		Help: "Sessions that clients began here, by protocol revision.",
	}, []string{"revision"})
	ended := with.NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_sessions_ended_total",
		Help: "Sessions known here that ended, by the cause: deleted by the client, idle for too long, evicted for a newer one of the same user (with Redis these count as deleted), or gone from Redis.",
	}, []string{"cause"})
	lease := with.NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_lease_renewals_total",
		Help: "Renewals of this replica's lease in Redis: ok, late where it had ended, so that others may have taken this replica to have gone, or failed where Redis could not be asked.",
	}, []string{"result"})
	m := &Metrics{
		opened:  map[string]prometheus.Counter{"": opened.WithLabelValues("other")},
		deleted: ended.WithLabelValues("deleted"), idle: ended.WithLabelValues("idle"), evicted: ended.WithLabelValues("evicted"),
		gone:         ended.WithLabelValues("gone"),
		leaseRenewed: lease.WithLabelValues("ok"), leaseLate: lease.WithLabelValues("late"), leaseFailed: lease.WithLabelValues("failed"),
		replicasGone: with.NewCounter(prometheus.CounterOpts{
			Name: "gatehouse_replicas_gone_total",
			Help: "Other replicas that were found to have gone while something here waited for them.",
		}),
	}
	letter := func(outcome string) prometheus.Counter {
		return with.NewCounter(prometheus.CounterOpts{
			Name: "gatehouse_letters_total", ConstLabels: prometheus.Labels{"outcome": outcome},
			Help: "Letters between replicas: sent; received; lost here, as Redis did not take them or too much came; uncollected, large ones that could not be fetched from Redis; unopened, which no replica with the same key had sealed for this one; repeated, which had come before.",
		})
	}
	m.uncollected, m.unopened, m.repeated = letter("uncollected"), letter("unopened"), letter("repeated")
	for _, r := range revisions {
		m.opened[r] = opened.WithLabelValues(r)
	}
	return m
}

// open counts a session that began.
func (m *Metrics) open(revision string) {
	c, ok := m.opened[revision]
	if !ok {
		c = m.opened[""]
	}
	c.Inc()
}
