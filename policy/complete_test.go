package policy

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// library is a catalog of one upstream with templates, in which every URI can be had; those
// in skill://refunds and skill://payroll are files of skills.
type library struct {
	result string
	calls  int
}

func (*library) Schema(context.Context, string) *mcp.Schema { return nil }

func (*library) Structured(mcp.Target) bool { return true }

func (l *library) Now() mcp.Lens { return l }

func (*library) Target(_ context.Context, _, public string) (mcp.Target, bool) {
	uri, ok := strings.CutPrefix(public, "u+")
	for _, key := range []string{"refunds", "payroll"} {
		if strings.HasPrefix(uri, "skill://"+key+"/") {
			return mcp.Target{Kind: mcp.KindSkills, Upstream: "u", Name: key, File: uri, Template: strings.Contains(uri, "{")},
				ok
		}
	}
	return mcp.Target{Kind: mcp.KindResources, Upstream: "u", Name: uri, Template: strings.Contains(uri, "{")},
		ok && !strings.Contains(uri, "nobody")
}

func (l *library) Handle(context.Context, *mcp.Call) (*mcp.Reply, error) {
	l.calls++
	return &mcp.Reply{Result: mcp.Raw(l.result)}, nil
}

func completeWith(t *testing.T, rules []Rule, params, result string) (string, error) {
	t.Helper()
	l := &library{result: result}
	g, err := NewGuard(newForTest(t, Config{Rules: rules}), GuardDeps{})
	if err != nil {
		t.Fatal(err)
	}
	ref, _ := mcp.Raw(params).Member("ref")
	uri, _ := ref.Member("uri")
	reply, err := mcp.Chain(l, seeing(l), g.Middleware).Handle(t.Context(),
		callOf(mcp.MethodComplete, uri.Text(), params, user("alice")))
	if err != nil {
		if l.calls > 0 {
			t.Error("the server was asked all the same")
		}
		return "", err
	}
	return string(reply.Result), nil
}

