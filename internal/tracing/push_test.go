package tracing_test

import (
	"compress/gzip"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/testutil"
	otlp "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	"google.golang.org/protobuf/proto"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/tracing"
)

// TestPush: a collector gets the metrics of the registry, by their names and with their labels, from this replica.
func TestPush(t *testing.T) {
	got := make(chan *otlp.ExportMetricsServiceRequest, 1)
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/metrics" || r.Header.Get("Authorization") != "Bearer x" {
			t.Errorf("%s, Authorization %q", r.URL, r.Header.Get("Authorization"))
		}
		var request otlp.ExportMetricsServiceRequest
		body, err := gzip.NewReader(r.Body)
		if err == nil {
			var text []byte
			if text, err = io.ReadAll(body); err == nil {
				err = proto.Unmarshal(text, &request)
			}
		}
		if err != nil {
			t.Error(err)
		}
		got <- &request
	}))
	defer at.Close()
	registry := prometheus.NewRegistry()
	promauto.With(registry).NewCounterVec(prometheus.CounterOpts{Name: "gatehouse_x_total"}, []string{"upstream"}).
		WithLabelValues("crm").Add(3)
	to := tracing.Collector{Endpoint: at.URL, Headers: map[string]mcp.Secret{"Authorization": "Bearer x"}}
	stop, err := tracing.Push(to, registry, tracing.Deps{Version: "1.2.3", Replica: "a",
		Log: slog.New(slog.DiscardHandler), Metrics: tracing.NewMetrics(nil)})
	if err != nil {
		t.Fatal(err)
	}
	if err := stop(t.Context()); err != nil {
		t.Error(err)
	}
	text := (<-got).String()
	for _, want := range []string{"gatehouse_x_total", `"upstream"`, `"crm"`, "as_double:3", `"service.instance.id"`, `"a"`,
		`"1.2.3"`} {
		if !strings.Contains(strings.ReplaceAll(text, ": ", ":"), want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
}

// TestPushFails: a collector that is away holds nothing up; the log says it once, and a metric counts.
func TestPushFails(t *testing.T) {
	t.Parallel() // a silent collector takes five seconds
	registry, log := prometheus.NewRegistry(), &mcptest.Log{}
	stop, err := tracing.Push(tracing.Collector{Endpoint: "http://127.0.0.1:1"}, registry,
		tracing.Deps{Log: slog.New(slog.NewTextHandler(log, nil)), Metrics: tracing.NewMetrics(registry)})
	if err != nil {
		t.Fatal(err)
	}
	if err := stop(context.Background()); err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(registry, "gatehouse_metrics_push_failures_total"); err != nil || n != 1 {
		t.Errorf("%d series, %v", n, err)
	}
	if n := log.Count(failure.MetricsLost.String()); n != 1 {
		t.Errorf("the log says it %d times", n)
	}
	release := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer silent.Close()
	defer close(release)
	if stop, err = tracing.Push(tracing.Collector{Endpoint: silent.URL + "/a-secret/v1/metrics"}, registry,
		tracing.Deps{Log: slog.New(slog.NewTextHandler(log, nil)), Metrics: tracing.NewMetrics(nil)}); err != nil {
		t.Fatal(err)
	}
	if err := stop(context.Background()); err != nil { // ends by itself
		t.Error(err)
	}
	if strings.Contains(log.String(), "a-secret") || log.Count(failure.MetricsLost.String()) != 2 {
		t.Errorf("the log has %s", log)
	}
	without := tracing.Collector{Endpoint: "https://otel", CAFile: "none.pem"}
	if _, err := tracing.Push(without, registry, tracing.Deps{}); err == nil {
		t.Error("a file that is not there is taken")
	}
}
