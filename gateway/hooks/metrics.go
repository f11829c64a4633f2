package hooks

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Metrics count the effects of hooks.
type Metrics struct {
	runs *prometheus.CounterVec
	took *prometheus.HistogramVec
}

// NewMetrics makes the metrics, and registers them unless reg is nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	with := promauto.With(reg)
	return &Metrics{
		runs: with.NewCounterVec(prometheus.CounterOpts{
			Name: "gatehouse_hook_runs_total",
			Help: "Pieces of content that hooks have looked at, on arguments or results, by what they did.",
		}, []string{"hook", "on", "action"}),
		took: with.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "gatehouse_hook_duration_seconds",
			Help:    "How long hooks looked at one piece of content.",
			Buckets: []float64{.0001, .001, .005, .025, .1, .5, 1, 2.5, 5, 10},
		}, []string{"hook"}),
	}
}

func (m *Metrics) ran(r mcp.HookRun) {
	m.runs.WithLabelValues(r.Name, r.On, r.Action).Inc()
	m.took.WithLabelValues(r.Name).Observe(r.Took.Seconds())
}

// Keep drops the series of hooks that a reload removed.
func (m *Metrics) Keep(before, now Config) {
	kept := make(map[string]bool, len(now))
	for _, h := range now {
		kept[h.Name] = true
	}
	for _, h := range before {
		if !kept[h.Name] {
			m.runs.DeletePartialMatch(prometheus.Labels{"hook": h.Name})
			m.took.DeletePartialMatch(prometheus.Labels{"hook": h.Name})
		}
	}
}
