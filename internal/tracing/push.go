package tracing

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
)

// pushEvery is the time between two sendings, that of OpenTelemetry.
const pushEvery = time.Minute

// Push sends metrics to a collector, once a minute and by stop. cfg is the section "telemetry.metrics".
func Push(cfg Collector, from Source, deps Deps) (stop func(context.Context) error, err error) {
	over, err := cfg.Transport()
	if err != nil {
		return nil, fmt.Errorf("telemetry.metrics: %w", err)
	}
	exporter, err := otlpmetrichttp.New(context.Background(), // without I/O
		otlpmetrichttp.WithEndpointURL(cfg.URL("/v1/metrics")),
		otlpmetrichttp.WithHeaders(cfg.AllHeaders()),
		otlpmetrichttp.WithCompression(otlpmetrichttp.GzipCompression),
		otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{}), // the next sending has all that this one had
		otlpmetrichttp.WithTimeout(sendTime),
		otlpmetrichttp.WithHTTPClient(cfg.Client(over)),
	)
	if err != nil {
		return nil, fmt.Errorf("telemetry.metrics: %w", err)
	}
	provider := metric.NewMeterProvider(
		metric.WithResource(Resource(deps.Version, deps.Replica)),
		metric.WithReader(metric.NewPeriodicReader(&pushed{Exporter: exporter, deps: deps, url: cfg.URL("/v1/metrics")},
			metric.WithInterval(pushEvery), metric.WithTimeout(sendTime),
			metric.WithProducer(producerOf(from)))),
	)
	return func(ctx context.Context) error {
		defer over.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(ctx, closeTime)
		defer cancel()
		_ = provider.Shutdown(ctx) // the log has what failed
		return nil
	}, nil
}

// pushed says when sending begins to fail, and when it works again.
type pushed struct {
	metric.Exporter
	deps   Deps
	url    string
	failed bool // only the reader's goroutine exports
}

// Export sends metrics.
func (p *pushed) Export(ctx context.Context, metrics *metricdata.ResourceMetrics) error {
	err := p.Exporter.Export(ctx, metrics)
	switch {
	case err != nil:
		p.deps.Metrics.notPushed.Inc()
		if !p.failed {
			p.deps.Log.Warn("metrics cannot be sent", failure.MetricsLost.Attr(), "error", reason(err, p.url))
		}
	case p.failed:
		p.deps.Log.Info("metrics are sent again")
	}
	p.failed = err != nil
	return nil
}
