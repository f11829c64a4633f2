package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
	"github.com/gatehouse-mcp/gatehouse/policy"
)

const idp = "https://idp.example.com"

// draftRules are those of a draft in tests.
func draftRules(rules ...policy.Rule) Rules {
	return Rules{
		Policy: policy.Config{Rules: rules}, Views: []policy.View{{Name: "sales", Show: []string{"tools:crm/*"}}},
		Upstreams: []string{"crm", "erp"}, SignIn: true, Issuers: []string{idp},
	}
}

// past is a recorded call of ann, changed by change.
func past(change func(r *record.Record)) []byte {
	r := &record.Record{
		Time: time.Unix(1_800_000_000, 0), Kind: record.KindCall, ID: "1", Issuer: idp, User: "ann",
		Method: mcp.MethodToolsCall, Name: "crm__x",
		Upstream: "crm", Original: "x", Thing: mcp.KindTools, Decision: "allow", Rule: "old", Outcome: "ok",
	}
	if change != nil {
		change(r)
	}
	return r.AppendJSON(nil)
}

// TestDecide: what each way to lose or win a decision is called.
func TestDecide(t *testing.T) {
	everything := policy.Rule{Name: "all", Allow: []string{"*:*"}}
	var key *record.Key
	for _, tt := range []struct {
		name   string
		draft  Rules
		record func(r *record.Record)
		want   string // change, decision, rule, reason or why
	}{
		{"allowed by another rule", draftRules(everything), nil, "rule allow all "},
		{"the same rule", draftRules(policy.Rule{Name: "old", Allow: []string{"tools:*"}}), nil, ""},
		{"no rule", draftRules(), nil, "refused deny  no rule: the default, or the view"},
		{"no server", draftRules(everything), func(r *record.Record) { r.Upstream = "gone" },
			"refused unknown  the draft has no server gone"},
		{"no view", draftRules(everything), func(r *record.Record) { r.View = "gone" },
			"refused deny  the draft has no view gone"},
		{"a view that does not show it", draftRules(everything),
			func(r *record.Record) { r.View, r.Upstream = "sales", "erp" }, "refused deny  no rule: the default, or the view"},
		{"another issuer", draftRules(everything), func(r *record.Record) { r.Issuer = "https://other.example.com" },
			"refused deny  the draft does not trust the issuer"},
		{"no issuer", draftRules(everything), func(r *record.Record) { r.Issuer, r.User = "", "" },
			"untold    " + untoldSignIn},
		{"an unknown name", draftRules(everything), func(r *record.Record) { r.Decision, r.Upstream = "unknown", "" },
			"untold    " + untoldName},
		{"a limit", draftRules(everything), func(r *record.Record) { r.Decision, r.Outcome, r.Upstream = "", "limited", "" },
			"untold    " + untoldUndecided},
		{"a record without thing", draftRules(everything), func(r *record.Record) { r.Thing = "" },
			"untold    " + untoldThing},
		{"a cut name", draftRules(everything), func(r *record.Record) { r.Name = strings.Repeat("x", 3000) },
			"untold    " + untoldCut},
		{"a cut group", draftRules(everything),
			func(r *record.Record) { r.Groups = []string{"a", strings.Repeat("x", 3000)} }, "untold    " + untoldCut},
		{"arguments", draftRules(everything, policy.Rule{Name: "n", Deny: []string{"tools:*"}, When: "args.n > 1"}),
			func(r *record.Record) { r.ArgumentsDigest = key.Arguments(mcp.Raw(`{"n":2}`)) }, "untold    a rule looks at what is not recorded: arguments"},
		{"recorded arguments", draftRules(everything, policy.Rule{Name: "n", Deny: []string{"tools:*"}, When: "args.n > 1"}),
			func(r *record.Record) {
				r.ArgumentsDigest, r.Arguments = key.Arguments(mcp.Raw(`{"n":2}`)), mcp.Raw(`{"n":2}`)
			}, "refused deny n "},
		{"redacted arguments", draftRules(everything, policy.Rule{Name: "n", Deny: []string{"tools:*"}, When: "args.n > 1"}),
			func(r *record.Record) {
				r.ArgumentsDigest, r.Arguments = key.Arguments(mcp.Raw(`{"n":2}`)), mcp.Raw(`{"n":"<redacted>"}`)
			}, "untold    a rule looks at what is not recorded: arguments"},
		{"no arguments", draftRules(everything, policy.Rule{Name: "n", Deny: []string{"tools:*"}, When: "has(args.n)"}), nil,
			"rule allow all "},
		{"scopes and claims", draftRules(everything, policy.Rule{Name: "n", Deny: []string{"tools:*"},
			Who: policy.Who{Scopes: []string{"a"}, Emails: []string{"a@b"}}}),
			nil, "untold    a rule looks at what is not recorded: scopes, claims of the token"},
		{"scopes that do not matter", draftRules(everything,
			policy.Rule{Name: "n", Deny: []string{"tools:*"}, Who: policy.Who{Scopes: []string{"a"}, Users: []string{"bob"}}}),
			nil, "rule allow all "},
		{"asked", draftRules(everything, policy.Rule{Name: "n", Ask: []string{"tools:*"}}), nil, "asked ask n "},
		{"allowed", draftRules(everything), func(r *record.Record) { r.Decision = "ask" }, "allowed allow all "},
		{"the arguments of load_skill", draftRules(everything,
			policy.Rule{Name: "n", Deny: []string{"skills:*/git"}, When: "!has(args.n)"}),
			func(r *record.Record) {
				r.Thing, r.Original, r.File, r.ArgumentsDigest = mcp.KindSkills, "git", "skill://git/SKILL.md", "sha256:00"
			}, "refused deny n "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := New(Config{Draft: tt.draft})
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Line(t.Context(), past(tt.record)); err != nil {
				t.Fatal(err)
			}
			o, got := r.Report(), ""
			if len(o.Rows) == 1 {
				row, now := o.Rows[0], Side{}
				if row.Now != nil {
					now = *row.Now
				}
				got = fmt.Sprintf("%s %s %s %s%s", row.Change, now.Decision, now.Rule, now.Why, row.Reason)
				if row.Change == Untold {
					got = fmt.Sprintf("%s    %s", row.Change, row.Reason)
				}
			}
			if o.Calls != 1 || got != tt.want || o.Same != 0 != (tt.want == "") {
				t.Errorf("%q, want %q (%+v)", got, tt.want, o)
			}
		})
	}
}

