package e2e

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/loadskill"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

var offersLoading = loadskill.Config{LoadTool: true}

// loading is a gateway with skills only, which some users may see.
func loading(t *testing.T, dir string) *guarded {
	t.Helper()
	return guard(t, gateway.Config{
		Skills: offersLoading,
		Policy: policy.Config{Rules: []policy.Rule{
			{Name: "all", Who: policy.Who{Groups: []string{"all"}}, Allow: []string{"*:*"}},
			{Name: "some", Who: policy.Who{Groups: []string{"some"}}, Allow: []string{"skills:pb/refunds"},
				Deny: []string{"resources:pb/*.png"}},
			{Name: "careful", Who: policy.Who{Groups: []string{"careful"}}, Ask: []string{"skills:*"}},
			{Name: "careful too", Who: policy.Who{Groups: []string{"careful"}}, Allow: []string{"skills:*"}},
		}},
		Limits:    policy.Limits{{Name: "few", What: []string{"skills:pb/acme/*"}, Rate: policy.Rate{Count: 1, Per: 3600e9}}},
		Upstreams: []upstream.Config{{Name: "pb", Skills: dir}},
	})
}

// loaded calls the tool and returns its text blocks, one on each line, or its error.
func loaded(t *testing.T, c *mcptest.Client, arguments string) string {
	t.Helper()
	m, _, err := c.Call(deadline(t), "tools/call", `{"name":"load_skill","arguments":`+arguments+`}`)
	if err != nil {
		t.Fatal(err)
	}
	if m.Error != nil {
		return fmt.Sprint(m.Error.Code, " ", m.Error.Message)
	}
	var out []string
	var content []struct {
		Text     string
		Resource struct{ URI, Blob string }
	}
	if !m.Value("content", &content) {
		t.Fatalf("no content: %s", m.Text)
	}
	for _, block := range content {
		blob, err := base64.StdEncoding.DecodeString(block.Resource.Blob)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, block.Text+block.Resource.URI+string(blob))
	}
	return strings.Join(out, "\n")
}

// TestLoadSkill: a host without any form of skills gets them through a tool, in every
// revision, as far as the caller may see them.
func TestLoadSkill(t *testing.T) {
	t.Parallel()
	for _, revision := range wire.Revisions() {
		t.Run(revision.Name, func(t *testing.T) {
			g := loading(t, skillsDir(t, skillFiles))
			c := g.raw(t, revision.Name, g.issuer.Token(claims{"sub": "all", "groups": "all"}))
			some := g.raw(t, revision.Name, g.issuer.Token(claims{"sub": "some", "groups": "some"}))
			none := g.raw(t, revision.Name, g.issuer.Token(claims{"sub": "none"}))
			described := func(c *mcptest.Client) (all []string) {
				for _, tool := range objects(result(t, c, "tools/list", "{}"), "tools") {
					all = append(all, fmt.Sprint(tool["name"], ": ", tool["description"]))
				}
				return all
			}
			const about = "load_skill: Loads a skill: instructions for a kind of task, to be read before you begin one. Skills:"
			if got, want := described(c), about+
				"\n- pb__acme/ops/restart: How to restart.\n- pb__refunds: When and how to give money back."; len(got) != 1 ||
				got[0] != want {
				t.Errorf("listed are %q, want %q", got, want)
			}
			if got, want := described(some), about+"\n- pb__refunds: When and how to give money back."; len(got) != 1 ||
				got[0] != want {
				t.Errorf("listed are %q, want %q", got, want)
			}
			refused(t, none, "tools/call", `{"name":"load_skill","arguments":{}}`, -32601)
			for arguments, want := range map[string]string{
				`{"name":"pb__refunds"}`: refundsSkill +
					"\nFiles of this skill, for the argument file: assets/stamp.png, references/rules.md",
				`{"name":"pb__refunds","file":"SKILL.md"}`: refundsSkill +
					"\nFiles of this skill, for the argument file: assets/stamp.png, references/rules.md",
				`{"name":"pb__refunds","file":"./references/rules.md"}`: skillFiles["refunds/references/rules.md"],
				`{"name":"pb__refunds","file":"assets/stamp.png"}`: "skill://pb/refunds/assets/stamp.png" +
					skillFiles["refunds/assets/stamp.png"],
				`{"name":"pb__refunds","file":"../acme/ops/restart/x"}`: "-32602 Resource not found",
				`{"name":"pb__refunds","file":"none"}`:                  "-32602 Resource not found",
				`{"name":"pb__none"}`:                                   "-32602 Unknown skill: pb__none",
				`{"name":7}`:                                            "-32602 Invalid params: name and file of load_skill are texts",
				`{}`:                                                    "- pb__acme/ops/restart: How to restart.\n- pb__refunds: When and how to give money back.\n",
				`{"name":"pb__refunds","file":"skill://pb/refunds/none"}`:   "-32602 Resource not found",
				`{"name":"pb__refunds","file":"skill://pb/acme/ops/x.txt"}`: "-32602 Resource not found",
			} {
				if got := strings.Replace(loaded(t, c, arguments), "-32002", "-32602", 1); got != want {
					t.Errorf("%s: got %q, want %q", arguments, got, want)
				}
			}
			for arguments, want := range map[string]string{
				`{"name":"pb__acme/ops/restart"}`:                  "-32602 Unknown skill: pb__acme/ops/restart",
				`{"name":"pb__refunds","file":"assets/stamp.png"}`: "-32602 Resource not found",
				`{"name":"pb__refunds"}`: refundsSkill +
					"\nFiles of this skill, for the argument file: references/rules.md",
			} {
				if got := strings.Replace(loaded(t, some, arguments), "-32002", "-32602", 1); got != want {
					t.Errorf("who may not see all, %s: got %q, want %q", arguments, got, want)
				}
			}
			loaded(t, c, `{"name":"pb__acme/ops/restart"}`)
			if got := loaded(t, c, `{"name":"pb__acme/ops/restart"}`); !strings.HasPrefix(got, "42901 ") {
				t.Errorf("limits of the skill: %q", got)
			}
		})
	}
}

