package observe_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway/observe"
	"github.com/gatehouse-mcp/gatehouse/internal/audit"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

func TestMain(m *testing.M) { mcptest.VerifyMain(m) }

// observer has the calls of a handler observed, as gateway/front does.
func observer(log *slog.Logger, metrics *observe.Metrics, recorder *observe.Recorder) mcp.Middleware {
	if metrics == nil {
		metrics = observe.NewMetrics(nil)
	}
	o := &observe.Observer{Log: log, Metrics: metrics, Recorder: recorder}
	return func(next mcp.Handler) mcp.Handler {
		return mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
			if c.Verdict == nil {
				c = c.Clone()
				c.Verdict = &mcp.Verdict{}
			}
			return o.Observe(ctx, c, next)
		})
	}
}

// logged runs one call through the middleware and returns its log as JSON lines.
func logged(t *testing.T, level slog.Level, c *mcp.Call, h mcp.HandlerFunc, ctx context.Context) []map[string]any {
	t.Helper()
	var out bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: level}))
	wantReply, wantErr := h(ctx, c)
	reply, err := observer(log, nil, nil)(h).Handle(ctx, c)
	if reply != wantReply || err != wantErr {
		t.Errorf("the middleware changed the answer: %v, %v", reply, err)
	}
	var lines []map[string]any
	for line := range strings.Lines(out.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		lines = append(lines, m)
	}
	return lines
}

func TestMiddleware(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	down := mcp.UpstreamError(failure.UpstreamDown, "crm", mcp.ExecutedNo, "crm is down")
	spoofed := &mcp.Error{Code: -32602, Message: "bad", Data: mcp.Raw(`{"upstream":"someone else"}`)}
	tests := []struct {
		name  string
		ctx   context.Context
		reply *mcp.Reply
		err   error
		want  map[string]any
	}{
		{"a result", t.Context(), &mcp.Reply{Result: mcp.Raw(`{"secret":1}`)}, nil,
			map[string]any{"level": "INFO", "outcome": "ok"}},
		{"a list", t.Context(), &mcp.Reply{List: &mcp.List{}}, nil, map[string]any{"level": "INFO", "outcome": "ok"}},
		{"an ask", t.Context(), &mcp.Reply{Ask: &mcp.Ask{}}, nil, map[string]any{"level": "INFO", "outcome": "ask"}},
		{"an error", t.Context(), nil, mcp.ErrUnknown(mcp.MethodToolsCall, "x"),
			map[string]any{"level": "INFO", "outcome": "invalid", "code": -32602.0, "error_code": "GH-NOT-FOUND"}},
		{"an upstream's failure", t.Context(), nil, fmt.Errorf("calling: %w", down),
			map[string]any{"level": "INFO", "outcome": "upstream", "code": 50201.0, "error_code": "GH-UPSTREAM-DOWN",
				"upstream": "crm"}},
		{"an error that claims an upstream", t.Context(), nil, spoofed,
			map[string]any{"level": "INFO", "outcome": "invalid", "code": -32602.0, "error_code": "GH-UPSTREAM-ERROR"}},
		{"a failure of ours", t.Context(), nil, errors.New("disk full"),
			map[string]any{"level": "WARN", "outcome": "internal", "code": -32603.0, "error_code": "GH-INTERNAL",
				"error": "disk full"}},
		{"cancelled", cancelled, nil, fmt.Errorf("waiting: %w", context.Canceled),
			map[string]any{"level": "INFO", "outcome": "cancelled"}},
		{"answered although cancelled", cancelled, &mcp.Reply{Result: mcp.Raw(`{}`)}, nil,
			map[string]any{"level": "INFO", "outcome": "ok"}},
		{"somebody else's cancelling", t.Context(), nil, context.Canceled,
			map[string]any{"level": "WARN", "outcome": "internal", "code": -32603.0, "error_code": "GH-INTERNAL",
				"error": "context canceled"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			call := &mcp.Call{ID: "c1", Method: mcp.MethodToolsCall, Name: "crm__export",
				Params: mcp.Raw(`{"arguments":{"password":"hunter2"}}`)}
			lines := logged(t, slog.LevelDebug, call, func(context.Context, *mcp.Call) (*mcp.Reply,
				error) {
				return tt.reply, tt.err
			}, tt.ctx)
			if len(lines) != 1 {
				t.Fatalf("got %d lines, want 1: %v", len(lines), lines)
			}
			got := lines[0]
			if _, ok := got["duration_ms"].(float64); !ok {
				t.Errorf("duration_ms: got %v, want a number", got["duration_ms"])
			}
			delete(got, "time")
			delete(got, "duration_ms")
			want := map[string]any{"msg": "call", "call": "c1", "method": "tools/call", "name": "crm__export"}
			for k, v := range tt.want {
				want[k] = v
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
		})
	}
}

// TestPanicIsRecorded: a call that panics has its line, and its record.
func TestPanicIsRecorded(t *testing.T) {
	var kept []*record.Record
	journal, err := audit.New(audit.Config{}, audit.Deps{Also: func(r *record.Record) { kept = append(kept, r) }})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	recorder := &observe.Recorder{
		Journal: journal,
		Server:  func(string) (string, bool) { return "", false },
	}
	call := &mcp.Call{ID: "c1", Method: mcp.MethodToolsCall, Name: "x", Verdict: &mcp.Verdict{}}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is hidden")
			}
		}()
		handler := mcp.HandlerFunc(func(context.Context, *mcp.Call) (*mcp.Reply, error) { panic("on purpose") })
		_, _ = observer(slog.New(slog.NewTextHandler(&out, nil)), nil, recorder)(handler).Handle(t.Context(), call)
	}()
	if len(kept) != 1 || kept[0].ID != "c1" || kept[0].Outcome != "internal" || kept[0].Error != "GH-INTERNAL" {
		t.Errorf("recorded: %+v", kept)
	}
	if !strings.Contains(out.String(), "call=c1") || !strings.Contains(out.String(), "outcome=internal") {
		t.Errorf("logged: %s", out.String())
	}
}