// TestCompletionNamesNothingDenied: what is suggested for a template is left out
// where all that it can make is denied.
func TestCompletionNamesNothingDenied(t *testing.T) {
	most := []Rule{{Name: "all", Allow: []string{"*:u/*"}}, {Name: "not", Deny: []string{
		"resources:u/file:///secret*", "resources:u/file:///docs/plan", "skills:u/payroll",
		"resources:u/search://q*in=secret*"}}}
	little := []Rule{{Name: "a", Allow: []string{"resources:u/file:///open/*", "skills:u/refunds"}}}
	asked := []Rule{{Name: "a", Allow: []string{"resources:u/file:///secret*"},
		Ask: []string{"resources:u/file:///secret*"}}}
	named := []Rule{{Name: "all", Allow: []string{"*:u/*"}},
		{Name: "not", Deny: []string{"resources:u/*"}, When: `target.name.contains("secret")`}}
	for _, tt := range []struct {
		name     string
		rules    []Rule
		template string
		variable string
		given    string // context.arguments
		values   []string
		want     []string
	}{
		{"all is said", most, "file:///{name}", "name", `{}`, []string{"open", "secret", "secret-2"}, []string{"open"}},
		{"another spelling", most, "file:///{+name}", "name", `{}`,
			[]string{"%73ecret", "%2573ecret", "/secret", "secret#", "./secret", "a/../secret", `a\secret`,
				"open"}, []string{"open"}},
		{"what is encoded by clients", most, "file:///{name}", "name", `{}`,
			[]string{"%73ecret", "docs/plan", "docs%2fplan", "a b", "50%"}, []string{"a b", "50%"}},
		{"a part of it", most, "file:///{dir}/{name}", "dir", `{}`, []string{"docs", "secret", "%73ecret"}, []string{"docs"}},
		{"a part that was given", most, "file:///{dir}/{name}", "name", `{"dir":"docs"}`, []string{"plan", "other"},
			[]string{"other"}},
		{"a part that is still open", most, "file:///{dir}/{name}", "name", `{"dir":""}`, []string{"plan", "other"},
			[]string{"plan", "other"}},
		{"in a part that is denied", most, "file:///{dir}/{name}", "name", `{"dir":"secret"}`,
			[]string{"plan", "other"}, nil},
		{"what was given for itself", most, "file:///{name}", "name", `{"name":"open"}`, []string{"secret", "open"},
			[]string{"open"}},
		{"a query", most, "search://q{?in,text}", "in", `{}`, []string{"secret", "docs"}, []string{"docs"}},
		{"a query that is complete", most, "search://q{?in,text}", "in", `{"text":"x"}`, []string{"secret", "docs"},
			[]string{"docs"}},
		{"the query of a file", most, "file:///docs/{name}{?part}", "name", `{}`, []string{"plan", "other"},
			[]string{"other"}},
		{"a query that may be missing", []Rule{{Name: "a", Allow: []string{"resources:u/search://docs"}}},
			"search://{in}{?text}", "in", `{}`, []string{"secret", "docs"}, []string{"docs"}},
		{"a query that may be there", []Rule{{Name: "a", Allow: []string{"resources:u/search://docs*text=*"}}},
			"search://{in}{?text}", "in", `{}`, []string{"secret", "docs"}, []string{"docs"}},
		{"another variable", most, "file:///{name}", "other", `{}`, []string{"secret", "open"}, nil},
		{"of little that is allowed", little, "file:///{dir}/{name}", "dir", `{}`, []string{"open", "docs", "ope"},
			[]string{"open"}},
		{"with approval", asked, "file:///{name}", "name", `{}`, []string{"open", "secret"}, []string{"secret"}},
		{"a condition on the name", named, "file:///{name}", "name", `{}`, []string{"open", "secret"}, []string{"open"}},
		{"a condition on an open name", named, "file:///{name}{/part}", "name", `{}`, []string{"open", "secret"},
			[]string{"open", "secret"}},
		{"skills", most, "skill://{skill}/SKILL.md", "skill", `{}`, []string{"refunds", "payroll", "other"},
			[]string{"refunds", "other"}},
		{"skills by a rule of theirs", []Rule{little[0], {Name: "b", Allow: []string{"resources:u/skill://*"}}},
			"skill://{skill}/SKILL.md", "skill", `{}`, []string{"refunds", "payroll"}, []string{"refunds"}},
		{"skills and files", most, "skill://{skill}/{+file}", "skill", `{}`, []string{"refunds", "payroll"},
			[]string{"refunds"}},
		{"files of a skill", append(most, Rule{Name: "file", Deny: []string{"resources:u/skill://refunds/assets/*"}}),
			"skill://refunds/{+file}", "file", `{}`, []string{"assets/a", "a"}, []string{"a"}},
		{"files of a skill in part", append(most, Rule{Name: "file", Deny: []string{"resources:u/skill://refunds/assets/*"}}),
			"skill://refunds/{dir}/{file}", "dir", `{}`, []string{"assets", "a"}, []string{"a"}},
		{"what nobody can have", most, "file:///{name}", "name", `{}`, []string{"nobody", "open"}, []string{"open"}},
		{"what looks like an open part", most, "file:///{dir}/{name}", "dir", `{}`, []string{"a" + hole, "%EF%BF%BF", "open"},
			[]string{"open"}},
		{"a star", most, "file:///{dir}/{name}", "dir", `{}`, []string{"*"}, []string{"*"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			values, err := json.Marshal(tt.values)
			if err != nil {
				t.Fatal(err)
			}
			params := `{"ref":{"type":"ref/resource","uri":` + string(mcp.String("u+"+tt.template)) + `},"argument":{"name":"` +
				tt.variable + `","value":""},"context":{"arguments":` + tt.given + `}}`
			result, err := completeWith(t, tt.rules, params, `{"completion":{"values":`+string(values)+`}}`)
			var got struct{ Completion struct{ Values []string } }
			if err != nil || json.Unmarshal([]byte(result), &got) != nil || !slices.Equal(got.Completion.Values, tt.want) {
				t.Errorf("got %s, %v, want %q", result, err, tt.want)
			}
		})
	}
}

