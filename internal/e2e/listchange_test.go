package e2e

import (
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestOnlyWhoSeesAChangeHearsOfIt: when the tools of a server change, only users who
// see a change are notified.
func TestOnlyWhoSeesAChangeHearsOfIt(t *testing.T) {
	t.Parallel()
	const changed = "notifications/tools/list_changed"
	for _, server := range []string{statefulServer, stateless} {
		for _, revision := range eras {
			t.Run("client "+revision+" server "+server, func(t *testing.T) {
				t.Parallel() // each waits until changes of lists settle
				s := scripted(t, server)
				s.Tools("open-1", "secret-1")
				g := guard(t, gateway.Config{
					Policy: policy.Config{Rules: []policy.Rule{
						{Name: "open", Allow: []string{"tools:up/open*", "prompts:*"}},
						{Name: "all", Who: policy.Who{Groups: []string{"admin"}}, Allow: []string{"tools:*", "prompts:*"}},
					}},
					Upstreams: []upstream.Config{{Name: "up", URL: s.URL}},
				})
				some := hearing(t, g.raw(t, revision, g.issuer.Token(nil)))
				all := hearing(t, g.raw(t, revision, g.issuer.Token(claims{"sub": "admin", "groups": "admin"})))
				if err := s.AwaitGETStreams(deadline(t), 1); err != nil {
					t.Fatal(err)
				}
				for _, tools := range [][]string{{"open-1", "secret-1", "secret-2"}, {"open-1", "secret-1", "secret-2", "open-2"}} {
					s.Tools(tools...)
					s.Push(changed, "{}")
					if _, err := all.Until(changed); err != nil {
						t.Fatal(err)
					}
				}
				s.On("prompts/list", func(c *mcptest.Call) { c.Result(`{"prompts":[{"name":"new"}]}`) })
				s.Push("notifications/prompts/list_changed", "{}")
				if _, err := some.Until("notifications/prompts/list_changed"); err != nil {
					t.Fatal(err)
				}
				if len(some.Before) != 1 || some.Before[0].Method != changed {
					t.Errorf("before it came %v, want the one change that can be seen", some.Before)
				}
			})
		}
	}
}

// TestTheFirstSkill: skills are declared where a server has resources, since one of them may become a
// skill, and who listens hears when one does: but not who may not see any.
func TestTheFirstSkill(t *testing.T) {
	t.Parallel()
	const changed = "notifications/skills/list_changed"
	for _, server := range []string{statefulServer, stateless} {
		for _, revision := range eras {
			t.Run("client "+revision+" server "+server, func(t *testing.T) {
				t.Parallel() // each waits until changes of lists settle
				s := scripted(t, server)
				s.Tools("a")
				g := guard(t, gateway.Config{
					Policy: policy.Config{Rules: []policy.Rule{
						{Name: "all", Allow: []string{"tools:*", "resources:*"}},
						{Name: "skilled", Who: policy.Who{Groups: []string{"skilled"}}, Allow: []string{"skills:*"}},
					}},
					Upstreams: []upstream.Config{{Name: "up", URL: s.URL}},
				})
				skilled, other := g.raw(t, revision, g.issuer.Token(claims{"sub": "skilled", "groups": "skilled"})),
					g.raw(t, revision, g.issuer.Token(nil))
				if caps := capabilities(t, skilled); caps["skills"] == nil || caps["extensions"] == nil {
					t.Errorf("who may see skills is told of %v", caps)
				}
				if caps := capabilities(t, other); caps["skills"] != nil || caps["extensions"] != nil {
					t.Errorf("who may see no skill is told of %v", caps)
				}
				hears, others := hearing(t, skilled), hearing(t, other)
				if err := s.AwaitGETStreams(deadline(t), 1); err != nil {
					t.Fatal(err)
				}
				s.On("resources/read", func(c *mcptest.Call) {
					c.Result(`{"contents":[{"uri":"skill://a/SKILL.md","text":"---\nname: a\ndescription: d\n---\nDo it."}]}`)
				})
				s.On("resources/list",
					func(c *mcptest.Call) { c.Result(`{"resources":[{"name":"a","uri":"skill://a/SKILL.md"}]}`) })
				s.Push("notifications/resources/list_changed", "{}")
				if _, err := hears.Until(changed); err != nil {
					t.Fatal(err)
				}
				if skills := allSkills(t, skilled); len(skills) != 1 {
					t.Errorf("there are %v", skills)
				}
				s.Tools("a", "b")
				s.Push("notifications/tools/list_changed", "{}")
				if _, err := others.Until("notifications/tools/list_changed"); err != nil {
					t.Fatal(err)
				}
				for _, m := range others.Before {
					if m.Method == changed {
						t.Error("who may see no skill is told of one")
					}
				}
			})
		}
	}
}

// TestRootsChange: that client's servers with sessions are notified, and ask again during
// the next call.
func TestRootsChange(t *testing.T) {
	t.Parallel()
	for _, server := range []string{"2024-11-05", "2025-11-25", "2026-07-28"} {
		t.Run(server, func(t *testing.T) {
			s := newInquirer(t, server)
			s.name = "up"
			s.asks([]inquiry{theirs})
			url := inFrontOf(t, s.Server)
			c := rawWith(t, url, statefulClient, `{"roots":{"listChanged":true}}`)
			other := rawWith(t, url, statefulClient, `{"roots":{"listChanged":true}}`)
			roots := rooted
			answer := func(inquiry) string { return roots }
			for _, client := range []*mcptest.Client{c, other, c} {
				if m, _ := converse(t, client, "tools/call", s.params("tools/call"), answer); outcome(m) != roots {
					t.Fatalf("%s", m.Text)
				}
			}
			roots = `{"roots":[{"uri":"file:///b"},{"uri":"file:///c"}]}`
			if status, err := c.Notify(deadline(t), "notifications/roots/list_changed", "{}"); err != nil || status != 202 {
				t.Fatalf("%d %v", status, err)
			}
			m, asked := converse(t, c, "tools/call", s.params("tools/call"), answer)
			if len(asked) != 1 || outcome(m) != roots {
				t.Errorf("asked %v: %s", asked, m.Text)
			}
			if m, asked := converse(t, other, "tools/call", s.params("tools/call"), answer); len(asked) != 0 ||
				outcome(m) != rooted {
				t.Errorf("the other session was asked %v: %s", asked, m.Text)
			}
			if !s.revision.Stateful {
				if n := len(s.Received("notifications/roots/list_changed")); n > 0 {
					t.Errorf("a server without sessions was told %d times", n)
				}
				return
			}
			told, err := s.Await(deadline(t), "the change", isMethod("notifications/roots/list_changed"))
			if err != nil {
				t.Fatal(err)
			}
			first := s.Received("tools/call")[0]
			if n := len(s.Received("notifications/roots/list_changed")); told.Session != first.Session || n != 1 {
				t.Errorf("told %d times, in session %s; want %s", n, told.Session, first.Session)
			}
		})
	}
}

// hearing opens the stream on which a client gets notifications of changed lists.
func hearing(t *testing.T, c *mcptest.Client) (x *mcptest.Exchange) {
	t.Helper()
	var err error
	if c.Revision.Stateful {
		x, err = c.Get(deadline(t), "")
	} else if x, err = c.Send(deadline(t), "subscriptions/listen",
		`{"notifications":{"toolsListChanged":true,"promptsListChanged":true,"skillsListChanged":true}}`); err == nil {
		_, err = x.Next() // the acknowledgement
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	return x
}
