package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// TestDecide is what the rules mean. Each case holds in every order of its rules.
func TestDecide(t *testing.T) {
	all := []string{"tools:*"}
	tests := []struct {
		name   string
		config Config
		args   string
		groups []string
		target mcp.Target
		want   Decision
	}{
		{"no rules", Config{}, ``, nil, tool("a", "x"), Decision{}},
		{"no rule that matches", Config{Rules: []Rule{{Name: "r", Allow: []string{"tools:b/*"}}}}, ``, nil,
			tool("a", "x"), Decision{}},
		{"default allow", Config{Default: DefaultAllow}, ``, nil, tool("a", "x"), Decision{Effect: Allow}},
		{"allowed", Config{Rules: []Rule{{Name: "r", Allow: all}}}, ``, nil, tool("a", "x"),
			Decision{Effect: Allow, Rule: "r"}},
		{"denied in spite of the default", Config{Default: DefaultAllow, Rules: []Rule{{Name: "r", Deny: all}}}, ``, nil,
			tool("a", "x"), Decision{Rule: "r"}},
		{"asked in spite of the default", Config{Default: DefaultAllow, Rules: []Rule{{Name: "r", Ask: all}}}, ``, nil,
			tool("a", "x"), Decision{Effect: Ask, Rule: "r"}},
		{"deny beats allow", Config{Rules: []Rule{{Name: "a", Allow: all}, {Name: "d", Deny: all}}}, ``, nil, tool("a", "x"),
			Decision{Rule: "d"}},
		{"deny beats ask", Config{Rules: []Rule{{Name: "a", Ask: all}, {Name: "d", Deny: all}}}, ``, nil, tool("a", "x"),
			Decision{Rule: "d"}},
		{"an ask grants nothing", Config{Rules: []Rule{{Name: "q", Ask: all}}}, ``, nil, tool("a", "x"), Decision{}},
		{"an ask grants nothing beside what others have",
			Config{Rules: []Rule{{Name: "a", Who: Who{Groups: []string{"sales"}}, Allow: all},
				{Name: "q", Ask: all}}}, ``, []string{"hr"}, tool("a", "x"), Decision{}},
		{"an ask grants nothing where its condition holds",
			Config{Rules: []Rule{{Name: "a", Allow: all, When: `args.x == 1`},
				{Name: "q", Ask: all, When: `args.x == 2`}}}, `{"x":2}`, nil, tool("a", "x"), Decision{}},
		{"a rule that allows and asks", Config{Rules: []Rule{{Name: "r", Allow: all, Ask: all}}}, ``, nil, tool("a", "x"),
			Decision{Effect: Ask, Rule: "r"}},
		{"a rule that allows and asks under a condition",
			Config{Rules: []Rule{{Name: "r", Allow: all, Ask: all, When: `args.x == 1`}}}, `{"x":2}`, nil, tool("a",
				"x"), Decision{}},
		{"ask beats allow", Config{Rules: []Rule{{Name: "a", Allow: all}, {Name: "q", Ask: all}}}, ``, nil, tool("a", "x"),
			Decision{Effect: Ask, Rule: "q"}},
		{"within one rule", Config{Rules: []Rule{{Name: "r", Allow: all, Deny: []string{"tools:*/delete_*"}}}}, ``, nil,
			tool("a", "delete_all"), Decision{Rule: "r"}},
		{"another kind", Config{Rules: []Rule{{Name: "r", Allow: []string{"prompts:*", "resources:*"}}}}, ``, nil,
			tool("a", "x"), Decision{}},
		{"all kinds", Config{Rules: []Rule{{Name: "r", Allow: []string{"*:a/*"}}}}, ``, nil, tool("a", "x"),
			Decision{Effect: Allow, Rule: "r"}},
		{"a group", Config{Rules: []Rule{{Name: "r", Who: Who{Groups: []string{"dev", "sre"}}, Allow: all}}}, ``,
			[]string{"sre"}, tool("a", "x"), Decision{Effect: Allow, Rule: "r"}},
		{"another group", Config{Rules: []Rule{{Name: "r", Who: Who{Groups: []string{"dev", "sre"}}, Allow: all}}}, ``,
			[]string{"hr"}, tool("a", "x"), Decision{}},
		{"two groups, one denied", Config{Rules: []Rule{{Name: "a", Who: Who{Groups: []string{"dev"}}, Allow: all},
			{Name: "d", Who: Who{Groups: []string{"interns"}}, Deny: all}}},
			``, []string{"dev", "interns"}, tool("a", "x"), Decision{Rule: "d"}},
		{"case of a name", Config{Rules: []Rule{{Name: "r", Allow: []string{"tools:a/get"}}}}, ``, nil,
			tool("a", "Get"), Decision{}},
		{"case of an upstream", Config{Rules: []Rule{{Name: "r", Allow: []string{"tools:a/get"}}}}, ``, nil,
			tool("A", "get"), Decision{}},
		{"a name that looks the same", Config{Rules: []Rule{{Name: "r", Allow: []string{"tools:a/admin"}}}}, ``, nil,
			tool("a", "аdmin"), Decision{}},
		{"a space behind", Config{Rules: []Rule{{Name: "r", Allow: []string{"tools:a/get"}}}}, ``, nil,
			tool("a", "get "), Decision{}},
		{"condition true", Config{Rules: []Rule{{Name: "r", Allow: all, When: `args.x == 1`}}}, `{"x":1}`, nil,
			tool("a", "x"), Decision{Effect: Allow, Rule: "r"}},
		{"condition false", Config{Rules: []Rule{{Name: "r", Allow: all, When: `args.x == 1`}}}, `{"x":2}`, nil,
			tool("a", "x"), Decision{}},
		{"condition fails to allow", Config{Rules: []Rule{{Name: "r", Allow: all, When: `args.x == 1`}}}, `{}`, nil,
			tool("a", "x"), Decision{}},
		{"another rule allows", Config{Rules: []Rule{{Name: "r", Allow: all, When: `args.x == 1`}, {Name: "s", Allow: all}}},
			`{}`, nil, tool("a", "x"), Decision{Effect: Allow, Rule: "s"}},
		{"condition of a deny fails", Config{Rules: []Rule{{Name: "a", Allow: all},
			{Name: "d", Deny: all, When: `args.x == 1`}}}, `{}`, nil, tool("a", "x"), Decision{Rule: "d"}},
		{"condition of an ask fails", Config{Rules: []Rule{{Name: "a", Allow: all},
			{Name: "q", Ask: all, When: `args.x == 1`}}}, `{}`, nil, tool("a", "x"), Decision{Rule: "q"}},
		{"condition of a deny false", Config{Rules: []Rule{{Name: "a", Allow: all},
			{Name: "d", Deny: all, When: `args.x == 1`}}}, `{"x":2}`, nil, tool("a", "x"), Decision{Effect: Allow, Rule: "a"}},
		{"condition of an ask true", Config{Rules: []Rule{{Name: "a", Allow: all},
			{Name: "q", Ask: all, When: `args.x == 1`,
				ApproveFor: time.Minute}}}, `{"x":1}`, nil, tool("a", "x"), Decision{Effect: Ask, Rule: "q", ApproveFor: time.Minute}},
		{"conditions on the caller", Config{Rules: []Rule{{Name: "a", Allow: all, When: `"dev" in caller.groups`}}}, ``,
			[]string{"dev"}, tool("a", "x"), Decision{Effect: Allow, Rule: "a"}},
		{"conditions on the caller and the call", Config{Rules: []Rule{{Name: "a", Allow: all,
			When: `"dev" in caller.groups && args.x == 1`}}}, `{"x":1}`, []string{"dev"}, tool("a", "x"), Decision{Effect: Allow, Rule: "a"}},
		{"conditions on the target", Config{Rules: []Rule{{Name: "a", Allow: all, When: `target.name == "x"`}}}, ``, nil,
			tool("a", "y"), Decision{}},
		{"the shortest time of an approval", Config{Default: DefaultAllow,
			Rules: []Rule{{Name: "p", Ask: all, ApproveFor: time.Hour},
				{Name: "q", Ask: []string{"tools:a/*"}, ApproveFor: time.Minute}}}, ``, nil, tool("a", "x"),
			Decision{Effect: Ask, ApproveFor: time.Minute}},
		{"an approval for once is shorter", Config{Default: DefaultAllow,
			Rules: []Rule{{Name: "p", Ask: all, ApproveFor: time.Hour},
				{Name: "q", Ask: []string{"tools:a/*"}}}}, ``, nil, tool("a", "x"), Decision{Effect: Ask}},
		{"nothing at all", Config{Default: DefaultAllow}, ``, nil, mcp.Target{}, Decision{}},
		{"no name", Config{Default: DefaultAllow, Rules: []Rule{{Name: "d", Deny: []string{"tools:b/*"}}}}, ``, nil,
			mcp.Target{Kind: mcp.KindTools, Upstream: "a"}, Decision{}},
		{"another upstream's URI", Config{Rules: []Rule{{Name: "r", Allow: []string{"resources:a/file:///docs/*"}}}}, ``, nil,
			resource("b", "file:///docs/x"), Decision{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			caller := user("alice", tt.groups...)
			for range 2 {
				p := newForTest(t, tt.config)
				for again := range 2 { // computed, and from memory
					got := p.Decide(t.Context(), &caller, tt.target, mcp.Raw(tt.args))
					if tt.want.Rule == "" && tt.want.Effect == Ask {
						got.Rule = "" // the first one
					}
					if got != tt.want {
						t.Errorf("time %d: got %+v, want %+v", again, got, tt.want)
					}
				}
				slices.Reverse(tt.config.Rules)
			}
		})
	}
}

