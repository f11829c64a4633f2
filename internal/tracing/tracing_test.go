package tracing_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/tracing"
)

func TestMain(m *testing.M) { mcptest.VerifyMain(m) }

// patience is for what happens at once on an idle machine.
const patience = time.Minute

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// collector starts a collector for one test.
func collector(t *testing.T) *mcptest.Collector {
	c := mcptest.NewCollector()
	t.Cleanup(c.Close)
	return c
}

func tracer(t *testing.T, cfg tracing.Config, deps tracing.Deps) *tracing.Tracer {
	t.Helper()
	made, err := tracing.New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = made.Close(context.Background()) })
	return made
}

// parents are traceparents of clients; low and high have ids at both ends of the ratio.
const (
	low         = "00-0af7651916cd43dd0000000000000001-b7ad6b7169203331-01"
	high        = "00-0af7651916cd43ddffffffffffffffff-b7ad6b7169203331-01"
	lowNotTaken = "00-0af7651916cd43dd0000000000000001-b7ad6b7169203331-00"
	another     = "00-11111111111111110000000000000001-2222222222222222-01"
)

func meta(parent string) mcp.Raw {
	return mcp.Object("_meta", mcp.Object("traceparent", mcp.String(parent)))
}

// TestWhichCallsAreTraced: the share decides by the trace's id; a client's flag counts only if
// it is trusted. A call that is not traced keeps the client's id.
func TestWhichCallsAreTraced(t *testing.T) {
	for _, tt := range []struct {
		name, sample string
		trust        bool
		params       mcp.Raw
		header       http.Header
		traced       bool
		id           string
	}{
		{name: "all", params: meta(high), traced: true, id: high[3:35]},
		{name: "none", sample: "0", params: meta(low), id: low[3:35]},
		{name: "none, and nothing known", sample: "0"},
		{name: "a low id", sample: "0.5", params: meta(low), traced: true, id: low[3:35]},
		{name: "a high id", sample: "0.5", params: meta(high), id: high[3:35]},
		{name: "a client's no does not count", sample: "1", params: meta(lowNotTaken), traced: true, id: low[3:35]},
		{name: "unless it is trusted", sample: "1", trust: true, params: meta(lowNotTaken), id: low[3:35]},
		{name: "nor its yes", sample: "0", params: meta(low), id: low[3:35]},
		{name: "unless that is trusted", sample: "0", trust: true, params: meta(high), traced: true, id: high[3:35]},
		{name: "by the header", header: http.Header{"Traceparent": {high}}, traced: true, id: high[3:35]},
		{name: "_meta wins", params: meta(low), header: http.Header{"Traceparent": {another}}, traced: true, id: low[3:35]},
		{name: "a broken one is none", sample: "0", params: meta("00-x"), header: http.Header{"Traceparent": {"y", "z"}}},
		{name: "a broken one in _meta", params: meta("00-x"), header: http.Header{"Traceparent": {low}},
			traced: true, id: low[3:35]},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := tracer(t, tracing.Config{Collector: tracing.Collector{Endpoint: collector(t).URL}, Sample: tt.sample, TrustParent: tt.trust}, tracing.Deps{})
			_, trace := tr.Server(tt.params, tt.header)
			id := ""
			if trace != nil {
				id = trace.ID
			}
			if trace.Spanned() != tt.traced || id != tt.id {
				t.Errorf("trace %+v", trace)
			}
		})
	}
}

// call makes a call in a span, and to a server in another one.
func call(t *testing.T, tr *tracing.Tracer, c *mcp.Call, h http.Header, err error) (trace string) {
	t.Helper()
	span, trace1 := tr.Server(c.Params, h)
	if span == nil {
		t.Fatal("the call is not traced")
	}
	c.Trace = trace1
	span.Call(c, mcp.Raw(`"seven"`))
	inner, sent := tr.Client(c, tracing.Peer{Upstream: "crm", Revision: "2025-11-25", Host: "crm.example.com", Port: 443})
	if sent.Trace.Parent == trace1.Parent || sent.Trace.ID != trace1.ID {
		t.Errorf("the server gets %+v within %+v", sent.Trace, trace1)
	}
	inner.Outcome(t.Context(), nil, err)
	inner.End()
	span.Outcome(t.Context(), &mcp.Reply{Result: mcp.Raw(`{"isError":true}`)}, err)
	span.End()
	return trace1.ID
}

