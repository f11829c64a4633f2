package tracing

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics count spans. There are no series before traces are on.
type Metrics struct{ sent, dropped, failures *prometheus.CounterVec }

// NewMetrics makes the metrics and, unless reg is nil, registers them.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	with := promauto.With(reg)
	return &Metrics{
		sent: with.NewCounterVec(prometheus.CounterOpts{
			Name: "gatehouse_trace_spans_total",
			Help: "Spans that the collector has taken.",
		}, nil),
		dropped: with.NewCounterVec(prometheus.CounterOpts{
			Name: "gatehouse_trace_spans_dropped_total",
			Help: "Spans that the collector has not got, because the queue was full or the collector did not take them in time.",
		}, nil),
		failures: with.NewCounterVec(prometheus.CounterOpts{
			Name: "gatehouse_trace_failures_total",
			Help: "Batches of spans that the collector did not take.",
		}, nil),
	}
}

// counts are the series of the metrics.
type counts struct{ sent, dropped, failures prometheus.Counter }

func (m *Metrics) counts() counts {
	return counts{m.sent.WithLabelValues(), m.dropped.WithLabelValues(), m.failures.WithLabelValues()}
}