// TestVisible: lists show what some call could use.
func TestVisible(t *testing.T) {
	all := []string{"tools:*"}
	tests := []struct {
		name  string
		rules []Rule
		want  bool
	}{
		{"nothing", nil, false},
		{"allowed", []Rule{{Name: "r", Allow: all}}, true},
		{"only asked about", []Rule{{Name: "r", Ask: all}}, false},
		{"only asked about, with some arguments", []Rule{{Name: "r", Ask: all, When: `args.x == 1`}}, false},
		{"allowed and asked about", []Rule{{Name: "r", Allow: all, Ask: all}}, true},
		{"asked about, and allowed with some arguments",
			[]Rule{{Name: "q", Ask: all}, {Name: "r", Allow: all, When: `args.x == 1`}}, true},
		{"asked about, and allowed to others", []Rule{{Name: "q", Ask: all},
			{Name: "r", Who: Who{Groups: []string{"sales"}}, Allow: all}}, false},
		{"allowed with some arguments", []Rule{{Name: "r", Allow: all, When: `args.x == 1`}}, true},
		{"allowed never", []Rule{{Name: "r", Allow: all, When: `args.x == 1 && caller.user == "bob"`}}, false},
		{"allowed to others by their claims", []Rule{{Name: "r", Allow: all, When: `caller.claims.admin == true`}}, false},
		{"denied with some arguments", []Rule{{Name: "r", Allow: all}, {Name: "d", Deny: all, When: `args.x == 1`}}, true},
		{"denied always", []Rule{{Name: "r", Allow: all, When: `args.x == 1`}, {Name: "d", Deny: all}}, false},
		{"denied by a condition on the caller", []Rule{{Name: "r", Allow: all},
			{Name: "d", Deny: all, When: `caller.user == "alice"`}}, false},
		{"denied by a condition on the target", []Rule{{Name: "r", Allow: all},
			{Name: "d", Deny: all, When: `target.name.endsWith("t")`}}, false},
		{"only denied", []Rule{{Name: "d", Deny: all, When: `args.x == 1`}}, false},
	}
	caller := user("alice")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := newForTest(t, Config{Rules: tt.rules}).Visible(&caller, tool("a", "get")); got != tt.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// TestRemembered: what is remembered of one caller is not used for another one who
// differs in anything that a rule may look at.
func TestRemembered(t *testing.T) {
	p := newForTest(t, Config{Rules: []Rule{
		{Name: "group", Who: Who{Groups: []string{"admins"}}, Allow: []string{"tools:a/*"}},
		{Name: "scope", Who: Who{Scopes: []string{"admin"}}, Allow: []string{"tools:a/*"}},
		{Name: "client", Who: Who{Clients: []string{"admin-cli"}}, Allow: []string{"tools:a/*"}},
		{Name: "issuer", Who: Who{Issuers: []string{"https://admins.example.com"}}, Allow: []string{"tools:a/*"}},
		{Name: "user", Who: Who{Users: []string{"root"}}, Allow: []string{"tools:a/*"}},
		{Name: "claim", Who: Who{Claims: map[string][]string{"role": {"admin"}}}, Allow: []string{"tools:a/*"}},
	}})
	plain := user("alice", "dev")
	plain.Claims = mcp.Raw(`{"role":"user"}`)
	withoutClaims := plain
	withoutClaims.Claims = nil
	change := map[string]func(c *mcp.Caller){
		"group":  func(c *mcp.Caller) { c.Groups = []string{"admins"} },
		"scope":  func(c *mcp.Caller) { c.Scopes = []string{"admin"} },
		"client": func(c *mcp.Caller) { c.ClientID = "admin-cli" },
		"issuer": func(c *mcp.Caller) { c.Issuer = "https://admins.example.com" },
		"user":   func(c *mcp.Caller) { c.Subject = "root" },
		"claim":  func(c *mcp.Caller) { c.Claims = mcp.Raw(`{"role":"admin"}`) },
	}
	for _, base := range []mcp.Caller{plain, withoutClaims} {
		for rule, change := range change {
			changed := base
			change(&changed)
			for range 2 {
				if got := p.Decide(t.Context(), &base, tool("a", "x"), nil); got.Effect != Deny {
					t.Errorf("%s: the plain caller: got %+v", rule, got)
				}
				if got := p.Decide(t.Context(), &changed, tool("a", "x"), nil); got != (Decision{Effect: Allow, Rule: rule}) {
					t.Errorf("%s: got %+v", rule, got)
				}
				p.subjects.Add(p.hash.of(&base), p.subjectOf(&changed)) // as if their hashes were equal
			}
		}
	}
}

// TestDecideByReference compares decisions with a plain reading of the rules, for rules,
// callers and targets of every kind, in every order.
func TestDecideByReference(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		groups := rapid.SampledFrom([]string{"a", "b", "c"})
		patterns := rapid.SampledFrom([]string{"tools:*", "*:u/*", "tools:u/get", "tools:u/g*", "tools:*/*t", "tools:v/*e*",
			"prompts:*", "tools:u/*x*y"})
		conditions := rapid.SampledFrom([]string{"", "", "", `args.n == 1`, `caller.user == "alice"`,
			`args.n == 1 || "a" in caller.groups`, `has(args.n)`})
		var cfg Config
		cfg.Default = rapid.SampledFrom([]string{"", DefaultDeny, DefaultAllow}).Draw(rt, "default")
		for i := range rapid.IntRange(0, 6).Draw(rt, "rules") {
			r := Rule{Name: fmt.Sprintf("r%d", i), When: conditions.Draw(rt, "when")}
			if names := rapid.SliceOfN(groups, 0, 2).Draw(rt, "groups"); len(names) > 0 {
				r.Who.Groups = names
			}
			list := rapid.SliceOfN(patterns, 1, 3).Draw(rt, "patterns")
			switch rapid.IntRange(0, 2).Draw(rt, "effect") {
			case 0:
				r.Allow = list
			case 1:
				r.Ask = list
			default:
				r.Deny = list
			}
			cfg.Rules = append(cfg.Rules, r)
		}
		caller := user(rapid.SampledFrom([]string{"alice", "bob"}).Draw(rt, "user"),
			rapid.SliceOfN(groups, 0, 2).Draw(rt, "of")...)
		target := tool(rapid.SampledFrom([]string{"u", "v"}).Draw(rt, "upstream"),
			rapid.SampledFrom([]string{"get", "delete", "xy", "xay"}).Draw(rt, "name"))
		args := rapid.SampledFrom([]string{``, `{}`, `{"n":1}`, `{"n":2}`, `{"n":1,"n":1}`, `{"N":1}`}).Draw(rt, "args")

		want := reference(cfg, caller, target, args)
		for range 3 {
			p, err := New(cfg)
			if err != nil {
				rt.Fatal(err)
			}
			got := p.Decide(t.Context(), &caller, target, mcp.Raw(args))
			if got.Effect != want {
				rt.Fatalf("%+v\n%+v %s %s: got %v, want %v", cfg, caller, target, args, got, want)
			}
			if explained := p.Explain(t.Context(), &caller, target, mcp.Raw(args)); explained.Decision != got {
				rt.Fatalf("explained as %+v, decided as %+v", explained.Decision, got)
			}
			if got.Effect != Deny && !p.Visible(&caller, target) {
				rt.Fatalf("%+v: allowed and not visible", cfg)
			}
			cfg.Rules = rapid.Permutation(cfg.Rules).Draw(rt, "order")
		}
	})
}

