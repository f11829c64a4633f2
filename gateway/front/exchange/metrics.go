package exchange

import (
	"cmp"
	"errors"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/stream"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// Metrics count what happens at the endpoint. Label values are words of this file.
type Metrics struct {
	Received prometheus.Counter // bytes
	Written  stream.Metrics
	// Results of requests with Last-Event-ID.
	Replayed, Gap, moved, unknown prometheus.Counter
	Bounds                        map[refuse.Bound]prometheus.Counter
	// Losses of clients that read slowly.
	SlowEvents, SlowSubscriptions prometheus.Counter
	Fenced                        prometheus.Counter
	refused                       prometheus.Counter
	statuses                      map[int]prometheus.Counter // of refusals; 0 for any other status
	errors                        *prometheus.CounterVec     // by name
}

// NewMetrics makes Metrics, and registers them unless reg is nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	with := promauto.With(reg)
	statuses := with.NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_http_refusals_total",
		Help: "Requests that were refused before they became calls, by HTTP status, without those that lack a good token.",
	}, []string{"status"})
	resumes := with.NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_resumes_total",
		Help: "Streams that clients came back for with Last-Event-ID: call for one of a call, session for the session's own, unknown where nothing is left of it, gap (beside one of these) where events are missing.",
	}, []string{"outcome"})
	slow := with.NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_slow_readers_total",
		Help: "What clients lost that did not read fast enough: cut for a connection, subscription for one of a client without a session that ended, event for one of a call (in a session it is kept for Last-Event-ID).",
	}, []string{"lost"})
	m := &Metrics{
		errors: with.NewCounterVec(prometheus.CounterOpts{
			Name: "gatehouse_errors_total", ConstLabels: prometheus.Labels{"stage": "front"},
			Help: "Errors that clients were answered with, by the stage that wrote them and by the name of the failure.",
		}, []string{failure.Key}),
		refused: with.NewCounter(prometheus.CounterOpts{
			Name: "gatehouse_refused_total", ConstLabels: prometheus.Labels{"stage": "front"},
			Help: "Requests and calls that were refused before they reached an upstream, by the stage that refused them.",
		}),
		statuses: map[int]prometheus.Counter{0: statuses.WithLabelValues("other")},
		Received: with.NewCounter(prometheus.CounterOpts{
			Name: "gatehouse_http_received_bytes_total",
			Help: "Bodies of requests that were read at the endpoint, in bytes.",
		}),
		Written: stream.Metrics{
			Sent: with.NewCounter(prometheus.CounterOpts{
				Name: "gatehouse_http_sent_bytes_total",
				Help: "Bodies and events that were written at the endpoint, in bytes.",
			}),
			Open: with.NewGauge(prometheus.GaugeOpts{
				Name: "gatehouse_streams_open",
				Help: "Event streams that are being written to clients: of calls, of subscriptions and of sessions.",
			}),
			Cut: slow.WithLabelValues("cut"),
		},
		Replayed: resumes.WithLabelValues("call"), moved: resumes.WithLabelValues("session"),
		Gap: resumes.WithLabelValues("gap"), unknown: resumes.WithLabelValues("unknown"),
		Bounds:     make(map[refuse.Bound]prometheus.Counter),
		SlowEvents: slow.WithLabelValues("event"), SlowSubscriptions: slow.WithLabelValues("subscription"),
		Fenced: with.NewCounter(prometheus.CounterOpts{
			Name: "gatehouse_calls_fenced_total",
			Help: "Calls here that were cancelled, because another replica owns their session now: it has answered them as lost.",
		}),
	}
	for _, status := range refuse.Statuses() {
		m.statuses[status] = statuses.WithLabelValues(strconv.Itoa(status))
	}
	for _, b := range refuse.Bounds() {
		m.Bounds[b] = with.NewCounter(prometheus.CounterOpts{
			Name: "gatehouse_bound_refusals_total", ConstLabels: prometheus.Labels{"bound": string(b)},
			Help: "What clients wanted and was refused because a bound on what they can use was reached, by the bound.",
		})
	}
	return m
}

func (m *Metrics) count(r *refuse.Refusal) {
	m.refused.Inc()
	m.answered(r.Err.Name)
	m.Reached(r.Bound)
	cmp.Or(m.statuses[r.Status], m.statuses[0]).Inc()
}

// answered counts an error that a client was answered with.
func (m *Metrics) answered(name failure.Name) { m.errors.WithLabelValues(name.String()).Inc() }

// Reached counts a refusal at a bound; other refusals have none.
func (m *Metrics) Reached(b refuse.Bound) {
	if b != "" {
		m.Bounds[b].Inc()
	}
}

// Resumed counts an attempt to resume a session's stream.
func (m *Metrics) Resumed(err error) {
	switch {
	case err == nil:
		m.moved.Inc()
	case errors.Is(err, session.ErrGap):
		m.moved.Inc()
		m.Gap.Inc()
	default:
		m.unknown.Inc()
	}
}
