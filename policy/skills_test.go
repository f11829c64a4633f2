package policy

import (
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// TestFilesOfSkills: a file is decided on as the skill that it is in, and by what is denied
// or asked about as a resource.
func TestFilesOfSkills(t *testing.T) {
	file := mcp.Target{Kind: mcp.KindSkills, Upstream: "pb", Name: "acme/refunds",
		File: "skill://acme/refunds/assets/a.png"}
	tests := []struct {
		name string
		rule Rule
		base string // the default
		want Effect
	}{
		{"the skill is allowed", Rule{Allow: []string{"skills:pb/acme/*"}}, "", Allow},
		{"another one is", Rule{Allow: []string{"skills:pb/acme"}}, "", Deny},
		{"resources are", Rule{Allow: []string{"resources:pb/*"}}, "", Deny},
		{"everything is", Rule{Allow: []string{"*:*"}}, "", Allow},
		{"the skill is denied", Rule{Deny: []string{"skills:pb/acme/*"}, Allow: []string{"*:*"}}, "", Deny},
		{"the file is denied as a resource", Rule{Deny: []string{"resources:pb/skill://acme/refunds/assets/*"},
			Allow: []string{"skills:*"}}, "", Deny},
		{"by the default too", Rule{Deny: []string{"resources:pb/*.png"}}, DefaultAllow, Deny},
		{"under any kind", Rule{Deny: []string{"*:pb/skill:*"}}, DefaultAllow, Deny},
		{"another file is denied", Rule{Deny: []string{"resources:pb/*.md"}, Allow: []string{"skills:*"}}, "", Allow},
		{"at another upstream", Rule{Deny: []string{"resources:other/*"}, Allow: []string{"skills:*"}}, "", Allow},
		{"asked about as a resource", Rule{Ask: []string{"resources:pb/*.png"}, Allow: []string{"skills:*"}}, "", Ask},
		{"asked about as a skill", Rule{Ask: []string{"skills:pb/*"}, Allow: []string{"skills:*", "resources:*"}}, "", Ask},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.rule.Name = "r"
			p := newForTest(t, Config{Default: tt.base, Rules: []Rule{tt.rule}})
			if got := p.Decide(t.Context(), &mcp.Caller{}, file, nil).Effect; got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
	p := newForTest(t, Config{Rules: []Rule{{Name: "r", Allow: []string{"*:*"}, Deny: []string{"resources:pb/*/a.png"}}}})
	for _, uri := range []string{"skill://acme/refunds/../x", "skill://acme/refunds/%2e%2e/x", `skill://acme\refunds`,
		"skill://acme/refunds/assets/%61.png"} {
		odd := file
		odd.File = uri
		if got := p.Decide(t.Context(), &mcp.Caller{}, odd, nil).Effect; got != Deny {
			t.Errorf("%s: %s", uri, got)
		}
	}
}

// TestTemplatesOfSkills: who may know of a skill knows of what makes its files, unless none
// of them is allowed.
func TestTemplatesOfSkills(t *testing.T) {
	template := mcp.Target{Kind: mcp.KindSkills, Upstream: "pb", Name: "refunds",
		File: "skill://refunds/assets/{name}", Template: true}
	for _, tt := range []struct {
		name string
		rule Rule
		want bool
	}{
		{"the skill is allowed", Rule{Allow: []string{"skills:pb/refunds"}}, true},
		{"resources are", Rule{Allow: []string{"resources:*"}}, false},
		{"another skill is", Rule{Allow: []string{"skills:pb/other"}}, false},
		{"all its files are denied", Rule{Allow: []string{"skills:*"},
			Deny: []string{"resources:pb/skill://refunds/assets/*"}}, false},
		{"some are", Rule{Allow: []string{"skills:*"}, Deny: []string{"resources:pb/skill://refunds/assets/a.png"}}, true},
		{"the skill needs a yes", Rule{Allow: []string{"skills:*"}, Ask: []string{"skills:*"}}, true},
	} {
		tt.rule.Name = "r"
		if got := newForTest(t, Config{Rules: []Rule{tt.rule}}).Visible(&mcp.Caller{}, template); got != tt.want {
			t.Errorf("%s: visible %t", tt.name, got)
		}
	}
}

// TestSkillsThatNeedAYes: what tells no more than the list needs none; the text does.
func TestSkillsThatNeedAYes(t *testing.T) {
	s := newShelves(mcp.Target{Kind: mcp.KindSkills, Upstream: "pb", Name: "a"})
	s.targets["skills skill://pb/a/SKILL.md"] = mcp.Target{Kind: mcp.KindSkills, Upstream: "pb", Name: "a"}
	s.targets["resources skill://pb/a"] = mcp.Target{Kind: mcp.KindSkills, Upstream: "pb", Name: "a", File: "skill://a"}
	s.targets["resources skill://pb/a/SKILL.md"] = mcp.Target{Kind: mcp.KindSkills, Upstream: "pb", Name: "a",
		File: "skill://a/SKILL.md"}
	h := guardForTest(t, Config{Rules: []Rule{{Name: "r", Allow: []string{"skills:*"}, Ask: []string{"skills:*"}}}}, s)
	for _, tt := range []struct {
		method, name, params string
		ephemeral            bool
		want                 string // "ok", "ask" or "error"
	}{
		{mcp.MethodSkillsGet, "skill://pb/a/SKILL.md", `{"uri":"skill://pb/a/SKILL.md"}`, true, "ok"},
		{mcp.MethodDirectoryRead, "skill://pb/a", `{"uri":"skill://pb/a"}`, true, "ok"},
		{mcp.MethodSkillsGet, "pb__a", `{"name":"pb__a"}`, true, "error"},
		{mcp.MethodSkillsGet, "pb__a", `{"name":"pb__a"}`, false, "ask"},
		{mcp.MethodResourcesRead, "skill://pb/a/SKILL.md", `{"uri":"skill://pb/a/SKILL.md"}`, true, "ask"},
		{mcp.MethodResourcesRead, "skill://pb/a/SKILL.md", `{"uri":"skill://pb/a/SKILL.md"}`, false, "ask"},
	} {
		s.calls = nil
		c := callOf(tt.method, tt.name, tt.params, mcp.Caller{Subject: "u"})
		c.Ephemeral, c.Caps = tt.ephemeral, mcp.Raw(`{"elicitation":{}}`)
		reply, err := h.Handle(t.Context(), c)
		got := "ok"
		switch {
		case err != nil:
			got = "error"
		case reply.Ask != nil:
			got = "ask"
			if text, _ := reply.Ask.Requests[0].Params.Member("message"); !strings.Contains(text.Text(), "skill: a\n") {
				t.Errorf("the user is asked %s", text)
			}
		}
		if got != tt.want || (got == "ok") != (len(s.reached()) == 1) {
			t.Errorf("%s %s, ephemeral %t: %s, reached %q: want %s", tt.method, tt.params, tt.ephemeral, got,
				s.reached(), tt.want)
		}
	}
}
