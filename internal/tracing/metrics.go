package tracing

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
)

// Source has the metrics that Push sends.
type Source = prometheus.Gatherer

func producerOf(from Source) metric.Producer {
	return bridge.NewMetricProducer(bridge.WithGatherer(from))
}

// seconds are the bounds of the histograms, those of the conventions for MCP.
var seconds = []float64{.01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 120, 300}

// Metrics count spans, and have durations as OpenTelemetry's conventions for MCP name them.
// There are no series before traces are on. Labels come from the tables of methods, of failures
// and of revisions.
type Metrics struct {
	sent, dropped, failures        *prometheus.CounterVec
	notPushed                      prometheus.Counter
	server, client                 durations
	serverSessions, clientSessions *prometheus.HistogramVec // by mcp_protocol_version
}

// durations are those of requests, by mcp_method_name and error_type.
type durations struct{ *prometheus.HistogramVec }

// observe counts a request. A trace is its exemplar, "" for none.
func (d durations) observe(method, kind string, took time.Duration, trace string) {
	series := d.WithLabelValues(method, kind)
	if with, ok := series.(prometheus.ExemplarObserver); ok && trace != "" {
		with.ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": trace})
		return
	}
	series.Observe(took.Seconds())
}

// NewMetrics makes the metrics and, unless reg is nil, registers them.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	with := promauto.With(reg)
	durationsOf := func(name, help string) durations {
		return durations{with.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: seconds},
			[]string{"mcp_method_name", "error_type"})}
	}
	sessionsOf := func(name, help string) *prometheus.HistogramVec {
		return with.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: seconds},
			[]string{"mcp_protocol_version"})
	}
	return &Metrics{
		serverSessions: sessionsOf("mcp_server_session_duration_seconds",
			"How long sessions of clients lasted, in seconds, from their beginning at whatever replica."),
		clientSessions: sessionsOf("mcp_client_session_duration_seconds",
			"How long sessions at servers lasted, in seconds, since this replica began or resumed them."),
		server: durationsOf("mcp_server_operation_duration_seconds",
			"How long requests of clients took, traced or not, in seconds, with the time that their users took to answer."),
		client: durationsOf("mcp_client_operation_duration_seconds",
			"How long calls of servers took, traced or not, in seconds, without the time in the queue."),
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
		notPushed: with.NewCounter(prometheus.CounterOpts{
			Name: "gatehouse_metrics_push_failures_total",
			Help: "Sendings of metrics that the collector did not take.",
		}),
	}
}

// counts are the series of the metrics.
type counts struct{ sent, dropped, failures prometheus.Counter }

func (m *Metrics) counts() counts {
	return counts{m.sent.WithLabelValues(), m.dropped.WithLabelValues(), m.failures.WithLabelValues()}
}
