package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestEveryRevisionIsToldOfSkills: a client of any stateful revision learns of skills at
// the handshake (SEP-2076 §2), lists and reads them, and is notified of a change.
func TestEveryRevisionIsToldOfSkills(t *testing.T) {
	t.Parallel()
	for _, revision := range wire.Revisions() {
		if !revision.Stateful {
			continue
		}
		t.Run(revision.Name, func(t *testing.T) {
			t.Parallel()
			dir := skillsDir(t, skillFiles)
			g := guard(t, gateway.Config{Upstreams: []upstream.Config{{Name: "pb", Skills: dir}}})
			c := g.raw(t, revision.Name, g.issuer.Token(nil))
			x, err := c.Post(deadline(t), `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+
				revision.Name+`","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
			if err != nil {
				t.Fatal(err)
			}
			m, err := x.Response()
			var skills object
			if err != nil || !m.Value("capabilities|skills", &skills) || skills["listChanged"] != true {
				t.Fatalf("initialize: %s, %v", m.Text, err)
			}
			stream, err := c.Get(deadline(t), "")
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Close()
			all := allSkills(t, c)
			if len(all) != 2 {
				t.Errorf("skills %v", all)
			}
			for _, s := range all {
				checkSkill(t, s)
				typed(t, "GetSkillResult", result(t, c, "skills/get", fmt.Sprintf(`{"name":%q}`, s["name"])),
					map[string]string{"instructions": "string!", "description": "string"})
			}
			if got := string(readFile(t, c, "skill://pb/refunds/SKILL.md")); got != refundsSkill {
				t.Errorf("SKILL.md is %q", got)
			}
			if err := os.WriteFile(filepath.Join(dir, "refunds/references/rules.md"), []byte("other"), 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Until("notifications/skills/list_changed"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestChangesBeforeTheFirstStream: a client that opens its stream late is told of the lists
// that have changed since it fetched them, and of no other.
func TestChangesBeforeTheFirstStream(t *testing.T) {
	t.Parallel()
	const changed = "notifications/skills/list_changed"
	dir := skillsDir(t, skillFiles)
	up := secretive(t, stateless)
	g := guard(t, gateway.Config{Upstreams: []upstream.Config{{Name: "up", URL: up.URL}, {Name: "pb", Skills: dir}}})
	late, never, other := g.raw(t, statefulClient, g.issuer.Token(nil)), g.raw(t, statefulClient, g.issuer.Token(nil)),
		g.raw(t, statefulClient, g.issuer.Token(nil))
	for _, method := range []string{"skills/list", "tools/list", "resources/list"} {
		mustCall(t, late, method, "{}")
	}
	mustCall(t, never, "tools/list", "{}")
	stream := func(c *mcptest.Client) *mcptest.Exchange {
		x, err := c.Get(deadline(t), "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(x.Close)
		mustCall(t, c, "resources/subscribe", `{"uri":"up+file:///docs/open"}`) // answered once the session listens
		return x
	}
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(dir, "refunds/references/rules.md"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	heard := stream(other)
	write("another")
	if _, err := heard.Until(changed); err != nil {
		t.Fatal(err)
	}
	for c, want := range map[*mcptest.Client]bool{late: true, never: false} {
		x := stream(c)
		if want {
			if _, err := x.Until(changed); err != nil {
				t.Fatal(err)
			}
		}
		up.Tools("open", "secret", "new")
		up.Push("notifications/tools/list_changed", "{}")
		if _, err := x.Until("notifications/tools/list_changed"); err != nil {
			t.Fatal(err)
		}
		for _, m := range x.Before {
			if m.Method == changed && !want || m.Method == "notifications/resources/list_changed" {
				t.Errorf("late %t: heard %s", want, m.Method)
			}
		}
	}
}