// TestMiddlewareVerdict: the line says who made a call, where it goes, and which rule
// refused it.
func TestMiddlewareVerdict(t *testing.T) {
	git := mcp.Target{Kind: mcp.KindTools, Upstream: "git", Name: "push"}
	for _, tt := range []struct {
		name    string
		verdict mcp.Verdict
		want    map[string]any
	}{
		{"denied by a rule", mcp.Verdict{Target: git, Effect: "deny", Rule: "no\npushes"},
			map[string]any{"upstream": "git", "policy": "deny", "rule": "no\npushes"}},
		{"denied by default", mcp.Verdict{Target: git, Effect: "deny"}, map[string]any{"upstream": "git", "policy": "deny"}},
		{"to be approved", mcp.Verdict{Target: git, Effect: "ask", Rule: "yes"},
			map[string]any{"upstream": "git", "policy": "ask", "rule": "yes"}},
		{"allowed", mcp.Verdict{Target: git, Effect: "allow", Rule: "all"}, map[string]any{"upstream": "git"}},
		{"unknown", mcp.Verdict{Effect: "unknown"}, map[string]any{"policy": "unknown"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			call := &mcp.Call{ID: "c1", Method: mcp.MethodToolsCall, Name: "git__push",
				Caller: mcp.Caller{Subject: "alice", ClientID: "editor"}}
			lines := logged(t, slog.LevelInfo, call, func(_ context.Context, c *mcp.Call) (*mcp.Reply, error) {
				if c.Verdict != nil {
					*c.Verdict = tt.verdict
				}
				return nil, nil
			}, t.Context())
			want := map[string]any{"level": "INFO", "msg": "call", "call": "c1", "method": "tools/call", "name": "git__push",
				"user": "alice", "client": "editor", "outcome": "ok"}
			for k, v := range tt.want {
				want[k] = v
			}
			delete(lines[0], "time")
			delete(lines[0], "duration_ms")
			if fmt.Sprint(lines[0]) != fmt.Sprint(want) {
				t.Errorf("got  %v\nwant %v", lines[0], want)
			}
			if call.Verdict != nil {
				t.Error("the caller's own call was changed")
			}
		})
	}
}

func TestMiddlewareLevel(t *testing.T) {
	reply, failure := &mcp.Reply{Result: mcp.Raw(`{}`)}, errors.New("disk full")
	ok := func(context.Context, *mcp.Call) (*mcp.Reply, error) { return reply, nil }
	bad := func(context.Context, *mcp.Call) (*mcp.Reply, error) { return nil, failure }
	tests := []struct {
		name  string
		level slog.Level
		h     mcp.HandlerFunc
		want  int
	}{
		{"info shows calls", slog.LevelInfo, ok, 1},
		{"warn hides calls", slog.LevelWarn, ok, 0},
		{"warn shows failures of ours", slog.LevelWarn, bad, 1},
		{"error hides both", slog.LevelError, bad, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := logged(t, tt.level, &mcp.Call{ID: "c"}, tt.h, t.Context()); len(got) != tt.want {
				t.Errorf("got %v, want %d lines", got, tt.want)
			}
		})
	}
}

