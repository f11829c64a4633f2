package results

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Values of the label outcome.
const (
	outcomeCut         = "cut"         // a part was sent
	outcomeNoRoom      = "no_room"     // sent whole: there was no room to keep it
	outcomeUnavailable = "unavailable" // sent whole: the store failed
	// sent whole: nothing but the structured content is too large, and the tool's output schema requires it
	outcomeStructured = "structured"
)

// Metrics count large results.
type Metrics struct {
	results *prometheus.CounterVec
}

// NewMetrics makes the metrics, and registers them unless reg is nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	return &Metrics{results: promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_large_results_total",
		Help: "Tool results above upstreams[].results.inline: cut, or sent whole because there was no room to keep them (no_room), the store failed (unavailable), or only structured content that an output schema requires is too large (structured).",
	}, []string{"upstream", "outcome"})}
}

// Forget drops the series of an upstream that no longer exists.
func (m *Metrics) Forget(upstream string) {
	m.results.DeletePartialMatch(prometheus.Labels{"upstream": upstream})
}
