package policy

import (
	"context"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func compileForTest(t testing.TB, text string) *condition {
	t.Helper()
	l, err := newLanguage()
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.compile(text, true)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return c
}

func TestWhenArguments(t *testing.T) {
	tests := []struct {
		name string
		when string
		args string
		want outcome
	}{
		{"fits", `args.owner == "acme"`, `{"owner":"acme"}`, isTrue},
		{"another value", `args.owner == "acme"`, `{"owner":"evil"}`, isFalse},
		{"missing", `args.owner == "acme"`, `{}`, failed},
		{"no arguments", `args.owner == "acme"`, ``, failed},
		{"null for arguments", `args.owner == "acme"`, `null`, failed},
		{"has of nothing", `has(args.force) && args.force`, ``, isFalse},
		{"null", `args.owner == "acme"`, `{"owner":null}`, isFalse},
		{"wrong type", `args.owner.startsWith("acme")`, `{"owner":7}`, failed},
		{"list for text", `args.owner == "acme"`, `{"owner":["acme"]}`, failed},
		{"nested elsewhere", `args.owner == "acme"`, `{"x":{"owner":"acme"}}`, failed},
		{"duplicated", `args.owner == "acme"`, `{"owner":"acme","owner":"evil"}`, failed},
		{"duplicated the same", `args.owner == "acme"`, `{"owner":"acme","owner":"acme"}`, failed},
		{"duplicated by an escape", `args.owner == "acme"`, `{"owner":"acme","\u006fwner":"evil"}`, failed},
		{"escaped", `args.owner == "acme"`, `{"\u006fwner":"\u0061cme"}`, isTrue},
		{"duplicated deep down", `args.owner == "acme"`, `{"owner":"acme","x":[{"a":1,"a":2}]}`, failed},
		{"another case beside", `args.owner == "acme"`, `{"owner":"acme","OWNER":"evil"}`, failed},
		{"another case alone", `!has(args.force) || !args.force`, `{"FORCE":true}`, failed},
		{"another case by folding", `!has(args.kind) || !args.kind`, "{\"\u212aind\":true}", failed},
		{"another case of an index", `!("force" in args) || !args["force"]`, `{"Force":true}`, failed},
		{"two cases deep down", `args.owner == "acme"`, `{"owner":"acme","x":{"ID":1,"id":2}}`, failed},
		{"two cases in two objects", `args.owner == "acme"`, `{"owner":"acme","a":{"ID":1},"b":{"id":1}}`, isTrue},
		{"no object", `args.owner == "acme"`, `["owner"]`, failed},
		{"half a character", `args.owner != "x"`, `{"owner":"\ud800"}`, failed},
		{"half a character elsewhere", `args.owner == "acme"`, `{"owner":"acme","b":"\ud800"}`, isTrue},
		{"half a character in a name", `args.owner == "acme"`, `{"owner":"acme","\udc00":1}`, failed},
		{"a whole one", `args.owner == "😀"`, `{"owner":"\ud83d\ude00"}`, isTrue},
		{"an escaped backslash", `args.owner == "\\ud800"`, `{"owner":"\\ud800"}`, isTrue},
		{"whole number", `args.n == 3`, `{"n":3}`, isTrue},
		{"as a decimal", `args.n == 3`, `{"n":3.0}`, isTrue},
		{"with an exponent", `args.n <= 100`, `{"n":1e3}`, isFalse},
		{"large", `args.n == 9007199254740993`, `{"n":9007199254740993}`, isTrue},
		{"large and one off", `args.n == 9007199254740993`, `{"n":9007199254740992}`, isFalse},
		{"the largest", `args.n == 18446744073709551615u`, `{"n":18446744073709551615}`, isTrue},
		{"too large", `args.n > 0`, `{"n":18446744073709551616}`, failed},
		{"too large elsewhere", `args.n == 1`, `{"n":1,"m":18446744073709551616}`, isTrue},
		{"too exact", `args.n <= 100`, `{"n":100.00000000000000001}`, failed},
		{"beyond all", `args.n > 0`, `{"n":1e999}`, failed},
		{"less than all", `args.n == 0`, `{"n":1e-999}`, failed},
		{"a mixed comparison", `args.n < 1.5`, `{"n":1}`, isTrue},
		{"in a list", `args.repo in ["a/b", "a/c"]`, `{"repo":"a/c"}`, isTrue},
		{"all of a list", `args.ids.all(i, i < 10)`, `{"ids":[1,2,30]}`, isFalse},
		{"a regular expression", `args.path.matches("^/srv/[a-z]+$")`, `{"path":"/srv/x/../y"}`, isFalse},
		{"of the target", `target.upstream == "github" && target.name == "create_issue" && target.kind == "tools"`,
			``, isTrue},
		{"of the caller",
			`caller.user == "alice" && "sre" in caller.groups && caller.client == "cli" && "mcp" in caller.scopes && caller.issuer == "https://a.example"`, ``, isTrue},
		{"a claim", `caller.claims.level > 2`, ``, isTrue},
		{"a missing claim", `caller.claims.nothing > 2`, ``, failed},
		{"a verified address", `caller.email == "alice@acme.example" && caller.claims.email == caller.email`, ``, isTrue},
		{"an error that does not matter", `args.nothing == 1 || true`, `{}`, isTrue},
		{"too dear", `args.l.all(a, args.l.all(b, args.l.all(c, args.l.all(d, a+b+c+d >= 0))))`,
			`{"l":[` + strings.Repeat("1,", 99) + `1]}`, failed},
		{"too much", `args.s.matches(args.p)`, `{"s":"a","p":"` + strings.Repeat("(a*)*", 400) + `"}`, failed},
	}
	caller := newSubject(mcp.Caller{Issuer: "https://a.example", Subject: "alice", ClientID: "cli",
		Groups: []string{"dev", "sre"}, Scopes: []string{"mcp"},
		Claims: mcp.Raw(`{"level":3,"email":"alice@acme.example","email_verified":true}`)})
	target := mcp.Target{Kind: mcp.KindTools, Upstream: "github", Name: "create_issue"}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := compileForTest(t, tt.when)
			got, err := c.eval(t.Context(), facts{subject: caller, target: &target, args: &arguments{text: mcp.Raw(tt.args)}})
			if got != tt.want {
				t.Errorf("got %d (%v), want %d", got, err, tt.want)
			}
			if (err != nil) != (got == failed) {
				t.Errorf("outcome %d with error %v", got, err)
			}
		})
	}
}