// reference is the rules read plainly, with conditions as TestDecideByReference has.
func reference(cfg Config, c mcp.Caller, target mcp.Target, args string) Effect {
	said := map[Effect]bool{}
	for _, r := range cfg.Rules {
		if r.Who.Groups != nil && !slices.ContainsFunc(c.Groups,
			func(g string) bool { return slices.Contains(r.Who.Groups, g) }) {
			continue
		}
		result := isTrue
		broken := args == `{"n":1,"n":1}` || args == `{"N":1}`
		one := args == `{"n":1}`
		switch r.When {
		case `args.n == 1`, `args.n == 1 || "a" in caller.groups`:
			switch {
			case strings.Contains(r.When, "groups") && slices.Contains(c.Groups, "a"):
			case broken || args == `` || args == `{}`:
				result = failed
			case !one:
				result = isFalse
			}
		case `has(args.n)`:
			if broken {
				result = failed
			} else if args == `` || args == `{}` {
				result = isFalse
			}
		case `caller.user == "alice"`:
			if c.Subject != "alice" {
				result = isFalse
			}
		}
		for effect, list := range map[Effect][]string{Deny: r.Deny, Ask: r.Ask, Allow: r.Allow} {
			if !slices.ContainsFunc(list, func(p string) bool { return likePattern(p, target) }) {
				continue
			}
			switch {
			case result == isTrue:
				said[effect] = true
			case result == failed && effect != Allow:
				said[Deny] = true
			}
		}
	}
	switch {
	case said[Deny], !said[Allow] && cfg.Default != DefaultAllow:
		return Deny
	case said[Ask]:
		return Ask
	}
	return Allow
}

// likePattern matches by a regular expression.
func likePattern(text string, t mcp.Target) bool {
	kind, rest, _ := strings.Cut(text, ":")
	if kind != "*" && kind != t.Kind {
		return false
	}
	if rest == "*" {
		return true
	}
	upstream, name, _ := strings.Cut(rest, "/")
	return likeGlob(upstream, t.Upstream) && likeGlob(name, t.Name)
}

func likeGlob(text, s string) bool {
	parts := strings.Split(text, "*")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile(`(?s)\A` + strings.Join(parts, ".*") + `\z`).MatchString(s)
}
