package stream

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func newWriter(panicked func(any)) *Writer {
	return &Writer{KeepAlive: time.Hour, Timeout: time.Hour, Panicked: panicked, Metrics: Metrics{
		Open: prometheus.NewGauge(prometheus.GaugeOpts{Name: "open"}),
		Sent: prometheus.NewCounter(prometheus.CounterOpts{Name: "sent"}),
		Cut:  prometheus.NewCounter(prometheus.CounterOpts{Name: "cut"}),
	}}
}
