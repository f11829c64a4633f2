package auth

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
)

// Metrics count tokens. Their labels are constants of this file.
type Metrics struct {
	cached, verified prometheus.Counter // good ones
	// Requests that were refused, by the class of the reason.
	missing, malformed, invalid, scope, forbidden, unavailable prometheus.Counter
	refused                                                    prometheus.Counter     // all of them
	errors                                                     *prometheus.CounterVec // all of them, by name
}

// NewMetrics makes the metrics and, unless reg is nil, registers them.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	with := promauto.With(reg)
	tokens := with.NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_auth_tokens_total",
		Help: "Requests by what their access token was found to be: cached or verified if good; else missing, malformed, invalid, scope (one is missing), forbidden, or unavailable when the issuer could not be asked.",
	}, []string{"result"})
	return &Metrics{
		cached: tokens.WithLabelValues("cached"), verified: tokens.WithLabelValues("verified"),
		missing: tokens.WithLabelValues("missing"), malformed: tokens.WithLabelValues("malformed"),
		invalid: tokens.WithLabelValues("invalid"),
		scope:   tokens.WithLabelValues("scope"), forbidden: tokens.WithLabelValues("forbidden"),
		unavailable: tokens.WithLabelValues("unavailable"),
		errors: with.NewCounterVec(prometheus.CounterOpts{
			Name: "gatehouse_errors_total", ConstLabels: prometheus.Labels{"stage": "auth"},
			Help: "Errors that clients were answered with, by the stage that wrote them and by the name of the failure.",
		}, []string{failure.Key}),
		refused: with.NewCounter(prometheus.CounterOpts{
			Name: "gatehouse_refused_total", ConstLabels: prometheus.Labels{"stage": "auth"},
			Help: "Requests and calls that were refused before they reached an upstream, by the stage that refused them.",
		}),
	}
}

// refuse counts a refusal.
func (m *Metrics) refuse(r *refusal) {
	m.refused.Inc()
	m.errors.WithLabelValues(r.name.String()).Inc()
	switch {
	case r.status == http.StatusServiceUnavailable:
		m.unavailable.Inc()
	case r.code == codeInvalidRequest:
		m.malformed.Inc()
	case r.code == codeInsufficientScope:
		m.scope.Inc()
	case r.code == codeInvalidToken || r.code == codeInvalidProof:
		m.invalid.Inc()
	case r.status == http.StatusForbidden:
		m.forbidden.Inc()
	default:
		m.missing.Inc()
	}
}