// TestSpans: names, kinds, parents and attributes, as the conventions have them. What comes
// from servers, and arguments, are in none.
func TestSpans(t *testing.T) {
	at := collector(t)
	tr := tracer(t, tracing.Config{Collector: tracing.Collector{Endpoint: at.URL, Headers: map[string]mcp.Secret{"Authorization": "Bearer x"}}},
		tracing.Deps{Version: "v1", Replica: "r1"})
	c := &mcp.Call{
		ID: "call-1", Method: mcp.MethodToolsCall, Name: "crm__export", Revision: "2026-07-28",
		Session: "user:secret-session",
		Params:  mcp.Raw(`{"arguments":{"key":"secret-argument"},"_meta":{"traceparent":"` + low + `","tracestate":"a=b"}}`),
	}
	trace := call(t, tr, c, http.Header{"Traceparent": {another}}, nil)
	unknown := &mcp.Call{ID: "call-2", Method: mcp.MethodToolsCall, Name: "made-up", Params: mcp.Raw(`{}`)}
	missing := call(t, tr, unknown, nil, mcp.ErrUnknown(mcp.MethodToolsCall, "secret-name"))
	strange := call(t, tr, &mcp.Call{Method: "secret/method"}, nil, fmt.Errorf("secret-cause"))
	theirs := call(t, tr, &mcp.Call{Method: mcp.MethodPromptsGet, Name: "p"}, nil,
		mcp.Relayed(-32000, "secret-message", nil))
	if err := tr.Close(deadline(t)); err != nil {
		t.Fatal(err)
	}
	inner, outer := two(t, at, trace)
	if outer.Parent != low[36:52] || inner.Parent != outer.ID || outer.State != "a=b" || inner.State != "a=b" {
		t.Errorf("%+v\n%+v", outer, inner)
	}
	if len(outer.Links) != 1 || outer.Links[0] != another[36:52] {
		t.Errorf("links %v, want the span of the HTTP request", outer.Links)
	}
	wantSpan(t, outer, "SPAN_KIND_SERVER", "tools/call crm__export", map[string]string{
		"mcp.method.name": "tools/call", "gen_ai.tool.name": "crm__export", "gen_ai.operation.name": "execute_tool",
		"jsonrpc.request.id":   "seven",
		"mcp.protocol.version": "2026-07-28", "network.transport": "tcp", "gatehouse.call": "call-1",
		"error.type":     "tool_error",
		"mcp.session.id": "",
	})
	wantSpan(t, inner, "SPAN_KIND_CLIENT", "tools/call crm__export", map[string]string{
		"mcp.method.name": "tools/call", "gen_ai.tool.name": "crm__export", "gen_ai.operation.name": "execute_tool",
		"gatehouse.upstream":   "crm",
		"mcp.protocol.version": "2025-11-25", "network.transport": "tcp", "server.address": "crm.example.com",
		"server.port": "",
	})
	if _, s := two(t, at, missing); s.Name != "tools/call" || s.Attributes["error.type"] != failure.NotFound.String() ||
		!s.Failed || s.Parent != "" {
		t.Errorf("an unknown tool: %+v", s)
	}
	if _, s := two(t, at, strange); s.Name != "_OTHER" || s.Attributes["error.type"] != failure.Internal.String() {
		t.Errorf("an unknown method: %+v", s)
	}
	if s, _ := two(t, at, theirs); s.Name != "prompts/get p" || s.Attributes["error.type"] != failure.Upstream.String() ||
		s.Attributes["rpc.response.status_code"] != "-32000" {
		t.Errorf("an error of a server: %+v", s)
	}
	all := at.String()
	if strings.Contains(all, "secret-") {
		t.Errorf("something secret came to the collector:\n%s", all)
	}
	for _, want := range []string{"Authorization: Bearer x", `string_value:`, `"service.name"`, `"v1"`, `"r1"`} {
		if !strings.Contains(all, want) {
			t.Errorf("%s is missing", want)
		}
	}
}