// TestCompletionCounts: the numbers beside what is shown are true and say nothing of what
// is not shown.
func TestCompletionCounts(t *testing.T) {
	const params = `{"ref":{"type":"ref/resource","uri":"u+file:///{name}"},"argument":{"name":"name","value":""}}`
	rules := []Rule{{Name: "all", Allow: []string{"*:u/*"}}, {Name: "not", Deny: []string{"resources:u/file:///secret*"}}}
	long := `"v"` + strings.Repeat(`,"v"`, maxSuggestions)
	for _, tt := range []struct{ name, result, want string }{
		{"all of them", `{"completion":{"values":["a","secret"],"total":2,"hasMore":false},"_meta":{"x":1}}`,
			`{"completion":{"values":["a"],"total":1,"hasMore":false},"_meta":{"x":1}}`},
		{"none said", `{"completion":{"values":["a","secret"]}}`, `{"completion":{"values":["a"]}}`},
		{"some of them", `{"completion":{"values":["a","secret"],"total":9,"hasMore":true}}`,
			`{"completion":{"values":["a"],"hasMore":true}}`},
		{"some by their number", `{"completion":{"values":["a","secret"],"total":9}}`,
			`{"completion":{"values":["a"],"hasMore":true}}`},
		{"too many", `{"completion":{"values":[` + long + `]}}`,
			`{"completion":{"values":[` + strings.TrimSuffix(long, `,"v"`) + `],"hasMore":true}}`},
		{"no text", `{"completion":{"values":[1,"\ud800","a"]}}`, `{"completion":{"values":["a"]}}`},
		{"twice", `{"completion":{"values":["a"],"values":["secret"]},"completion":{"values":["secret"]}}`,
			`{"completion":{"values":["a"]}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := completeWith(t, rules, params, tt.result); err != nil || got != tt.want {
				t.Errorf("got  %s, %v\nwant %s", got, err, tt.want)
			}
		})
	}
	t.Run("no rule about resources", func(t *testing.T) {
		rules := Config{Default: DefaultAllow, Rules: []Rule{{Name: "a", Deny: []string{"tools:u/x", "prompts:u/x"}}}}
		const as = `{"completion":{"values":["secret"],"total":9}}`
		l := &library{result: as}
		g, err := NewGuard(newForTest(t, rules), GuardDeps{})
		if err != nil {
			t.Fatal(err)
		}
		reply, err := mcp.Chain(l, seeing(l), g.Middleware).Handle(t.Context(),
			callOf(mcp.MethodComplete, "u+file:///{name}", params, user("alice")))
		if err != nil || string(reply.Result) != as {
			t.Errorf("got %v, %v", reply, err)
		}
	})
}

// TestCompletionIsClear: what a server could read in another way than policy is refused.
func TestCompletionIsClear(t *testing.T) {
	rules := []Rule{{Name: "all", Allow: []string{"*:u/*"}}, {Name: "not", Deny: []string{"resources:u/file:///secret*"}}}
	for _, rest := range []string{
		`"argument":{"name":"dir","name":"name"}`,
		`"argument":{"name":"dir","Name":"name"}`,
		`"argument":{"name":"dir"},"Argument":{"name":"name"}`,
		`"argument":{"name":"name"},"context":{"arguments":{"dir":"docs"}},"context":{"arguments":{"dir":"secret"}}`,
		`"argument":{"name":"name"},"context":{"arguments":{"dir":"docs","dir":"secret"}}`,
		`"argument":{"name":"name"},"Context":{"arguments":{"dir":"secret"}}`,
		`"argument":{"name":"name"},"context":{"Arguments":{"dir":"secret"}}`,
		`"argument":{"name":"name"},"context":{"arguments":{"dir":["secret"]}}`,
		`"argument":{"name":"name"},"context":{"arguments":{"dir":"` + hole + `"}}`,
	} {
		_, err := completeWith(t, rules, `{"ref":{"type":"ref/resource","uri":"u+file:///{dir}/{name}"},`+rest+`}`,
			`{"completion":{"values":["a"]}}`)
		if !mcp.HasCode(err, mcp.CodeInvalidParams) {
			t.Errorf("%s: got %v", rest, err)
		}
	}
}

// TestExpand follows the examples of RFC 6570.
func TestExpand(t *testing.T) {
	values := map[string]string{"var": "value", "hello": "Hello World!", "path": "/foo/bar", "x": "1024",
		"y": "768", "half": "50%"}
	for template, want := range map[string][]string{
		"a{var}b":           {"avalueb"},
		"{hello}":           {"Hello%20World%21", "Hello World!"},
		"{+hello}":          {"Hello%20World!", "Hello World!"},
		"{+half}":           {"50%25", "50%"},
		"{+path}/here":      {"/foo/bar/here"},
		"{path}":            {"%2Ffoo%2Fbar", "/foo/bar"},
		"X{#var}":           {"X#value"},
		"map?{x,y}":         {"map?1024,768"},
		"X{.x,y}":           {"X.1024.768"},
		"{/var,x}/here":     {"/value/1024/here"},
		"{;x,y}":            {";x=1024;y=768"},
		"{?x,y}":            {"?x=1024&y=768"},
		"?fixed=yes{&x}":    {"?fixed=yes&x=1024"},
		"{var:3}":           {"val"},
		"{var:30}":          {"value"},
		"{/path*}":          {"/%2Ffoo%2Fbar", "//foo/bar"},
		"{none}":            {hole},
		"{?none,gone}":      {"?" + hole},
		"{#none}":           {"#" + hole},
		"{/none}":           {hole},
		"{?x,none}":         {"?x=1024" + hole},
		"{?none,x,y}":       {"?" + hole + "x=1024&y=768"},
		"a{":                {"a" + hole},
		"a{}":               {"a" + hole},
		"{x}{none}{y}{gone": {"1024" + hole + "768" + hole},
	} {
		if got := expand(template, values, false); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", template, got, want)
		}
	}
}
