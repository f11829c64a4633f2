package grants

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Steps of a grant, which Metrics count.
const (
	stepAuthorize = "authorize"
	stepSignIn    = "sign_in"
	stepConsent   = "consent"
	stepCode      = "code"
	stepRefresh   = "refresh"
	stepAssertion = "assertion"
	stepRevoke    = "revoke"
)

// Metrics count the steps of grants.
type Metrics struct{ steps *prometheus.CounterVec }

// NewMetrics makes the metrics and, unless reg is nil, registers them.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	return &Metrics{promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_authserver_steps_total",
		Help: "Steps of grants by the gateway's own authorization server: authorize, sign_in, consent, code, refresh, assertion, revoke; by result: ok, refused, or failed when something could not be asked.",
	}, []string{"step", "result"})}
}

// count counts a step by its error.
func (m *Metrics) count(step string, err error) {
	result := "ok"
	if known, ok := errors.AsType[*oauthError](err); ok && known.code != codeUnavailable && known.code != codeServerError {
		result = "refused"
	} else if err != nil {
		result = "failed"
	}
	m.steps.WithLabelValues(step, result).Inc()
}