// TestApprovalOfALoadedSkill: the user is asked before the text is sent, in both eras.
func TestApprovalOfALoadedSkill(t *testing.T) {
	t.Parallel()
	g := loading(t, skillsDir(t, skillFiles))
	for _, revision := range []string{"2025-06-18", "2025-11-25", stateless} {
		t.Run(revision, func(t *testing.T) {
			c := newClient(revision)
			says := "decline"
			c.answer = func(*sdk.ElicitParams) *sdk.ElicitResult {
				return &sdk.ElicitResult{Action: says, Content: map[string]any{"approve": true}}
			}
			c.open(t, g.transport(t, g.issuer.Token(claims{"sub": revision, "groups": "careful"})))
			call := &sdk.CallToolParams{Name: "load_skill", Arguments: map[string]any{"name": "pb__refunds"}}
			if got, err := c.CallTool(deadline(t), call); err == nil && strings.Contains(textOf(t, got), "# Refunds") {
				t.Errorf("declined: %s", textOf(t, got))
			}
			says = "accept"
			if got, err := c.CallTool(deadline(t), call); err != nil || !strings.Contains(textOf(t, got), "# Refunds") {
				t.Errorf("approved: %+v, %v", got, err)
			}
			if question := receive(t, "the question", c.asked); !strings.Contains(question, "refunds") {
				t.Errorf("asked %q", question)
			}
		})
	}
}

// TestChangedSkillsChangeTheTool: when skills change, the tool changes, and only clients
// that listen for changed tools are told.
func TestChangedSkillsChangeTheTool(t *testing.T) {
	t.Parallel()
	dir := skillsDir(t, skillFiles)
	g := loading(t, dir)
	c := g.raw(t, stateless, g.issuer.Token(claims{"groups": "all"}))
	stream, err := c.Send(deadline(t), "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if ack, err := stream.Next(); err != nil || !strings.Contains(ack.Text, `"notifications":{"toolsListChanged":true}`) {
		t.Fatalf("acknowledged %s, %v", ack.Text, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "refunds/SKILL.md"),
		[]byte(strings.Replace(refundsSkill, "When and how", "How", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Until("notifications/tools/list_changed"); err != nil {
		t.Fatal(err)
	}
	if text := string(mustCall(t, c, "tools/list", "{}").Result); !strings.Contains(text,
		"pb__refunds: How to give money back.") {
		t.Errorf("the tool is %s", text)
	}
	for _, m := range stream.Before {
		if m.Method == "notifications/skills/list_changed" {
			t.Error("skills were not asked for")
		}
	}
}

// TestLoadSkillIsOffered: the tool exists where the operator configures it, and its name is
// then reserved.
func TestLoadSkillIsOffered(t *testing.T) {
	for _, offered := range []bool{false, true} {
		up := scripted(t, stateless)
		up.Tools("load_skill", "other")
		plain := ""
		cfg := gateway.Config{Upstreams: []upstream.Config{{Name: "up", URL: up.URL, Prefix: &plain},
			{Name: "pb", Skills: skillsDir(t, skillFiles)}}}
		if offered {
			cfg.Skills = offersLoading
		}
		g := guard(t, cfg)
		for _, revision := range eras {
			c := g.raw(t, revision, g.issuer.Token(nil))
			var names []string
			for _, tool := range objects(result(t, c, "tools/list", "{}"), "tools") {
				_, ours := tool["title"]
				names = append(names, fmt.Sprint(tool["name"], ours))
			}
			want := "[load_skillfalse otherfalse]"
			if offered {
				want = "[load_skilltrue otherfalse]"
			}
			if fmt.Sprint(names) != want {
				t.Errorf("offered %t: tools %v, want %s", offered, names, want)
			}
			if got := loaded(t, c, `{"name":"pb__refunds"}`); strings.Contains(got, "# Refunds") != offered {
				t.Errorf("offered %t: %s", offered, got)
			}
		}
	}
}
