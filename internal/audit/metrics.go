package audit

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics count records. Their label comes from the configuration.
type Metrics struct {
	records, dropped, failures, waits *prometheus.CounterVec
	queued                            *prometheus.GaugeVec
}

// NewMetrics makes the metrics and, unless reg is nil, registers them.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	with := promauto.With(reg)
	label := []string{"sink"}
	return &Metrics{
		records: with.NewCounterVec(prometheus.CounterOpts{
			Name: "gatehouse_audit_records_total",
			Help: "Records that a sink of the audit has taken, with those about the chain itself.",
		}, label),
		dropped: with.NewCounterVec(prometheus.CounterOpts{
			Name: "gatehouse_audit_dropped_total",
			Help: "Records that a sink of the audit has not got, because its queue was full, it refused them, or it had failed until the gateway stopped.",
		}, label),
		failures: with.NewCounterVec(prometheus.CounterOpts{
			Name: "gatehouse_audit_failures_total",
			Help: "Times that a sink of the audit could not be written to. What was to be written is tried again.",
		}, label),
		waits: with.NewCounterVec(prometheus.CounterOpts{
			Name: "gatehouse_audit_waits_total",
			Help: "Calls that had to wait before they ran because the queue of a sink of the audit was full.",
		}, label),
		queued: with.NewGaugeVec(prometheus.GaugeOpts{
			Name: "gatehouse_audit_queued",
			Help: "Records that wait for a sink of the audit.",
		}, label),
	}
}

// sinkMetrics are the series of one sink.
type sinkMetrics struct {
	records, dropped, failures, waits prometheus.Counter
	queued                            prometheus.Gauge
}

func (m *Metrics) of(sink string) sinkMetrics {
	return sinkMetrics{
		records: m.records.WithLabelValues(sink), dropped: m.dropped.WithLabelValues(sink),
		failures: m.failures.WithLabelValues(sink),
		waits:    m.waits.WithLabelValues(sink), queued: m.queued.WithLabelValues(sink),
	}
}

// forget drops the series of a sink that no longer exists.
func (m *Metrics) forget(sink string) {
	for _, vec := range []interface{ DeleteLabelValues(...string) bool }{m.records, m.dropped, m.failures,
		m.waits, m.queued} {
		vec.DeleteLabelValues(sink)
	}
}
