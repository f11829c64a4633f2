package foureyes

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics count the calls that wait, and what becomes of them.
type Metrics struct {
	waiting                                              prometheus.Gauge
	approved, refused, expired, cancelled, stopped, full prometheus.Counter
}

// NewMetrics makes the metrics and, unless reg is nil, registers them.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	with := promauto.With(reg)
	outcomes := with.NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_approver_outcomes_total",
		Help: "Calls that needed the approval of somebody else: approved, refused, expired if nobody decided in time, cancelled by their clients, stopped by a reload or a stop of the gateway, or full if too many waited.",
	}, []string{"outcome"})
	return &Metrics{
		waiting: with.NewGauge(prometheus.GaugeOpts{
			Name: "gatehouse_approver_waiting",
			Help: "Calls that wait for the approval of somebody else than their user.",
		}),
		approved: outcomes.WithLabelValues("approved"), refused: outcomes.WithLabelValues("refused"),
		expired: outcomes.WithLabelValues("expired"), cancelled: outcomes.WithLabelValues("cancelled"),
		stopped: outcomes.WithLabelValues("stopped"), full: outcomes.WithLabelValues("full"),
	}
}

// ended counts the end of a wait by its error; nil for an approval.
func (m *Metrics) ended(err error) {
	switch {
	case err == nil:
		m.approved.Inc()
	case errors.Is(err, ErrFull):
		m.full.Inc()
	case errors.Is(err, ErrExpired):
		m.expired.Inc()
	case errors.Is(err, ErrClosed), errors.Is(err, ErrRestart):
		m.stopped.Inc()
	default:
		m.cancelled.Inc()
	}
}
