package upstream

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/gatehouse-mcp/gatehouse/upstream/transport/dial"
)

// stages are the stages at which a call can fail.
var stages = []string{StageResolve, StageConnect, StageTLS, StageLogin, StageHandshake, StageCall}

// Metrics are the counters of all upstreams. Their labels are the names of upstreams and
// fixed words of this package. What Status reports is not repeated here.
type Metrics struct {
	failures, connects             *prometheus.CounterVec // by upstream, and by stage or result
	lost, opened, refused, unasked *prometheus.CounterVec // by upstream
	connections                    *dial.Metrics
}

// NewMetrics makes the metrics, and registers them unless reg is nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	with := promauto.With(reg)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return with.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append(labels, "upstream"))
	}
	return &Metrics{
		failures: counter("gatehouse_upstream_failures_total",
			"Requests to an upstream that failed, the gateway's own too, by the stage at which they did: resolve, connect, tls, login, handshake or call.", "stage"),
		connects: counter("gatehouse_upstream_connects_total",
			"Sessions with an upstream (of a local program: processes) that were opened, by whether they came to something.",
			"result"),
		lost: counter("gatehouse_upstream_sessions_lost_total",
			"Sessions that an upstream did not know any more. The next call opens another one."),
		opened: counter("gatehouse_upstream_breaker_opened_total",
			"How often the breaker of an upstream opened, for calls in a row could not reach it."),
		refused: counter("gatehouse_upstream_breaker_refusals_total",
			"Calls that were refused at once, for the breaker of their upstream was open."),
		unasked: counter("gatehouse_upstream_questions_refused_total",
			"Questions of an upstream, or of a stateless one rounds of them, that were not put to a client, for it was asked too much."),
		connections: dial.NewMetrics(reg),
	}
}

// Forget drops the series of an upstream that no longer exists.
func (m *Metrics) Forget(upstream string) {
	for _, vec := range []*prometheus.CounterVec{m.failures, m.connects, m.lost, m.opened, m.refused, m.unasked} {
		vec.DeletePartialMatch(prometheus.Labels{"upstream": upstream})
	}
}

// numbers are the counters of one upstream.
type numbers struct {
	failures                       map[string]prometheus.Counter // by stage
	connected, failed              prometheus.Counter
	lost, opened, refused, unasked prometheus.Counter
}

func (m *Metrics) of(upstream string) numbers {
	n := numbers{
		failures:  make(map[string]prometheus.Counter, len(stages)),
		connected: m.connects.WithLabelValues("ok", upstream), failed: m.connects.WithLabelValues("failed", upstream),
		lost: m.lost.WithLabelValues(upstream), opened: m.opened.WithLabelValues(upstream),
		refused: m.refused.WithLabelValues(upstream), unasked: m.unasked.WithLabelValues(upstream),
	}
	for _, stage := range stages {
		n.failures[stage] = m.failures.WithLabelValues(stage, upstream)
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
