package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestApprovalOfASkillByItsName: in a session the user is asked before skills/get returns
// the text of a skill. A stateless client cannot be asked there (2026-07-28
// basic/patterns/mrtr) and is told to read the SKILL.md.
func TestApprovalOfASkillByItsName(t *testing.T) {
	t.Parallel()
	g := guard(t, gateway.Config{
		Policy: policy.Config{Default: policy.DefaultAllow,
			Rules: []policy.Rule{{Name: "r", Ask: []string{"skills:pb/refunds"}}}},
		Upstreams: []upstream.Config{{Name: "pb", Skills: skillsDir(t, skillFiles)}},
	})
	const params = `{"name":"pb__refunds"}`
	get := func(t *testing.T, c *mcptest.Client, answer string) mcptest.Message {
		t.Helper()
		x, err := c.Send(deadline(t), "skills/get", params)
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		question, err := x.Until("elicitation/create")
		if err != nil || !strings.Contains(question.Text, "refunds") {
			t.Fatalf("asked %s, %v", question.Text, err)
		}
		if err := c.Answer(deadline(t), question.ID, answer); err != nil {
			t.Fatal(err)
		}
		m, err := x.Response()
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for _, revision := range []string{"2025-06-18", "2025-11-25"} {
		t.Run(revision, func(t *testing.T) {
			c := g.rawWith(t, revision, g.issuer.Token(nil), `{"elicitation":{}}`)
			if m := get(t, c, `{"action":"accept","content":{"approve":true}}`); !strings.Contains(string(m.Result),
				`"instructions":"# Refunds`) {
				t.Errorf("approved: %s", m.Text)
			}
			if m := get(t, c, `{"action":"decline"}`); m.Error == nil || strings.Contains(m.Text, "# Refunds") {
				t.Errorf("declined: %s", m.Text)
			}
			mute := g.raw(t, revision, g.issuer.Token(nil))
			if m, _, err := mute.Call(deadline(t), "skills/get", params); err != nil || m.Error == nil ||
				strings.Contains(m.Text, "# Refunds") {
				t.Errorf("a client that cannot be asked: %s, %v", m.Text, err)
			}
		})
	}
	c := g.rawWith(t, stateless, g.issuer.Token(nil), `{"elicitation":{}}`)
	m, _, err := c.Call(deadline(t), "skills/get", params)
	if err != nil || m.Error == nil || !strings.Contains(m.Error.Message, "read its SKILL.md by resources/read") {
		t.Errorf("stateless: %s, %v", m.Text, err)
	}
	for _, revision := range eras { // what reveals no more than the list
		c := g.rawWith(t, revision, g.issuer.Token(nil), `{"elicitation":{}}`)
		mustCall(t, c, "skills/get", fmt.Sprintf(`{"uri":%q}`, "skill://pb/refunds/SKILL.md"))
	}
}
