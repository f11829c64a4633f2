package redisdb

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are the Prometheus metrics of one Redis.
type Metrics struct {
	up               prometheus.Gauge
	script           prometheus.Observer
	unavailable      prometheus.Counter // errors
	notAsked, values prometheus.Counter
	sealed           prometheus.Counter
}

// NewMetrics makes the metrics and registers them. reg may be nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	with := promauto.With(reg)
	duration := with.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "gatehouse_redis_duration_seconds",
		Help:    "How long Redis took to answer, in seconds, failures included: for a script: all that is read and changed.",
		Buckets: []float64{.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1},
	}, []string{"operation"})
	errors := with.NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_redis_errors_total",
		Help: "What was wanted of Redis and not had: unavailable when it did not answer or refused, skipped when it was not asked for it had just failed, value when another kind of value stood there, sealed when what stood there was not sealed for that place by a replica with the same key.",
	}, []string{"kind"})
	m := &Metrics{
		up: with.NewGauge(prometheus.GaugeOpts{
			Name: "gatehouse_redis_up",
			Help: "0 from a failure of Redis on until it has answered without one for some seconds and, when it was full, has taken something new; else 1.",
		}),
		script:      duration.WithLabelValues("script"),
		unavailable: errors.WithLabelValues("unavailable"), notAsked: errors.WithLabelValues("skipped"),
		values: errors.WithLabelValues("value"),
		sealed: errors.WithLabelValues("sealed"),
	}
	m.up.Set(1)
	return m
}

// since records the duration of an operation.
func (m *Metrics) since(start time.Time) { m.script.Observe(time.Since(start).Seconds()) }
