package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/disclosure"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/loadskill"
	"github.com/gatehouse-mcp/gatehouse/gateway/observe"
	"github.com/gatehouse-mcp/gatehouse/gateway/replay"
	"github.com/gatehouse-mcp/gatehouse/gateway/view"
	"github.com/gatehouse-mcp/gatehouse/gateway/whatif"
	"github.com/gatehouse-mcp/gatehouse/internal/audit"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestReplayIsWhatTheGatewayDecides: random calls are made to a gateway and recorded. Whatever a
// replay of the records tells of another configuration is what a gateway with that one decides on
// the same calls.
func TestReplayIsWhatTheGatewayDecides(t *testing.T) {
	told, all := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		w := drawReplay(rt)
		var wrong error
		synctest.Test(t, func(t *testing.T) {
			n, err := w.compare(t.Context())
			told, all, wrong = told+n, all+len(w.calls), err
		})
		if wrong != nil {
			rt.Fatal(wrong)
		}
	})
	if told*3 < all {
		t.Errorf("only %d of %d calls are told", told, all)
	}
}

// replayWorld is a configuration, a draft, and calls.
type replayWorld struct {
	current, draft Config
	calls          []*mcp.Call
}

// compare returns how many calls a replay tells.
func (w *replayWorld) compare(ctx context.Context) (told int, err error) {
	was, err := w.decisions(ctx, w.current)
	if err != nil {
		return 0, err
	}
	now, err := w.decisions(ctx, w.draft)
	if err != nil {
		return 0, err
	}
	for i, r := range was {
		report, err := w.replay(ctx, r)
		if err != nil {
			return 0, err
		}
		if len(report.Rows) == 1 && report.Rows[0].Change == replay.Untold {
			continue
		}
		told++
		got := replay.Side{Decision: r.Decision, Rule: r.Rule}
		unclear := report.Unclear > 0
		if len(report.Rows) == 1 {
			got = *report.Rows[0].Now
			unclear = unclear || got.Rule == "" && got.Why == ""
		}
		want := now[i]
		same := got.Decision == want.Decision && (unclear || got.Rule == want.Rule)
		refused := func(decision string) bool { return decision == "deny" || decision == "unknown" }
		if gone := viewGone(w.draft, r.View); gone { // the front refuses it before anything is decided
			same = refused(got.Decision) && refused(want.Decision)
		}
		if !same {
			return 0, fmt.Errorf("call %d: %s\nwas %s by %q; replayed: %+v; the gateway says %s by %q (%+v)", i,
				r.AppendJSON(nil), r.Decision, r.Rule, got, want.Decision, want.Rule, report)
		}
	}
	return told, nil
}

func viewGone(c Config, name string) bool {
	return name != "" && !slices.ContainsFunc(c.Views, func(v view.Config) bool { return v.Name == name })
}

// replay replays one record.
func (w *replayWorld) replay(ctx context.Context, one *record.Record) (*replay.Report, error) {
	r, err := whatif.NewReplay(replay.Config{}, config.Loaded{Config: w.draft}, &config.Loaded{Config: w.current})
	if err != nil {
		return nil, err
	}
	if err := r.Line(ctx, one.AppendJSON(nil)); err != nil {
		return nil, err
	}
	report := r.Report()
	if report.Calls != 1 {
		return nil, fmt.Errorf("%d calls in %s", report.Calls, one.AppendJSON(nil))
	}
	return report, nil
}