// TestHostileFile: whatever stands in a file, the good records count, and the rest is reported
// with its lines.
func TestHostileFile(t *testing.T) {
	var file bytes.Buffer
	bad := []string{`{`, `null`, `[]`, `"x"`, ``, `{"kind":"call"}`, `{"kind":"call","time":"yesterday"}`,
		`{"kind":7,"time":"2026-11-20T08:00:00Z"}`, "\xff\x00",
		strings.Repeat(`{"a":`, 20_000), `{"x":"` + strings.Repeat("y", 5<<20) + `"}`, string(past(nil)[:100])}
	for _, line := range bad {
		fmt.Fprintf(&file, "%s\n%s\n", past(nil), line)
	}
	file.Write(past(nil)[:50]) // as after a crash
	r, err := New(Config{Draft: draftRules()})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Read(t.Context(), "f", &file); err != nil {
		t.Fatal(err)
	}
	o := r.Report()
	if o.Calls != int64(len(bad)) || len(o.Problems) != len(bad)+1 || o.Rows[0].Count != int64(len(bad)) {
		t.Fatalf("%+v", o)
	}
	for i, p := range o.Problems {
		if p.File != "f" || p.Line != 2*i+2 && i < len(bad) || p.Message == "" || len(p.Message) > 300 {
			t.Errorf("problem %d: %+v", i, p)
		}
	}
}