func TestWhenAhead(t *testing.T) {
	caller := newSubject(mcp.Caller{Subject: "alice", Groups: []string{"dev"}, Claims: mcp.Raw(`{"level":3}`)})
	target := mcp.Target{Kind: mcp.KindTools, Upstream: "github", Name: "x"}
	tests := []struct {
		when         string
		byCaller     outcome
		byTarget     outcome
		withoutFacts outcome
	}{
		{`caller.user == "alice"`, isTrue, isOpen, isOpen},
		{`caller.user == "bob"`, isFalse, isOpen, isOpen},
		{`caller.claims.none == 1`, failed, isOpen, isOpen},
		{`args.x == 1`, isOpen, isOpen, isOpen},
		{`args.x == 1 && caller.user == "bob"`, isFalse, isOpen, isOpen},
		{`args.x == 1 || "dev" in caller.groups`, isTrue, isOpen, isOpen},
		{`target.name == "x"`, isOpen, isTrue, isOpen},
		{`target.name == "y" && args.x == 1`, isOpen, isFalse, isOpen},
		{`caller.claims.none == 1 && args.x == 1`, isOpen, isOpen, isOpen},
		{`true`, isTrue, isTrue, isTrue},
	}
	for _, tt := range tests {
		t.Run(tt.when, func(t *testing.T) {
			c := compileForTest(t, tt.when)
			for _, f := range []struct {
				name string
				facts
				want outcome
			}{{"caller", facts{subject: caller}, tt.byCaller}, {"target", facts{target: &target}, tt.byTarget},
				{"nothing", facts{}, tt.withoutFacts}} {
				if got, err := c.eval(t.Context(), f.facts); got != f.want {
					t.Errorf("%s known: got %d (%v), want %d", f.name, got, err, f.want)
				}
			}
		})
	}
}

func TestWhenRefused(t *testing.T) {
	l, err := newLanguage()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ when, want string }{
		{`args.owner`, "want true or false"},
		{`args.owner == `, "at character 15: Syntax error"},
		{`args.owner = "acme"`, "at character 12: = compares nothing: write =="},
		{"args.owner == 'acme' &&\n  args.repo = 'x'", "at character 13 of its line 2: = compares nothing: write =="},
		{`args.owner == "acme" && "x" in "xyz"`, "found no matching overload for '@in'"},
		{`caller.usr == "alice"`, "undeclared reference"},
		{`caller.user == 1`, "no matching overload"},
		{`caller.groups == "sales"`, `write "x" in caller.groups`},
		{`tool == "x"`, "undeclared reference"},
		{`"abc".matches("(")`, "missing closing"},
		{`timestamp("2026-01-01T00:00:00Z").getHours("Europe/Berlin") == 1`, "undeclared reference"},
		{`"x" in caller.user`, "no matching overload"},
		{strings.Repeat("true && ", 2000) + "true", "characters are more than"},
	}
	for _, tt := range tests {
		if _, err := l.compile(tt.when, true); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.60s: got %v, want %q", tt.when, err, tt.want)
		}
	}
}

// TestWhenCancelled: an evaluation ends with its call.
func TestWhenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := compileForTest(t, `args.l.all(a, args.l.all(b, a+b >= 0))`)
	args := mcp.Raw(`{"l":[` + strings.Repeat("1,", 199) + `1]}`)
	if got, err := c.eval(ctx, facts{subject: newSubject(mcp.Caller{}), target: &mcp.Target{},
		args: &arguments{text: args}}); got != failed {
		t.Errorf("got %d, %v", got, err)
	}
}
