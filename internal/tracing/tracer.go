package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	// scope is the name of what makes the spans.
	scope = "github.com/gatehouse-mcp/gatehouse"
	// firstPause and longestPause are between two tries of a batch.
	firstPause   = time.Second
	longestPause = 5 * time.Second
	// closeTime bounds how long the exporter of a former configuration lives on.
	closeTime = 5 * time.Second
	// attributeBytes bounds the values of attributes.
	attributeBytes = 256
)

// Deps are the dependencies of a Tracer.
type Deps struct {
	// Replica is the name of this process, and Version what it runs.
	Replica, Version string
	// Log receives messages for the operator; nil for none.
	Log *slog.Logger
	// Metrics count spans; nil for none.
	Metrics *Metrics
}

// Tracer makes spans and sends them. It is safe for concurrent use. A nil Tracer, and one
// without an endpoint, makes none.
type Tracer struct {
	deps Deps
	now  atomic.Pointer[setup] // nil for off

	mu     sync.Mutex // guards the fields below
	closed bool
	ending sync.WaitGroup // one for each former setup that still sends
}

// setup holds what a configuration makes.
type setup struct {
	cfg   Config
	share share
	spans trace.Tracer
	queue *queue
	http  *http.Transport
}

// New makes a Tracer, and starts to send if there is an endpoint. It does no I/O itself.
func New(cfg Config, deps Deps) (*Tracer, error) {
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.Metrics == nil {
		deps.Metrics = NewMetrics(nil)
	}
	t := &Tracer{deps: deps}
	apply, err := t.Plan(cfg)
	if err != nil {
		return nil, err
	}
	apply()
	return t, nil
}

// On reports whether there are traces.
func (t *Tracer) On() bool { return t != nil && t.now.Load() != nil }

// ServerSession counts a session of a client that has ended, by the name of its revision.
func (t *Tracer) ServerSession(revision string, lasted time.Duration) {
	if t.On() {
		t.deps.Metrics.serverSessions.WithLabelValues(revision).Observe(lasted.Seconds())
	}
}

// ClientSession counts a session at a server that has ended, by the name of its revision.
func (t *Tracer) ClientSession(revision string, lasted time.Duration) {
	if t.On() {
		t.deps.Metrics.clientSessions.WithLabelValues(revision).Observe(lasted.Seconds())
	}
}

// Plan prepares another configuration. apply puts it in force; what waits for the collector of
// the former one is still sent there. On an error, nothing changes.
func (t *Tracer) Plan(cfg Config) (apply func(), err error) {
	before := t.now.Load()
	if before != nil && reflect.DeepEqual(cfg, before.cfg) {
		return func() {}, nil
	}
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	if cfg.IsZero() {
		return func() { t.swap(nil) }, nil
	}
	part, err := cfg.share()
	if err != nil {
		return nil, err
	}
	next := &setup{cfg: cfg, share: shareOf(part, cfg.TrustParent)}
	if next.http, err = cfg.Transport(); err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	exporter, err := otlptracehttp.New(context.Background(), cfg.options(next.http)...) // without I/O
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	return func() { t.start(next, exporter) }, nil
}

// options say everything, so that no OTEL_ variable of the environment does.
func (c Config) options(over http.RoundTripper) []otlptracehttp.Option {
	return []otlptracehttp.Option{
		otlptracehttp.WithEndpointURL(c.URL("/v1/traces")),
		otlptracehttp.WithHeaders(c.AllHeaders()),
		otlptracehttp.WithCompression(otlptracehttp.GzipCompression),
		otlptracehttp.WithEncoding(otlptracehttp.EncodingProtobuf),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: firstPause,
			MaxInterval: longestPause, MaxElapsedTime: sendTime}),
		otlptracehttp.WithHTTPClient(c.Client(over)),
	}
}

func (t *Tracer) start(next *setup, to sdk.SpanExporter) {
	next.queue = newQueue(to, next.cfg.URL("/v1/traces"), t.deps.Metrics.counts(), t.deps.Log)
	limits := sdk.NewSpanLimits()
	limits.AttributeValueLengthLimit = attributeBytes
	provider := sdk.NewTracerProvider(
		sdk.WithSampler(sdk.AlwaysSample()), // share has decided
		sdk.WithSpanProcessor(next.queue),
		sdk.WithRawSpanLimits(limits),
		sdk.WithResource(Resource(t.deps.Version, t.deps.Replica)),
	)
	next.spans = provider.Tracer(scope, trace.WithInstrumentationVersion(t.deps.Version))
	go next.queue.run() // until close
	t.swap(next)
}

// swap puts a setup in force, nil for none, and ends the former one in the background.
func (t *Tracer) swap(next *setup) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		if next != nil {
			_ = next.close(context.Background()) // it has sent nothing
		}
		return
	}
	if before := t.now.Swap(next); before != nil {
		t.ending.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), closeTime)
			defer cancel()
			_ = before.close(ctx) // what is lost is counted
		})
	}
}

func (s *setup) close(ctx context.Context) error {
	defer s.http.CloseIdleConnections()
	return s.queue.Shutdown(ctx)
}

// Close sends what waits until ctx ends. There are no traces afterwards. It may be called
// twice.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	t.closed = true
	last := t.now.Swap(nil)
	t.mu.Unlock()
	var err error
	if last != nil {
		bounded, cancel := context.WithTimeout(ctx, closeTime)
		defer cancel()
		if err = last.close(bounded); errors.Is(err, context.DeadlineExceeded) {
			err = errors.New("the collector did not take the last traces in time")
		}
	}
	t.ending.Wait()
	return err
}
