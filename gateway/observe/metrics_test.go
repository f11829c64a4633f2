package observe_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gatehouse-mcp/gatehouse/gateway/observe"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// place is an upstream that answers with a function.
type place struct {
	name string
	mcp.HandlerFunc
}

func (p place) Name() string { return p.name }

// series returns all series as name{label=value,...}, with the values of counters.
func series(t testing.TB, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			all[strings.TrimPrefix(f.GetName(), "gatehouse_")+"{"+strings.Join(labels, ",")+
				"}"] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all
}

func TestOutcomes(t *testing.T) {
	left, leave := context.WithCancel(t.Context())
	leave()
	tests := []struct {
		name  string
		ctx   context.Context
		reply *mcp.Reply
		err   error
		want  string
	}{
		{"a result", t.Context(), &mcp.Reply{Result: mcp.Raw("{}")}, nil, "ok"},
		{"a question", t.Context(), &mcp.Reply{Ask: &mcp.Ask{}}, nil, "ask"},
		{"the caller has left", left, nil, context.Canceled, "cancelled"},
		{"cancelled without the caller", t.Context(), nil, context.Canceled, "internal"},
		{"ours", t.Context(), nil, errors.New("oops"), "internal"},
		{"an unknown name", t.Context(), nil, mcp.ErrUnknown("tools/call", "x"), "invalid"},
		{"an unknown method", t.Context(), nil, mcp.ErrMethod("x"), "invalid"},
		{"too many", t.Context(), nil, mcp.Errorf(failure.RateLimited, "x"), "limited"},
		{"unreachable", t.Context(), nil, fmt.Errorf("wrapped: %w", mcp.Errorf(failure.UpstreamDown, "x")), "upstream"},
		{"late", t.Context(), nil, mcp.Errorf(failure.UpstreamTimeout, "x"), "upstream"},
		{"draining", t.Context(), nil, mcp.Errorf(failure.UpstreamClosing, "x"), "unavailable"},
		{"an account is needed", t.Context(), nil, mcp.UpstreamError(failure.SignInNeeded, "crm", mcp.ExecutedNo, "x"),
			"sign-in-needed"},
		{"nobody approved", t.Context(), nil, mcp.Errorf(failure.ApprovalTimeout, "x"), "not-approved"},
		{"the user declined", t.Context(), nil, mcp.Errorf(failure.ApprovalDeclined, "x"), "not-approved"},
		{"the server's own", t.Context(), nil, mcp.Relayed(-32000, "x", nil), "error"},
		{"the server's internal error", t.Context(), nil, mcp.Relayed(mcp.CodeInternal, "x", nil), "error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			reg := prometheus.NewRegistry()
			m := observe.NewMetrics(reg)
			h := mcp.HandlerFunc(func(context.Context, *mcp.Call) (*mcp.Reply, error) { return tt.reply, tt.err })
			c := &mcp.Call{Method: "tools/call", Ephemeral: true, Params: mcp.Raw("{}"), Target: mcp.Target{Upstream: "crm"}}
			_, _ = observer(slog.New(slog.DiscardHandler), m, nil)(m.Of(place{"crm", h})).Handle(tt.ctx, c)
			got := series(t, reg)
			for _, want := range []string{
				"calls_total{era=stateless,method=tools/call,outcome=" + tt.want + "}",
				"upstream_calls_total{era=stateless,method=tools/call,outcome=" + tt.want + ",upstream=crm}",
				"call_duration_seconds{era=stateless,method=tools/call}",
				"upstream_call_duration_seconds{era=stateless,method=tools/call,upstream=crm}",
			} {
				if got[want] != 1 {
					t.Errorf("%s is %v: %v", want, got[want], got)
				}
			}
			if got["calls_in_flight{era=stateless}"] != 0 {
				t.Error("the call is over, and counts as under way")
			}
		})
	}
}

// TestCardinality: whatever clients invent, there are no new series.
func TestCardinality(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := observe.NewMetrics(reg)
	h := observer(slog.New(slog.DiscardHandler), m,
		nil)(m.Of(place{"crm", func(_ context.Context, c *mcp.Call) (*mcp.Reply, error) {
		return nil, mcp.ErrUnknown(c.Method, c.Name)
	}}))
	attack := func(i int) {
		evil := fmt.Sprintf("evil-%d", i)
		_, _ = h.Handle(t.Context(), &mcp.Call{
			ID: evil, Method: evil, Name: evil, Params: mcp.Raw("{}"), Session: evil + ":" + evil, Ephemeral: i%2 == 0,
			Caller: mcp.Caller{Issuer: evil, Subject: evil, ClientID: evil},
			Target: mcp.Target{Kind: mcp.KindTools, Upstream: evil, Name: evil},
		})
	}
	attack(0)
	attack(1)
	before := len(series(t, reg))
	for i := range 100_000 {
		attack(i)
	}
	after := series(t, reg)
	if len(after) != before {
		t.Errorf("%d series, and %d before", len(after), before)
	}
	for name := range after {
		if strings.Contains(name, "evil") {
			t.Errorf("%s has a client's words", name)
		}
	}
	if got := after["upstream_calls_total{era=stateful,method=other,outcome=invalid,upstream=crm}"]; got != 50_001 {
		t.Errorf("%v calls are counted", got)
	}
}

