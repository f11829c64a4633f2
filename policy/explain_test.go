package policy

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func TestExplain(t *testing.T) {
	p := newForTest(t, Config{Rules: []Rule{
		{Name: "everyone", Allow: []string{"tools:u/get_*"}},
		{Name: "engineers", Who: Who{Groups: []string{"eng"}}, Allow: []string{"tools:u/*"}},
		{Name: "own-repo", Allow: []string{"tools:u/create"}, When: `args.owner == "acme"`},
		{Name: "sure", Ask: []string{"tools:u/create"}, When: `args.owner == "prod"`, ApproveFor: time.Hour},
		{Name: "never", Deny: []string{"*:*/delete_*"}},
		{Name: "half", Allow: []string{"tools:u/half"}, Ask: []string{"tools:u/h*"}},
	}})
	eng := user("bob", "eng")
	tests := []struct {
		name   string
		caller mcp.Caller
		target mcp.Target
		args   string
		want   string
	}{
		{"allowed", user("alice"), tool("u", "get_x"), "", `
allow tools:u/get_x
Rule "everyone" allows it, and none denies it.

  everyone   allow  applies
  engineers  -      does not apply: the caller does not fit who.groups
  own-repo   -      does not apply: no pattern fits tools:u/get_x
  sure       -      does not apply: no pattern fits tools:u/get_x
  never      -      does not apply: no pattern fits tools:u/get_x
  half       -      does not apply: no pattern fits tools:u/get_x
`},
		{"with a condition", user("alice"), tool("u", "create"), `{"owner":"evil"}`, `
deny tools:u/create
No rule allows it: the default is deny.
Lists show it all the same: with other arguments it could be allowed.
The tool's input schema is not known here: a call with arguments that do not fit it is denied.

  everyone   -      does not apply: no pattern fits tools:u/create
  engineers  -      does not apply: the caller does not fit who.groups
  own-repo   -      does not apply: when is false
  sure       -      does not apply: when is false
  never      -      does not apply: no pattern fits tools:u/create
  half       -      does not apply: no pattern fits tools:u/create
`},
		{"a condition that fails", eng, tool("u", "create"), ``, `
deny tools:u/create
Rule "sure" denies it, whatever others say.
Lists show it all the same: with other arguments it could be allowed.
The tool's input schema is not known here: a call with arguments that do not fit it is denied.

  everyone   -      does not apply: no pattern fits tools:u/create
  engineers  allow  applies
  own-repo   -      does not allow: when cannot be evaluated: no such key: owner
  sure       deny   denies: when cannot be evaluated: no such key: owner
  never      -      does not apply: no pattern fits tools:u/create
  half       -      does not apply: no pattern fits tools:u/create
`},
		{"asked", eng, tool("u", "create"), `{"owner":"prod"}`, `
ask tools:u/create
Rule "engineers" allows it, once the user approves: rule "sure" asks.
The user is asked; an approval is good for 1h0m0s.
The tool's input schema is not known here: a call with arguments that do not fit it is denied.

  everyone   -      does not apply: no pattern fits tools:u/create
  engineers  allow  applies
  own-repo   -      does not apply: when is false
  sure       ask    applies: when is true
  never      -      does not apply: no pattern fits tools:u/create
  half       -      does not apply: no pattern fits tools:u/create
`},
		{"two words of one rule", eng, tool("u", "half"), "", `
ask tools:u/half
Rule "engineers" allows it, once the user approves: rule "half" asks.
The user is asked; an approval is good for one call.

  everyone   -      does not apply: no pattern fits tools:u/half
  engineers  allow  applies
  own-repo   -      does not apply: no pattern fits tools:u/half
  sure       -      does not apply: no pattern fits tools:u/half
  never      -      does not apply: no pattern fits tools:u/half
  half       ask, allow  applies
`},
		{"only asked about", user("alice"), tool("u", "create"), `{"owner":"prod"}`, `
deny tools:u/create
No rule allows it: the default is deny. Rule "sure" only asks about what is allowed.
Lists show it all the same: with other arguments it could be allowed.
The tool's input schema is not known here: a call with arguments that do not fit it is denied.

  everyone   -      does not apply: no pattern fits tools:u/create
  engineers  -      does not apply: the caller does not fit who.groups
  own-repo   -      does not apply: when is false
  sure       ask    applies: when is true
  never      -      does not apply: no pattern fits tools:u/create
  half       -      does not apply: no pattern fits tools:u/create
`},
		{"a refused URI", eng, resource("u", "file:///a/../\x1b[2Jb"), "", `
deny "resources:u/file:///a/../\x1b[2Jb"
The URI has a dot segment, a backslash, a control character, too many encodings or more than 16 KiB: it is never let through.

  everyone   -      does not apply: no pattern fits
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := p.Explain(t.Context(), &tt.caller, tt.target, mcp.Raw(tt.args))
			got := "\n" + e.String()
			if tt.name == "a refused URI" {
				got, tt.want = strings.Split(got, "no pattern fits")[0], strings.Split(tt.want, "no pattern fits")[0]
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if decided := p.Decide(t.Context(), &tt.caller, tt.target, mcp.Raw(tt.args)); decided != e.Decision {
				t.Errorf("decided %+v, explained %+v", decided, e.Decision)
			}
			if strings.ContainsRune(got, '\x1b') {
				t.Error("a control character is written to the terminal")
			}
		})
	}
}

func TestExplainUnclear(t *testing.T) {
	p := newForTest(t, Config{Default: DefaultAllow,
		Rules: []Rule{{Name: "d", Who: Who{Users: []string{"bob"}}, Deny: []string{"tools:*"}}}})
	caller := user("alice")
	caller.Claims = mcp.Raw(`{"a":1,"a":2}`)
	e := p.Explain(t.Context(), &caller, tool("u", "x"), nil)
	if e.Effect != Deny || !strings.Contains(e.String(), `the token's claims: "a" stands twice`) {
		t.Errorf("got %s", e)
	}
}

// TestExplainEarly: what is certain without the arguments is not unclear because of them.
func TestExplainEarly(t *testing.T) {
	p := newForTest(t, Config{Rules: []Rule{{Name: "a", Allow: []string{"tools:*"},
		When: `args.x == 1 || caller.user == "alice"`}}})
	alice, bob := user("alice"), user("bob")
	twice := mcp.Raw(`{"x":1,"x":1}`)
	if e := p.Explain(t.Context(), &alice, tool("u", "x"), twice); e.Effect != Allow || e.Rules[0].Says == nil {
		t.Errorf("got %s", e)
	}
	if e := p.Explain(t.Context(), &bob, tool("u", "x"), twice); e.Effect != Deny || e.Rules[0].Says != nil ||
		!strings.Contains(e.Rules[0].Reason, `the arguments: "x" stands twice`) {
		t.Errorf("got %s", e)
	}
}

// TestIdle: patterns that are about nothing are found, with and without knowing what
// upstreams have.
func TestIdle(t *testing.T) {
	cfg := Config{Rules: []Rule{
		{Name: "a", Allow: []string{"tools:crm/get_*", "tools:cmr/*", "tools:*/x.*y"}},
		{Name: "b", Deny: []string{"resources:crm/docs://a/*", "resources:crm/docs://b/*", "*:*"},
			Ask: []string{"prompts:*"}},
	}}
	template := resource("crm", "docs://a/{id}")
	template.Template = true
	checkProblems(t, errors.Join(cfg.Idle([]mcp.Target{tool("crm", "get_x"), template}, nil)...),
		[]string{`rules[0] (a): allow[1]: "tools:cmr/*" fits nothing`, "rules[0] (a): allow[2]", "rules[1] (b): deny[1]",
			"rules[1] (b): ask[0]"})
	checkProblems(t, errors.Join(cfg.Idle([]mcp.Target{tool("crm", "get_x"), template}, []string{"cmr"})...),
		[]string{"rules[1] (b): deny[1]"})
	checkProblems(t, errors.Join(cfg.Doubts([]string{"crm", "hr"})...),
		[]string{`rules[0] (a): allow[0]: "tools:crm/get_*" allows nothing: the rule b denies all of it`,
			`rules[0] (a): allow[1]: "tools:cmr/*" fits no upstream: there are crm, hr`,
			`rules[0] (a): allow[2]: "tools:*/x.*y": is a regular expression meant?`,
			`rules[1] (b): ask[0]: "prompts:*" fits nothing that a rule allows`})
	limits := Limits{{Name: "l", What: []string{"tools:crm/*", "tools:x/*"}}}
	checkProblems(t, errors.Join(limits.Doubts([]string{"crm"})...),
		[]string{`[0] (l): what[1]: "tools:x/*" fits no upstream`})
}

// TestAllowInVain: a pattern that allows what another rule denies to the same callers is named.
func TestAllowInVain(t *testing.T) {
	staff, sales := Who{Groups: []string{"staff"}}, Who{Groups: []string{"sales"}}
	allow := Rule{Name: "a", Who: staff, Allow: []string{"tools:crm/get_*"}}
	for _, tt := range []struct {
		name   string
		deny   Rule
		vainly bool
	}{
		{"the same", Rule{Deny: []string{"tools:crm/get_*"}}, true},
		{"more", Rule{Deny: []string{"tools:hr/*", "*:c*/*"}}, true},
		{"the same callers", Rule{Who: staff, Deny: []string{"tools:crm/*"}}, true},
		{"itself", Rule{Who: staff, Deny: []string{"tools:*"}}, true},
		{"other callers", Rule{Who: sales, Deny: []string{"tools:crm/*"}}, false},
		{"less", Rule{Deny: []string{"tools:crm/get_x*"}}, false},
		{"another kind", Rule{Deny: []string{"resources:*"}}, false},
		{"another server", Rule{Deny: []string{"tools:hr/*"}}, false},
		{"on a condition", Rule{Deny: []string{"tools:*"}, When: "args.x == 1"}, false},
	} {
		tt.deny.Name = "d"
		got := fmt.Sprint(Config{Rules: []Rule{allow, tt.deny}}.Doubts([]string{"crm", "hr"}))
		if strings.Contains(got,
			"rules[0] (a): allow[0]: \"tools:crm/get_*\" allows nothing: the rule d denies all of it") != tt.vainly {
			t.Errorf("%s: %s", tt.name, got)
		}
	}
}

// TestAskInVain: a rule that asks about what nothing allows changes nothing, and is named.
func TestAskInVain(t *testing.T) {
	known := []mcp.Target{tool("crm", "get"), tool("crm", "delete"), resource("crm", "file:///a"),
		{Kind: mcp.KindSkills, Upstream: "crm", Name: "s", File: "skill://s/SKILL.md"}}
	tests := []struct {
		name          string
		config        Config
		doubted, idle bool
	}{
		{"nothing allows it", Config{Rules: []Rule{{Name: "q", Ask: []string{"tools:*/delete*"}}}}, true, true},
		{"the default allows it", Config{Default: DefaultAllow, Rules: []Rule{{Name: "q", Ask: []string{"tools:*/delete*"}}}},
			false, false},
		{"another rule allows it", Config{Rules: []Rule{{Name: "q", Ask: []string{"tools:*/delete*"}},
			{Name: "a", Who: Who{Users: []string{"bob"}}, Allow: []string{"*:crm/*"}}}}, false, false},
		{"the rule itself allows it", Config{Rules: []Rule{{Name: "q", Allow: []string{"tools:crm/delete"},
			Ask: []string{"tools:crm/delete"}}}}, false, false},
		{"something else is allowed", Config{Rules: []Rule{{Name: "q", Ask: []string{"tools:*/delete*"}},
			{Name: "a", Allow: []string{"tools:crm/get*", "resources:*", "prompts:hr/*"}}}}, true, true},
		{"something like it is allowed", Config{Rules: []Rule{{Name: "q", Ask: []string{"tools:*/delete*"}},
			{Name: "a", Allow: []string{"tools:crm/*x", "tools:crm/get"}}}}, false, true},
		{"a file of a skill that is allowed", Config{Rules: []Rule{{Name: "q", Ask: []string{"resources:crm/skill://s/*"}},
			{Name: "a", Allow: []string{"skills:*"}}}}, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for name, found := range map[string]struct {
				doubts []error
				want   bool
			}{"by the file": {tt.config.Doubts([]string{"crm", "hr"}), tt.doubted},
				"by the lists": {tt.config.Idle(known, nil), tt.idle}} {
				if got := strings.Contains(fmt.Sprint(found.doubts), "rules[0] (q): ask[0]: ") &&
					strings.Contains(fmt.Sprint(found.doubts), "fits nothing that a rule allows"); got != found.want {
					t.Errorf("%s: got %v", name, found.doubts)
				}
			}
		})
	}
}

// TestExplainRecords: an explanation says what is recorded of the arguments, as the rule that
// decides says.
func TestExplainRecords(t *testing.T) {
	p := newForTest(t, Config{Rules: []Rule{
		{Name: "some", Allow: []string{"tools:u/*"}, Record: Recording{Arguments: []string{"a", "b.c"},
			Redact: []string{"d"}}},
		{Name: "all", Deny: []string{"tools:u/delete"}, Record: Recording{Arguments: RecordedArguments{everyArgument}}},
		{Name: "none", Allow: []string{"tools:v/*"}},
	}})
	for name, want := range map[string]string{
		"u/x":      "Records of the audit have of the arguments a, b.c, without the values of d.",
		"u/delete": "Records of the audit have the arguments in full.",
		"v/x":      "",
	} {
		upstream, own, _ := strings.Cut(name, "/")
		e := p.Explain(t.Context(), &mcp.Caller{}, tool(upstream, own), nil)
		if said := strings.Contains(e.String(), "Records of the audit"); said != (want != "") ||
			!strings.Contains(e.String(), want) {
			t.Errorf("%s: %s", name, e)
		}
	}
}