// TestBounds: no file makes a report grow without an end.
func TestBounds(t *testing.T) {
	r, err := New(Config{Draft: draftRules()})
	if err != nil {
		t.Fatal(err)
	}
	for i := range mostRows + 10 {
		if err := r.Line(t.Context(),
			past(func(r *record.Record) { r.ID, r.User = fmt.Sprint(i), fmt.Sprint("u", i) })); err != nil {
			t.Fatal(err)
		}
		r.Problem(Problem{Message: "x"})
	}
	if o := r.Report(); len(o.Rows) != mostRows || o.MoreRows != 10 || o.Changed[Refused] != mostRows+10 ||
		len(o.Problems) != mostProblems || o.MoreProblems != mostRows+10-mostProblems {
		t.Errorf("%d rows and %d more, %d problems and %d more", len(o.Rows), o.MoreRows, len(o.Problems), o.MoreProblems)
	}
}

// FuzzLine: no line is too much.
func FuzzLine(f *testing.F) {
	f.Add(past(nil))
	f.Add([]byte(`{"kind":"call","time":"2026-11-20T08:00:00Z","method":"tools/call","thing":"x","upstream":"crm","original":"\u0000","decision":"?"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := New(Config{Draft: draftRules(policy.Rule{Name: "all", Allow: []string{"*:*"}, When: "args.n == 1"})})
		if err != nil {
			t.Fatal(err)
		}
		err = r.Line(t.Context(), line)
		o := r.Report()
		if _, wrong := json.Marshal(o); wrong != nil || err != nil && o.Calls+o.Others != 0 {
			t.Errorf("%v, %v: %+v", err, wrong, o)
		}
	})
}

// BenchmarkReplay replays 100,000 recorded calls of 50 users with 40 tools.
func BenchmarkReplay(b *testing.B) {
	rules := Rules{Upstreams: []string{"crm"}, SignIn: true, Issuers: []string{idp}}
	for i := range 20 {
		rules.Policy.Rules = append(rules.Policy.Rules, policy.Rule{
			Name: fmt.Sprint("r", i), Who: policy.Who{Groups: []string{fmt.Sprint("g", i)}},
			Allow: []string{fmt.Sprintf("tools:crm/t%d*", i%4)},
		})
	}
	rules.Policy.Rules = append(rules.Policy.Rules,
		policy.Rule{Name: "few", Deny: []string{"tools:crm/t1*"}, When: "args.n > 10"})
	chain := record.NewChain("a.file", nil)
	var file []byte
	var key *record.Key
	for i := range 100_000 {
		arguments := mcp.Raw(fmt.Sprintf(`{"n":%d,"text":"some words of a question"}`, i%20))
		file = chain.Append(file, &record.Record{
			Time: time.Unix(1_800_000_000+int64(i), 0), Kind: record.KindCall, ID: fmt.Sprint(i), Issuer: idp,
			User: fmt.Sprint("u", i%50), Groups: []string{fmt.Sprint("g", i%20), "all"},
			Client: "agent", Session: record.Digest("s"), Revision: "2025-11-25", Era: "stateful", Method: mcp.MethodToolsCall,
			Name: fmt.Sprint("crm__t", i%40), Upstream: "crm", Original: fmt.Sprint("t", i%40),
			Thing: mcp.KindTools, Decision: "allow", Rule: fmt.Sprint("r", i%20), RuleAt: "gatehouse.yaml:12", Outcome: "ok",
			Executed: "yes", Duration: time.Millisecond, RequestBytes: 100, ReplyBytes: 1000,
			ArgumentsDigest: key.Arguments(arguments), Arguments: arguments,
		})
	}
	b.SetBytes(int64(len(file)))
	for b.Loop() {
		r, err := New(Config{Draft: rules, Current: &rules})
		if err != nil {
			b.Fatal(err)
		}
		if err := r.Read(b.Context(), "f", bytes.NewReader(file)); err != nil || r.Report().Calls != 100_000 {
			b.Fatal(err, r.Report().Calls)
		}
	}
}
