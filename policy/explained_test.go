package policy

import (
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// TestExplainedByArguments: the decision on a call carries why the conditions on its arguments made
// it, with the values that a rule lets records have and no others.
func TestExplainedByArguments(t *testing.T) {
	rules := []Rule{
		{Name: "own", Allow: []string{"tools:crm/*"}, When: `args.owner == "acme"`,
			Record: Recording{Arguments: RecordedArguments{"owner"}}},
		{Name: "cheap", Allow: []string{"tools:crm/*"}, When: `args.price < 10`},
		{Name: "never", Deny: []string{"tools:crm/drop"}},
	}
	for _, tt := range []struct {
		name, tool, args, effect, rule string
		want                           []string
	}{
		{"allowed by a condition", "get", `{"owner":"acme"}`, "allow", "own", []string{`rule "own": when is true`}},
		{"denied by arguments", "get", `{"owner":"evilcorp","price":99,"secret":"s3cret"}`, "deny", "", []string{
			`rule "own": when is false, with owner = "evilcorp"`, `rule "cheap": when is false, with price = not recorded`}},
		{"an argument is missing", "get", `{}`, "deny", "",
			[]string{`rule "own": when cannot be evaluated: no such key: owner`, `no such key: price`}},
		{"a long value", "get", `{"owner":"` + strings.Repeat("x", 200) + `"}`, "deny", "",
			[]string{`owner = 202 bytes`, `no such key: price`}},
		{"denied whatever the arguments are", "drop", `{"owner":"acme"}`, "deny", "never", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newShelves(tool("crm", "get"), tool("crm", "drop"))
			h := guardForTest(t, Config{Rules: rules}, s)
			c := callOf(mcp.MethodToolsCall, "crm__"+tt.tool,
				`{"name":"crm__`+tt.tool+`","arguments":`+tt.args+`}`, user("alice"))
			c.Verdict = &mcp.Verdict{}
			_, _ = h.Handle(t.Context(), c)
			v := c.Verdict
			if v.Effect != tt.effect || v.Rule != tt.rule || len(v.Explained) != len(tt.want) {
				t.Fatalf("got %+v", v)
			}
			for i, want := range tt.want {
				if !strings.Contains(v.Explained[i], want) || strings.Contains(v.Explained[i], "s3cret") {
					t.Errorf("got %s, want %s", v.Explained[i], want)
				}
			}
		})
	}
}
