package admit

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics count what is refused, by upstream.
type Metrics struct{ opened, refused, unasked *prometheus.CounterVec }

// NewMetrics makes them, and registers them unless reg is nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	counter := func(name, help string) *prometheus.CounterVec {
		return promauto.With(reg).NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"upstream"})
	}
	return &Metrics{
		opened: counter("gatehouse_upstream_breaker_opened_total",
			"How often the breaker of an upstream opened, for calls in a row could not reach it."),
		refused: counter("gatehouse_upstream_breaker_refusals_total",
			"Calls that were refused at once, for the breaker of their upstream was open."),
		unasked: counter("gatehouse_upstream_questions_refused_total",
			"Questions of an upstream, or of a stateless one rounds of them, that were not put to a client, for it was asked too much."),
	}
}

// Forget drops the series of an upstream that was removed.
func (m *Metrics) Forget(upstream string) {
	for _, vec := range []*prometheus.CounterVec{m.opened, m.refused, m.unasked} {
		vec.DeletePartialMatch(prometheus.Labels{"upstream": upstream})
	}
}

// numbers are the counters of one upstream.
type numbers struct{ opened, refused, unasked prometheus.Counter }

func (m *Metrics) of(upstream string) numbers {
	return numbers{m.opened.WithLabelValues(upstream), m.refused.WithLabelValues(upstream), m.unasked.WithLabelValues(upstream)}
}