// A name that a client chooses must not become a second line, a terminal escape sequence,
// or a flood.
func TestMiddlewareNames(t *testing.T) {
	names := map[string]string{
		"line breaks":    "a\nlevel=ERROR msg=\"forged\"\r\nb",
		"escapes":        "a\x1b[2J\x07\x00b",
		"C1 controls":    "a\u009b31mb\u0085c",
		"separators":     "a\u2028b\u2029c",
		"bidirectional":  "a\u202eb",
		"not UTF-8":      "a\xff\xfeb\x9bc",
		"quotes":         `a" outcome="ok`,
		"four megabytes": strings.Repeat("é", 2<<20),
	}
	for _, format := range []string{observe.FormatText, observe.FormatJSON} {
		for name, value := range names {
			t.Run(format+"/"+name, func(t *testing.T) {
				var out bytes.Buffer
				log, done, err := observe.NewLogger(&out, observe.LogConfig{Format: format}, nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				h := observer(log, nil, nil)(mcp.HandlerFunc(func(context.Context, *mcp.Call) (*mcp.Reply, error) {
					return &mcp.Reply{Result: mcp.Raw(`{}`)}, nil
				}))
				if _, err := h.Handle(t.Context(), &mcp.Call{ID: "c1", Method: "m", Name: value}); err != nil {
					t.Fatal(err)
				}
				done()
				line, rest, _ := strings.Cut(out.String(), "\n")
				if rest != "" {
					t.Errorf("more than one line: %q", out.String())
				}
				for _, r := range line {
					if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == 0x2028 || r == 0x2029 || r == 0x202e {
						t.Errorf("%U in %q", r, line)
					}
				}
				if len(line) > 1500 {
					t.Errorf("the line has %d bytes", len(line))
				}
			})
		}
	}
}

func BenchmarkMiddleware(b *testing.B) {
	reply := &mcp.Reply{Result: mcp.Raw(`{}`)}
	h := mcp.HandlerFunc(func(context.Context, *mcp.Call) (*mcp.Reply, error) { return reply, nil })
	call := &mcp.Call{ID: "01ARZ3NDEKTSV4RRFFQ69G5FAV", Method: mcp.MethodToolsCall, Name: "crm__export"}
	for name, level := range map[string]slog.Level{"info": slog.LevelInfo, "off": slog.LevelError} {
		b.Run(name, func(b *testing.B) {
			log, done, err := observe.NewLogger(discard{}, observe.LogConfig{Level: level, Format: observe.FormatJSON}, nil, nil)
			if err != nil {
				b.Fatal(err)
			}
			defer done()
			observed := observer(log, nil, nil)(h)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := observed.Handle(b.Context(), call); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

// TestRecordingNothingCostsNothing: without sinks, a recorder adds no allocation to a call.
func TestRecordingNothingCostsNothing(t *testing.T) {
	journal, err := audit.New(audit.Config{}, audit.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	h := mcp.HandlerFunc(func(context.Context, *mcp.Call) (*mcp.Reply, error) { return nil, nil })
	c := &mcp.Call{Method: mcp.MethodToolsCall, Params: mcp.Raw(`{"name":"x"}`), Verdict: &mcp.Verdict{}}
	cost := func(r *observe.Recorder) float64 {
		stage := observer(slog.New(slog.DiscardHandler), nil, r)(h)
		return testing.AllocsPerRun(100, func() { _, _ = stage.Handle(t.Context(), c) })
	}
	if without, off := cost(nil), cost(&observe.Recorder{Journal: journal}); without != 0 || off != 0 {
		t.Errorf("%v allocations without a recorder, %v with one that records nothing", without, off)
	}
}

// TestToolError: a tool that fails has an outcome of its own, with the beginning of what it says.
func TestToolError(t *testing.T) {
	call := &mcp.Call{ID: "c1", Method: mcp.MethodToolsCall, Name: "crm__export", Target: mcp.Target{Upstream: "crm"},
		Verdict: &mcp.Verdict{}}
	reply := &mcp.Reply{Result: mcp.Raw(`{"content":[{"type":"text","text":"login failed: password=hunter2"}],"isError":true}`)}
	lines := logged(t, slog.LevelInfo, call, func(_ context.Context, c *mcp.Call) (*mcp.Reply, error) {
		c.Reached()
		c.Verdict.Answered(c.Method, reply, nil)
		return reply, nil
	}, t.Context())
	if got := lines[0]; got["outcome"] != "tool-error" || got["server_error"] != "login failed: password=<redacted>" {
		t.Errorf("got %v", got)
	}
}