// TestInFlight counts while a call runs, and after one that panics.
func TestInFlight(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := observe.NewMetrics(reg)
	h := observer(slog.New(slog.DiscardHandler), m,
		nil)(m.Running(mcp.HandlerFunc(func(_ context.Context, c *mcp.Call) (*mcp.Reply, error) {
		want := 1.0
		if c.Method == mcp.MethodListen { // which lasts
			want = 0
		}
		if got := series(t, reg)["calls_in_flight{era=stateful}"]; got != want {
			t.Errorf("%v calls of %s are under way, want %v", got, c.Method, want)
		}
		if c.Name == "panic" {
			panic("on purpose")
		}
		return &mcp.Reply{}, nil
	})))
	for _, c := range []mcp.Call{
		{Method: mcp.MethodToolsCall, Revision: "x"}, {Method: mcp.MethodListen, Revision: "x"},
		{Method: mcp.MethodToolsCall, Revision: "x", Name: "panic"},
	} {
		func() {
			defer func() { _ = recover() }()
			_, _ = h.Handle(t.Context(), &c)
		}()
	}
	got := series(t, reg)
	if got["calls_in_flight{era=stateful}"] != 0 {
		t.Errorf("nothing is under way: %v", got)
	}
	if got["calls_total{era=stateful,method=tools/call,outcome=internal}"] != 1 {
		t.Errorf("a panic is an error of ours: %v", got)
	}
	if got["calls_total{era=stateful,method=subscriptions/listen,outcome=ok}"] != 1 {
		t.Errorf("a subscription is counted at its end: %v", got)
	}
	if _, timed := got["call_duration_seconds{era=stateful,method=subscriptions/listen}"]; timed {
		t.Error("how long a client listens says nothing")
	}
}

// TestForget: the series of an upstream disappear with it.
func TestForget(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := observe.NewMetrics(reg)
	ok := func(context.Context, *mcp.Call) (*mcp.Reply, error) { return &mcp.Reply{Result: mcp.Raw("{}")}, nil }
	for _, name := range []string{"crm", "erp"} {
		_, _ = m.Of(place{name, ok}).Handle(t.Context(), &mcp.Call{Method: "tools/call", Target: mcp.Target{Upstream: name}})
	}
	m.Forget("crm")
	kept := 0
	for name := range series(t, reg) {
		if strings.Contains(name, "crm") {
			t.Errorf("%s is still there", name)
		}
		if strings.Contains(name, "erp") {
			kept++
		}
	}
	if kept == 0 {
		t.Error("another upstream has lost its series")
	}
}

// TestWhatTheGatewayAsks: the gateway's own requests to an upstream are not calls of a
// client.
func TestWhatTheGatewayAsks(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := observe.NewMetrics(reg)
	u := m.Of(place{"crm", func(context.Context, *mcp.Call) (*mcp.Reply, error) { return nil, errors.New("x") }})
	before := series(t, reg)
	_, _ = u.Handle(t.Context(), &mcp.Call{Method: "tools/list"})
	for name, value := range series(t, reg) {
		if before[name] != value {
			t.Errorf("%s has become %v", name, value)
		}
	}
}

// TestCountingAllocatesNothing: counting allocates nothing once the series exists.
func TestCountingAllocatesNothing(t *testing.T) {
	reply := &mcp.Reply{Result: mcp.Raw("{}")}
	m := observe.NewMetrics(prometheus.NewRegistry())
	h := observer(slog.New(slog.DiscardHandler), m,
		nil)(m.Of(place{"crm", func(context.Context, *mcp.Call) (*mcp.Reply, error) { return reply, nil }}))
	ctx, c := t.Context(), &mcp.Call{Method: "tools/call", Name: "x", Params: mcp.Raw("{}"),
		Target: mcp.Target{Upstream: "crm"}, Verdict: &mcp.Verdict{}}
	if n := testing.AllocsPerRun(100, func() { _, _ = h.Handle(ctx, c) }); n != 0 {
		t.Errorf("a call that is counted allocates %v times", n)
	}
}

// BenchmarkCounting measures counting a call, at the entrance and at its upstream.
func BenchmarkCounting(b *testing.B) {
	reply := &mcp.Reply{Result: mcp.Raw("{}")}
	m := observe.NewMetrics(prometheus.NewRegistry())
	h := observer(slog.New(slog.DiscardHandler), m,
		nil)(m.Of(place{"crm", func(context.Context, *mcp.Call) (*mcp.Reply, error) { return reply, nil }}))
	ctx, c := b.Context(), &mcp.Call{Method: "tools/call", Name: "x", Params: mcp.Raw("{}"),
		Target: mcp.Target{Upstream: "crm"}, Verdict: &mcp.Verdict{}}
	b.ReportAllocs()
	for b.Loop() {
		_, _ = h.Handle(ctx, c)
	}
}