// decisions makes all calls to a gateway, and returns what it records.
func (w *replayWorld) decisions(ctx context.Context, cfg Config) (records []*record.Record, err error) {
	with, err := inMemory("test", slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	journal, err := audit.New(audit.Config{}, audit.Deps{Also: func(r *record.Record) { records = append(records, r) }})
	if err != nil {
		return nil, err
	}
	observer := &observe.Observer{Log: with.log, Metrics: with.metrics.Calls}
	observer.Recorder = &observe.Recorder{Journal: journal, RuleAt: func(string) string { return "" },
		Server: func(string) (string, bool) { return "", false }}
	deps := catalog.Deps{Log: with.log, Seal: with.cursors, Tasks: with.tasks, Views: make(map[string]*view.View)}
	for _, c := range cfg.Views {
		if deps.Views[c.Name], err = view.New(c, disclosure.ToolName, loadskill.ToolName); err != nil {
			return nil, err
		}
	}
	var sources []catalog.Source
	for _, u := range cfg.Upstreams {
		sources = append(sources, catalog.Source{Upstream: replayServer(u.Name), Prefix: u.Prefix, ByClass: true})
	}
	last, err := catalog.New(cfg.Naming, sources, deps)
	if err != nil {
		return nil, err
	}
	made, err := pipeline(cfg, last, with)
	if err != nil {
		return nil, err
	}
	observer.Recorder.Keeps = made.rules.Keeps
	defer heard(ctx, last)()
	for _, c := range w.calls {
		own := c.Clone()
		own.Verdict = &mcp.Verdict{}
		_, _ = observer.Observe(ctx, own, made.pipe.Handler) // the record says how it went
	}
	if len(records) != len(w.calls) {
		return nil, fmt.Errorf("%d records of %d calls", len(records), len(w.calls))
	}
	return records, nil
}

// replayServer has little, so that rules are about it.
func replayServer(name string) *worldServer {
	s := &worldServer{name: name, page: 10, lists: make(map[string][]*worldEntry)}
	for list, names := range map[string][]string{worldTools.list: {"x", "y"}, worldPrompts.list: {"x"},
		worldResources.list: {"mem:x"}} {
		for _, native := range names {
			s.lists[list] = append(s.lists[list], &worldEntry{native: native, times: 1})
		}
	}
	return s
}

// Of what replays are made.
var (
	replayWhos = []policy.Who{{}, {}, {Users: []string{"ann"}}, {Groups: []string{"dev"}}, {Clients: []string{"ide"}},
		{Scopes: []string{"write"}},
		{Emails: []string{"ann@x.org"}}, {Claims: map[string][]string{"team": {"a"}}}}
	replayWhens = []string{"", "", "", "args.n > 1", `caller.user == "ann" || args.n == 1`, `"write" in caller.scopes`,
		`caller.claims.team == "a"`,
		`target.name == "x"`, `args.none == 1`, `caller.user == target.name || args.n == 2`}
	replayPatterns = []string{"*:*", "*:a/*", "*:b/*", "tools:*", "tools:*/x", "prompts:*/x", "resources:*/mem:*",
		"resources:a/mem:x"}
	replayClaims = []mcp.Raw{mcp.Raw(`{}`), mcp.Raw(`{"team":"a"}`),
		mcp.Raw(`{"email":"ann@x.org","email_verified":true}`)}
	replayArgs = []string{"", `,"arguments":{}`, `,"arguments":{"n":1}`, `,"arguments":{"n":2}`, `,"arguments":{"n":"1"}`,
		`,"arguments":{"n": 2}`}
)

func drawReplay(t *rapid.T) *replayWorld {
	w := &replayWorld{current: drawReplayed(t, "current")}
	if w.draft = w.current; rapid.IntRange(0, 3).Draw(t, "draft") > 0 {
		w.draft = drawReplayed(t, "draft")
		if rapid.Bool().Draw(t, "keeps rules") {
			w.draft.Policy.Default, w.draft.Policy.Rules = w.current.Policy.Default,
				slices.Concat(w.current.Policy.Rules, w.draft.Policy.Rules[:min(1, len(w.draft.Policy.Rules))])
			for i := range w.draft.Policy.Rules {
				w.draft.Policy.Rules[i].Name = fmt.Sprint("rule", i)
			}
		}
	}
	for range rapid.IntRange(1, 8).Draw(t, "calls") {
		k := worldKinds[rapid.IntRange(0, 2).Draw(t, "kind")]
		server := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "server")
		name, params := server+"__"+rapid.SampledFrom([]string{"x", "x", "y", "none"}).Draw(t, "name"), "{}"
		if k.named() {
			params = fmt.Sprintf(`{"name":%q%s}`, name, rapid.SampledFrom(replayArgs).Draw(t, "arguments"))
		} else {
			name = server + "+mem:" + rapid.SampledFrom([]string{"x", "y"}).Draw(t, "uri")
		}
		w.calls = append(w.calls, &mcp.Call{
			ID: fmt.Sprint("c", len(w.calls)), Method: k.use, Name: name, Params: mcp.Raw(params),
			Caps: mcp.Raw(`{"elicitation":{}}`), Notify: func(mcp.Event) {},
			Caller: mcp.NewCaller(mcp.Caller{
				Issuer: "https://idp.example.com", Subject: rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "user"),
				ClientID: rapid.SampledFrom([]string{"", "ide"}).Draw(t, "client"),
				Groups:   rapid.SampledFrom([][]string{nil, {"dev", "ops"}}).Draw(t, "groups"),
				Scopes:   rapid.SampledFrom([][]string{nil, {"write"}}).Draw(t, "scopes"),
				Claims:   rapid.SampledFrom(replayClaims).Draw(t, "claims"),
				View:     rapid.SampledFrom([]string{"", "", "v0", "v1"}).Draw(t, "view"),
			}),
		})
	}
	return w
}

func drawReplayed(t *rapid.T, label string) (cfg Config) {
	cfg.Auth.Mode, cfg.Auth.Issuers = auth.ModeOAuth, []auth.Issuer{{URL: "https://idp.example.com"}}
	for _, name := range rapid.SampledFrom([][]string{{"a", "b"}, {"a", "b"}, {"a"}, {"b"}}).Draw(t, label+" servers") {
		cfg.Upstreams = append(cfg.Upstreams, upstream.Config{Name: name})
	}
	cfg.Policy.Default = rapid.SampledFrom([]string{policy.DefaultAllow, policy.DefaultDeny}).Draw(t, label+" default")
	patterns := func() []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(replayPatterns), 1, 2, rapid.ID).Draw(t, "patterns")
	}
	for i := range rapid.IntRange(0, 4).Draw(t, label+" rules") {
		r := policy.Rule{Name: fmt.Sprint("rule", i), Who: rapid.SampledFrom(replayWhos).Draw(t, "who"),
			When: rapid.SampledFrom(replayWhens).Draw(t, "when")}
		if rapid.Bool().Draw(t, "records arguments") {
			r.Record.Arguments = policy.RecordedArguments{"*"}
		}
		for _, to := range rapid.SliceOfNDistinct(rapid.SampledFrom([]*[]string{&r.Allow, &r.Ask, &r.Deny}), 1, 2,
			rapid.ID).Draw(t, "effects") {
			*to = patterns()
		}
		cfg.Policy.Rules = append(cfg.Policy.Rules, r)
	}
	for i := range rapid.IntRange(0, 2).Draw(t, label+" views") {
		cfg.Views = append(cfg.Views, view.Config{Name: fmt.Sprint("v", i), Show: patterns(),
			Who: rapid.SampledFrom(replayWhos).Draw(t, "view for")})
	}
	return cfg
}