func two(t *testing.T, at *mcptest.Collector, trace string) (inner, outer mcptest.TracedSpan) {
	t.Helper()
	spans := at.Spans(trace)
	if len(spans) != 2 {
		t.Fatalf("%d spans of trace %s, want 2", len(spans), trace)
	}
	return spans[0], spans[1]
}

// wantSpan compares a span; an attribute whose value is "" only has to be there.
func wantSpan(t *testing.T, s mcptest.TracedSpan, kind, name string, want map[string]string) {
	t.Helper()
	if s.Kind.String() != kind || s.Name != name {
		t.Errorf("%s %q, want %s %q", s.Kind, s.Name, kind, name)
	}
	for key, value := range s.Attributes {
		if wanted, ok := want[key]; !ok || wanted != "" && wanted != value {
			t.Errorf("%s: %s is %q, want %q", kind, key, value, wanted)
		}
	}
	if len(s.Attributes) != len(want) {
		t.Errorf("%s: attributes %v, want %v", kind, s.Attributes, want)
	}
}

// TestAHangingCollector: calls go on, what does not fit into the queue is dropped and counted,
// and a stop is not held up.
func TestAHangingCollector(t *testing.T) {
	at := collector(t)
	release := make(chan struct{})
	at.Break(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	reg := prometheus.NewRegistry()
	log := &mcptest.Log{}
	tr := tracer(t, tracing.Config{Collector: tracing.Collector{Endpoint: at.URL}},
		tracing.Deps{Metrics: tracing.NewMetrics(reg), Log: slog.New(slog.NewTextHandler(log, nil))})
	const spans = 10_000 // more than the queue and one batch
	for range spans {
		span, _ := tr.Server(nil, nil)
		span.Call(&mcp.Call{Method: mcp.MethodToolsList}, nil)
		span.End()
	}
	if err := at.Await(deadline(t), 1); err != nil {
		t.Fatal(err)
	}
	full := value(t, reg, "gatehouse_trace_spans_dropped_total")
	if full < spans-8192-2*512 || full > spans-8192 {
		t.Errorf("%v of %d spans are counted as dropped by the full queue", full, spans)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // no time is left
	_ = tr.Close(ctx)
	close(release)
	if got := value(t, reg, "gatehouse_trace_spans_dropped_total"); got != spans {
		t.Errorf("%v of %d spans are counted as dropped", got, spans)
	}
	if log.Count(failure.TracesLost.String()) != 1 {
		t.Errorf("the log has\n%s\nwant one line, as others are held back", log)
	}
}

// TestARefusedBatch: a collector that refuses spans is counted.
func TestARefusedBatch(t *testing.T) {
	at := collector(t)
	at.Break(mcptest.Status(http.StatusUnauthorized))
	reg := prometheus.NewRegistry()
	tr := tracer(t, tracing.Config{Collector: tracing.Collector{Endpoint: at.URL}}, tracing.Deps{Metrics: tracing.NewMetrics(reg)})
	span, _ := tr.Server(nil, nil)
	span.End()
	if err := tr.Close(deadline(t)); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]float64{"gatehouse_trace_spans_dropped_total": 1,
		"gatehouse_trace_failures_total": 1, "gatehouse_trace_spans_total": 0} {
		if got := value(t, reg, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

func value(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.Metric[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}

// TestDurations: calls are measured, traced or not, on both sides; those that are traced are
// exemplars.
func TestDurations(t *testing.T) {
	reg := prometheus.NewRegistry()
	tr := tracer(t, tracing.Config{Collector: tracing.Collector{Endpoint: collector(t).URL}, Sample: "0.5"},
		tracing.Deps{Metrics: tracing.NewMetrics(reg)})
	one := func(parent, method string, err error) {
		span, trace := tr.Server(meta(parent), nil)
		c := &mcp.Call{Method: method, Trace: trace}
		span.Call(c, nil)
		inner, _ := tr.Client(c, tracing.Peer{})
		for _, s := range []*tracing.Span{inner, span} {
			s.Outcome(t.Context(), nil, err)
			s.End()
		}
	}
	one(high, mcp.MethodToolsCall, nil)
	one(low, mcp.MethodToolsCall, nil)
	one(high, "made-up", mcp.ErrMethod("made-up"))
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, f := range families {
		if f.GetType() != dto.MetricType_HISTOGRAM {
			continue
		}
		for _, m := range f.Metric {
			exemplar := ""
			for _, b := range m.GetHistogram().Bucket {
				for _, l := range b.GetExemplar().GetLabel() {
					exemplar = l.GetName() + " " + l.GetValue()
				}
			}
			got[fmt.Sprintf("%s %s %s %d %s", f.GetName(), m.Label[0].GetValue(), m.Label[1].GetValue(),
				m.GetHistogram().GetSampleCount(), exemplar)] = true
		}
	}
	for _, side := range []string{"server", "client"} {
		for _, want := range []string{"  tools/call 2 trace_id " + low[3:35], " GH-UNKNOWN-METHOD _OTHER 1 "} {
			if want = "mcp_" + side + "_operation_duration_seconds" + want; !got[want] {
				t.Errorf("there is no %q: %v", want, got)
			}
		}
	}
}

// TestPlan: another configuration goes to another collector, what waited still goes to the
// first; a bad one changes nothing.
func TestPlan(t *testing.T) {
	first, second := collector(t), collector(t)
	tr := tracer(t, tracing.Config{Collector: tracing.Collector{Endpoint: first.URL}}, tracing.Deps{})
	span, _ := tr.Server(nil, nil)
	span.End()
	if _, err := tr.Plan(tracing.Config{Collector: tracing.Collector{Endpoint: "otel:4318"}}); err == nil {
		t.Error("a bad endpoint is taken")
	}
	apply, err := tr.Plan(tracing.Config{Collector: tracing.Collector{Endpoint: second.URL + "/v1/traces"}})
	if err != nil {
		t.Fatal(err)
	}
	apply()
	span, _ = tr.Server(nil, nil)
	span.End()
	off, err := tr.Plan(tracing.Config{})
	if err != nil {
		t.Fatal(err)
	}
	off()
	if span, trace := tr.Server(meta(low), nil); span != nil || trace != nil || tr.On() {
		t.Error("there are traces without a section")
	}
	if err := tr.Close(deadline(t)); err != nil {
		t.Error(err)
	}
	if one, two := len(first.Spans("")), len(second.Spans("")); one != 1 || two != 1 {
		t.Errorf("%d and %d spans, want one at each collector", one, two)
	}
}

// TestPrivateAuthority: a collector whose certificate only the operator's authority has signed gets
// the spans, if the configuration names that authority.
func TestPrivateAuthority(t *testing.T) {
	c := collector(t)
	served := httptest.NewUnstartedServer(c)
	served.Config.ErrorLog = log.New(io.Discard, "", 0)
	served.StartTLS()
	t.Cleanup(served.Close)
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: served.Certificate().Raw}),
		0o600); err != nil {
		t.Fatal(err)
	}
	for want, ca := range []string{"", file} {
		tr := tracer(t, tracing.Config{Collector: tracing.Collector{Endpoint: served.URL, CAFile: ca}}, tracing.Deps{})
		span, _ := tr.Server(nil, nil)
		span.End()
		if err := tr.Close(deadline(t)); err != nil {
			t.Errorf("with the authority %q: %v", ca, err)
		}
		if got := len(c.Spans("")); got != want {
			t.Errorf("with the authority %q: %d spans, want %d", ca, got, want)
		}
	}
	if _, err := tracing.New(tracing.Config{Collector: tracing.Collector{Endpoint: served.URL, CAFile: file + "x"}}, tracing.Deps{}); err == nil ||
		!strings.Contains(err.Error(), "ca_file: ") {
		t.Errorf("a file that is not there: %v", err)
	}
}

// TestOffCostsNothing: without an endpoint, a call costs no allocation.
func TestOffCostsNothing(t *testing.T) {
	off := tracer(t, tracing.Config{}, tracing.Deps{})
	h := http.Header{"Accept": {"application/json"}}
	c := &mcp.Call{Method: mcp.MethodToolsCall, Params: meta(high)}
	for name, tr := range map[string]*tracing.Tracer{"off": off, "nil": nil} {
		cost := testing.AllocsPerRun(100, func() {
			span, trace := tr.Server(c.Params, h)
			c.Trace = trace
			span.Call(c, nil)
			inner, same := tr.Client(c, tracing.Peer{})
			if inner != nil || same != c {
				t.Error("there is a span")
			}
			inner.End()
			span.Outcome(context.Background(), nil, nil)
			span.End()
		})
		if cost != 0 || c.Trace != nil {
			t.Errorf("%s: %v allocations, trace %v", name, cost, c.Trace)
		}
	}
}

func TestConfigValidate(t *testing.T) {
	for want, cfg := range map[string]tracing.Config{
		"endpoint: is needed":     {Sample: "0.1"},
		"endpoint: want an http":  {Collector: tracing.Collector{Endpoint: "otel:4318"}},
		"put credentials into":    {Collector: tracing.Collector{Endpoint: "https://u:p@otel"}},
		`sample: "2": want`:       {Collector: tracing.Collector{Endpoint: "https://otel"}, Sample: "2"},
		`sample: "NaN": want`:     {Collector: tracing.Collector{Endpoint: "https://otel"}, Sample: "NaN"},
		`headers: "a b" is not`:   {Collector: tracing.Collector{Endpoint: "https://otel", Headers: map[string]mcp.Secret{"a b": "c"}}},
		"headers: a: the value":   {Collector: tracing.Collector{Endpoint: "https://otel", Headers: map[string]mcp.Secret{"a": "c\n"}}},
		"key_file: one needs":     {Collector: tracing.Collector{Endpoint: "https://otel", CertFile: "a.pem"}},
		"they are for https":      {Collector: tracing.Collector{Endpoint: "http://otel", CAFile: "a.pem"}},
		"<nil>":                   {Collector: tracing.Collector{Endpoint: "https://otel:4318"}, Sample: "0"},
		"<nil> without a section": {},
	} {
		want, _, _ = strings.Cut(want, " without")
		if got := fmt.Sprint(cfg.Validate()); !strings.Contains(got, want) {
			t.Errorf("%+v: %s, want %s", cfg, got, want)
		}
	}
}

// TestHeadersArePassedOn: what a client says in headers of a trace reaches the server where the call has
// no span, unless it is broken.
func TestHeadersArePassedOn(t *testing.T) {
	for name, tr := range map[string]*tracing.Tracer{"off": tracer(t, tracing.Config{}, tracing.Deps{}),
		"not taken": tracer(t, tracing.Config{Collector: tracing.Collector{Endpoint: "http://127.0.0.1:1"}, Sample: "0"}, tracing.Deps{})} {
		_, trace := tr.Server(nil, http.Header{"Traceparent": {low}, "Tracestate": {"a=b", "c=d"}})
		if trace == nil || trace.Spanned() || trace.ID != low[3:35] || trace.Header != low || trace.HeaderState != "a=b,c=d" {
			t.Errorf("%s: %+v", name, trace)
		}
		for _, lines := range [][]string{nil, {"00-x"}, {low, low}} {
			if _, trace := tr.Server(nil, http.Header{"Traceparent": lines}); trace != nil {
				t.Errorf("%s: %q makes %+v", name, lines, trace)
			}
		}
	}
}
