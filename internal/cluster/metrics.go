package cluster

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics count renewals of the lease, and forwards.
type Metrics struct {
	// Results of renewals of this replica's lease.
	leaseRenewed, leaseLate, leaseFailed prometheus.Counter
	replicasGone                         prometheus.Counter
	unreachable                          prometheus.Gauge

	forwards map[string]prometheus.Counter // by outcome
	refused  prometheus.Counter            // forwards with a wrong seal
}

// Outcomes of forwards.
const (
	outcomeAnswered    = "answered"
	outcomeBroken      = "broken"
	outcomeLeft        = "left"
	outcomeGone        = "gone"
	outcomeMoved       = "moved"
	outcomeUnreachable = "unreachable"
	outcomeLost        = "lost"
)

// NewMetrics makes Metrics, and registers them unless reg is nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	with := promauto.With(reg)
	lease := registered(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_lease_renewals_total",
		Help: "Renewals of this replica's lease in Redis: ok, late where it had ended, so that others may have taken this replica to have gone, or failed where Redis could not be asked.",
	}, []string{"result"}))
	forwards := with.NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_forwards_total",
		Help: "Requests forwarded to the replica that owns their session: answered; broken, where the answer ended early; left by the client; gone, moved or unreachable, where nothing was done and this replica asks again whose the session is or answers 503; lost, where the owner went before it answered.",
	}, []string{"outcome"})
	m := &Metrics{
		leaseRenewed: lease.WithLabelValues("ok"), leaseLate: lease.WithLabelValues("late"),
		leaseFailed: lease.WithLabelValues("failed"),
		replicasGone: registered(reg, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gatehouse_replicas_gone_total",
			Help: "Other replicas that have gone without a word: they refused connections, or their leases ended.",
		})),
		unreachable: with.NewGauge(prometheus.GaugeOpts{
			Name: "gatehouse_replicas_unreachable",
			Help: "Other replicas that have leases and gave this one no answer for five seconds.",
		}),
		forwards: make(map[string]prometheus.Counter),
		refused: with.NewCounter(prometheus.CounterOpts{
			Name: "gatehouse_forwards_refused_total",
			Help: "Requests on the link between replicas that were refused: no replica with the same key had sealed them for this one, or they had come before.",
		}),
	}
	for _, outcome := range []string{outcomeAnswered, outcomeBroken, outcomeLeft, outcomeGone, outcomeMoved,
		outcomeUnreachable, outcomeLost} {
		m.forwards[outcome] = forwards.WithLabelValues(outcome)
	}
	return m
}

// registered registers a collector, or returns the equal one that is already registered.
func registered[C prometheus.Collector](reg prometheus.Registerer, c C) C {
	if reg == nil {
		return c
	}
	err := reg.Register(c)
	if err == nil {
		return c
	}
	if twice, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if same, ok := twice.ExistingCollector.(C); ok {
			return same
		}
	}
	panic(err) // as promauto does
}
