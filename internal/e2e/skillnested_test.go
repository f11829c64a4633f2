package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/whatif"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// nestedSkills are a skill that contains two others. One of them is left out, because its
// name is not that of its directory.
var nestedSkills = map[string]string{
	"outer/SKILL.md":          "---\nname: outer\ndescription: Around.\n---\nOuter.\n",
	"outer/a.md":              "a",
	"outer/inner/SKILL.md":    "---\nname: inner\ndescription: Within.\n---\nInner.\n",
	"outer/inner/b.md":        "b",
	"outer/template/SKILL.md": "---\nname: your-name\ndescription: To be filled in.\n---\n",
	"outer/template/c.md":     "c",
}

// TestRulesForSkillsWithinSkills: policy decides about a nested skill by its own rules, on
// each path to it (SEP-2640, Nested skills).
func TestRulesForSkillsWithinSkills(t *testing.T) {
	t.Parallel()
	g := guard(t, gateway.Config{
		Upstreams: []upstream.Config{{Name: "pb", Skills: skillsDir(t, nestedSkills)}},
		Policy: policy.Config{Default: policy.DefaultAllow, Rules: []policy.Rule{
			{Name: "not these", Who: policy.Who{Groups: []string{"guests"}},
				Deny: []string{"skills:pb/outer/inner", "skills:pb/outer/template"}},
			{Name: "only these", Who: policy.Who{Groups: []string{"inner"}}, Deny: []string{"skills:pb/outer"}},
		}},
	})
	const outer, inner, template = "skill://pb/outer", "skill://pb/outer/inner", "skill://pb/outer/template"
	for _, revision := range eras {
		t.Run(revision, func(t *testing.T) {
			all := g.raw(t, revision, g.issuer.Token(claims{"sub": "all"}))
			guest := g.raw(t, revision, g.issuer.Token(claims{"sub": "guest", "groups": "guests"}))
			within := g.raw(t, revision, g.issuer.Token(claims{"sub": "within", "groups": "inner"}))
			missing := func(method string) int { // the code for missing items
				if method == "resources/read" && revision != stateless {
					return -32002
				}
				return -32602
			}
			seen := func(c *mcptest.Client) (names, files []string) {
				for _, s := range allSkills(t, c) {
					names = append(names, s["name"].(string))
					for _, f := range objects(s, "resources") {
						files = append(files, strings.TrimPrefix(f["uri"].(string), "skill://pb/"))
					}
				}
				return names, files
			}
			for _, tt := range []struct {
				c            *mcptest.Client
				names, files []string
			}{
				{all, []string{"pb__outer", "pb__outer/inner"},
					[]string{"outer/SKILL.md", "outer/a.md", "outer/inner/SKILL.md", "outer/inner/b.md", "outer/template/SKILL.md",
						"outer/template/c.md", "outer/inner/SKILL.md", "outer/inner/b.md"}},
				{guest, []string{"pb__outer"}, []string{"outer/SKILL.md", "outer/a.md"}},
				{within, []string{"pb__outer/inner"}, []string{"outer/inner/SKILL.md", "outer/inner/b.md"}},
			} {
				if names, files := seen(tt.c); !slices.Equal(names, tt.names) || !slices.Equal(files, tt.files) {
					t.Errorf("skills %q with files %q, want %q with %q", names, files, tt.names, tt.files)
				}
			}
			for _, way := range []struct{ method, params string }{
				{"skills/get", `{"name":"pb__outer/inner"}`},
				{"skills/get", fmt.Sprintf(`{"uri":%q}`, inner+"/SKILL.md")},
				{"resources/read", fmt.Sprintf(`{"uri":%q}`, inner+"/SKILL.md")},
				{"resources/read", fmt.Sprintf(`{"uri":%q}`, inner+"/b.md")},
				{"resources/directory/read", fmt.Sprintf(`{"uri":%q}`, inner)},
			} {
				mustCall(t, all, way.method, way.params)
				mustCall(t, within, way.method, way.params)
				refused(t, guest, way.method, way.params, missing(way.method))
			}
			for _, way := range []struct{ method, params string }{
				{"resources/read", fmt.Sprintf(`{"uri":%q}`, template+"/SKILL.md")},
				{"resources/read", fmt.Sprintf(`{"uri":%q}`, template+"/c.md")},
				{"resources/directory/read", fmt.Sprintf(`{"uri":%q}`, template)},
			} {
				mustCall(t, all, way.method, way.params)
				refused(t, guest, way.method, way.params, missing(way.method))
			}
			refused(t, all, "skills/get", fmt.Sprintf(`{"uri":%q}`, template+"/SKILL.md"), -32602)
			children := func(c *mcptest.Client) (names []string) {
				for _, r := range objects(result(t, c, "resources/directory/read", fmt.Sprintf(`{"uri":%q}`, outer)), "resources") {
					names = append(names, r["name"].(string))
				}
				return names
			}
			if got, want := children(all), []string{"SKILL.md", "a.md", "inner", "template"}; !slices.Equal(got, want) {
				t.Errorf("directory %q, want %q", got, want)
			}
			if got, want := children(guest), []string{"SKILL.md", "a.md"}; !slices.Equal(got, want) {
				t.Errorf("directory %q, want %q", got, want)
			}
			refused(t, within, "resources/read", fmt.Sprintf(`{"uri":%q}`, outer+"/a.md"), missing("resources/read"))
		})
	}
}

// TestExplainTellsOfSkillsWithinSkills: explain says what happens to nested skills.
func TestExplainTellsOfSkillsWithinSkills(t *testing.T) {
	cfg := gateway.Config{
		Upstreams: []upstream.Config{{Name: "pb", Skills: skillsDir(t, nestedSkills)}},
		Policy: policy.Config{Default: policy.DefaultAllow,
			Rules: []policy.Rule{{Name: "r", Deny: []string{"skills:pb/outer/inner"}}}},
	}
	for _, q := range []admin.Question{
		{Method: "skills/get", Name: "pb__outer/inner"},
		{Method: "skills/get", Name: "skill://pb/outer/inner/SKILL.md"},
		{Method: "resources/read", Name: "skill://pb/outer/inner/SKILL.md"},
	} {
		a, err := whatif.Explain(context.Background(), cfg, q)
		if err != nil || a.Effect != "deny" {
			t.Errorf("%s %s: %s, %v, want deny", q.Method, q.Name, a.Effect, err)
		}
	}
	if a, err := whatif.Explain(context.Background(), cfg,
		admin.Question{Method: "resources/read", Name: "skill://pb/outer/SKILL.md"}); err != nil || a.Effect != "allow" {
		t.Errorf("%s, %v, want allow", a.Effect, err)
	}
}
