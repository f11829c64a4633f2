package upstream

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport/dial"
)

// stages are the stages at which a call can fail.
var stages = []string{StageResolve, StageConnect, StageTLS, StageLogin, StageHandshake, StageCall}

// Metrics are the counters of all upstreams. Their labels are the names of upstreams and
// fixed words of this package. What Status reports is not repeated here.
type Metrics struct {
	failures, connects *prometheus.CounterVec // by upstream, and by stage or result
	lost               *prometheus.CounterVec // by upstream
	admit              *admit.Metrics
	connections        *dial.Metrics
}

// NewMetrics makes the metrics, and registers them unless reg is nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	with := promauto.With(reg)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return with.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	return &Metrics{
		failures: counter("gatehouse_upstream_failures_total",
			"Requests to an upstream that failed, the gateway's own too, by the stage at which they did: resolve, connect, tls, login, handshake or call.", "upstream", "stage"),
		connects: counter("gatehouse_upstream_connects_total",
			"Sessions with an upstream (of a local program: processes) that were opened, by whether they came to something.", "upstream", "result"),
		lost: counter("gatehouse_upstream_sessions_lost_total",
			"Sessions that an upstream did not know any more. The next call opens another one.", "upstream"),
		admit:       admit.NewMetrics(reg),
		connections: dial.NewMetrics(reg),
	}
}

// Forget drops the series of an upstream that no longer exists.
func (m *Metrics) Forget(upstream string) {
	for _, vec := range []*prometheus.CounterVec{m.failures, m.connects, m.lost} {
		vec.DeletePartialMatch(prometheus.Labels{"upstream": upstream})
	}
	m.admit.Forget(upstream)
}

// numbers are the counters of one upstream.
type numbers struct {
	failures          map[string]prometheus.Counter // by stage
	connected, failed prometheus.Counter
	lost              prometheus.Counter
}

func (m *Metrics) of(upstream string) numbers {
	n := numbers{
		failures:  make(map[string]prometheus.Counter, len(stages)),
		connected: m.connects.WithLabelValues(upstream, "ok"), failed: m.connects.WithLabelValues(upstream, "failed"),
		lost: m.lost.WithLabelValues(upstream),
	}
	for _, stage := range stages {
		n.failures[stage] = m.failures.WithLabelValues(upstream, stage)
	}
	return n
}

// connect counts an attempt to open a session.
func (n *numbers) connect(err error) {
	if err != nil {
		n.failed.Inc()
		return
	}
	n.connected.Inc()
}
