package policy

import (
	"math/rand/v2"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// at is a caller at a view.
func at(view string, c mcp.Caller) mcp.Caller {
	c.View = view
	return c
}

func TestViewsNarrow(t *testing.T) {
	skill := mcp.Target{Kind: mcp.KindSkills, Upstream: "crm", Name: "sell", File: "skill://sell/SKILL.md"}
	template := resource("crm", "doc:///{id}")
	template.Template = true
	rules := []Rule{
		{Name: "all", Allow: []string{"*:*"}},
		{Name: "care", Ask: []string{"tools:crm/delete"}},
		{Name: "no", Deny: []string{"tools:crm/secret"}},
	}
	views := []View{
		{Name: "sales", Show: []string{"tools:crm/*", "skills:crm/sell", "resources:crm/doc:///open/*"}},
		{Name: "bosses", Who: Who{Groups: []string{"boss"}}, Show: []string{"*:*"}},
	}
	for _, tt := range []struct {
		name   string
		caller mcp.Caller
		target mcp.Target
		want   Effect
	}{
		{"no view", user("a"), tool("erp", "get"), Allow},
		{"shown", at("sales", user("a")), tool("crm", "get"), Allow},
		{"shown, and asked about", at("sales", user("a")), tool("crm", "delete"), Ask},
		{"shown, but denied", at("sales", user("a")), tool("crm", "secret"), Deny},
		{"not shown", at("sales", user("a")), tool("erp", "get"), Deny},
		{"another kind", at("sales", user("a")), mcp.Target{Kind: mcp.KindPrompts, Upstream: "crm", Name: "get"}, Deny},
		{"a skill", at("sales", user("a")), skill, Allow},
		{"a resource", at("sales", user("a")), resource("crm", "doc:///open/1"), Allow},
		{"a resource on a detour", at("sales", user("a")), resource("crm", "doc:///open/../secret"), Deny},
		{"a resource that lenient servers read otherwise", at("sales", user("a")),
			resource("crm", "doc:///open/%2e%2e/secret"), Deny},
		{"a template of which some is shown", at("sales", user("a")), template, Allow},
		{"for others", at("bosses", user("a")), tool("crm", "get"), Deny},
		{"for them", at("bosses", user("a", "boss")), tool("crm", "get"), Allow},
		{"a view that does not exist", at("gone", user("a", "boss")), tool("crm", "get"), Deny},
		{"claims that can be read in two ways", at("sales",
			mcp.NewCaller(mcp.Caller{Subject: "a", Claims: mcp.Raw(`{"sub":"a","sub":"b"}`)})), tool("crm", "get"), Deny},
	} {
		for _, cfg := range []Config{{Rules: rules}, {Default: DefaultAllow, Rules: rules[1:]}} {
			p, err := New(cfg, views...)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second time from the caches
				if got := p.Decide(t.Context(), &tt.caller, tt.target, nil).Effect; got != tt.want {
					t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
				}
			}
		}
	}
}

// TestViewsNeverWiden: for random rules and views, whoever may do something at a view may do it
// at the endpoint, and whatever a view shows, the endpoint shows.
func TestViewsNeverWiden(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 12))
	parts := []string{"*:*", "tools:*", "tools:a/*", "tools:b/x", "tools:*/x*", "*:a/*", "resources:a/f:///x/*",
		"resources:*", "prompts:a/x", "skills:*/x"}
	some := func() (patterns []string) {
		for range 1 + r.IntN(3) {
			patterns = append(patterns, parts[r.IntN(len(parts))])
		}
		return patterns
	}
	var targets []mcp.Target
	for _, up := range []string{"a", "b"} {
		for _, name := range []string{"x", "xy", "z"} {
			for _, kind := range []string{mcp.KindTools, mcp.KindPrompts, mcp.KindSkills} {
				targets = append(targets, mcp.Target{Kind: kind, Upstream: up, Name: name})
			}
			targets = append(targets, resource(up, "f:///x/"+name), resource(up, "f:///"+name))
		}
	}
	shown := 0
	for range 300 {
		cfg := Config{Default: []string{DefaultAllow, DefaultDeny}[r.IntN(2)]}
		for i := range r.IntN(4) {
			rule := Rule{Name: string(rune('a' + i)), Allow: some()}
			switch r.IntN(3) {
			case 0:
				rule.Deny = some()
			case 1:
				rule.Ask = some()
			}
			if r.IntN(3) == 0 {
				rule.Who.Groups = []string{"g"}
			}
			cfg.Rules = append(cfg.Rules, rule)
		}
		v := View{Name: "v", Show: some()}
		if r.IntN(3) == 0 {
			v.Who.Groups = []string{"g"}
		}
		p, err := New(cfg, v)
		if err != nil {
			t.Fatal(err)
		}
		for _, whole := range []mcp.Caller{user("a"), user("a", "g")} {
			narrow := at("v", whole)
			visible := p.upstreams(&narrow)
			for _, target := range targets {
				in, out := p.Decide(t.Context(), &narrow, target, nil), p.Decide(t.Context(), &whole, target, nil)
				if in.Effect != Deny && in != out {
					t.Fatalf("%s of %v: %+v at the view %v, %+v at the endpoint", target, cfg, in, v, out)
				}
				if p.Visible(&narrow, target) {
					shown++
					if !p.Visible(&whole, target) || visible == nil || !visible(target.Upstream) ||
						!p.upstreams(&narrow, target.Kind)(target.Upstream) {
						t.Fatalf("%s of %v is visible at the view %v", target, cfg, v)
					}
				}
			}
		}
	}
	if shown == 0 {
		t.Error("no view showed anything")
	}
}
