package policy

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// counter is one series.
type counter = prometheus.Counter

// Metrics count decisions. Their labels are constants of this file and names of limits.
type Metrics struct {
	allowed, denied, asking, unknown  counter // decisions
	asked, approved, declined, cannot counter // approvals
	unanswered                        counter // likewise
	refusedByPolicy, refusedByLimits  counter
	limits                            *prometheus.CounterVec
}

// NewMetrics makes the metrics and, unless reg is nil, registers them.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	with := promauto.With(reg)
	decisions := with.NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_policy_decisions_total",
		Help: "Decisions on what callers name: allow, ask (by a rule that wants approval), deny, or unknown for what there is not.",
	}, []string{"effect"})
	approvals := with.NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_policy_approvals_total",
		Help: "Questions whether a call may run: asked, approved, declined, unanswered, or impossible where the client" +
			" cannot ask.",
	}, []string{"answer"})
	refused := func(stage string) counter {
		return with.NewCounter(prometheus.CounterOpts{
			Name: "gatehouse_refused_total", ConstLabels: prometheus.Labels{"stage": stage},
			Help: "Requests and calls that were refused before they reached an upstream, by the stage that refused them.",
		})
	}
	return &Metrics{
		allowed: decisions.WithLabelValues("allow"), denied: decisions.WithLabelValues("deny"),
		asking: decisions.WithLabelValues("ask"), unknown: decisions.WithLabelValues("unknown"),
		asked: approvals.WithLabelValues("asked"), approved: approvals.WithLabelValues("approved"),
		declined: approvals.WithLabelValues("declined"), cannot: approvals.WithLabelValues("impossible"),
		unanswered:      approvals.WithLabelValues("unanswered"),
		refusedByPolicy: refused("policy"), refusedByLimits: refused("limits"),
		limits: with.NewCounterVec(prometheus.CounterOpts{
			Name: "gatehouse_limit_refusals_total",
			Help: "Calls that came more often than a limit of the configuration lets them.",
		}, []string{"limit"}),
	}
}

// KeepLimits drops the series of limits that a reload removed.
func (m *Metrics) KeepLimits(before, now Limits) {
	kept := make(map[string]bool, len(now))
	for _, l := range now {
		kept[l.Name] = true
	}
	for _, l := range before {
		if !kept[l.Name] {
			m.limits.DeleteLabelValues(l.Name)
		}
	}
}

// decided counts a decision.
func (m *Metrics) decided(e Effect) {
	switch e {
	case Allow:
		m.allowed.Inc()
	case Ask:
		m.asking.Inc()
	default:
		m.denied.Inc()
		m.refusedByPolicy.Inc()
	}
}
