package e2e

import (
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestTheLogTellsWhyACallWasRefused: for its user a denied tool does not exist. The log has
// user, upstream and rule, and distinguishes it from an unknown name.
func TestTheLogTellsWhyACallWasRefused(t *testing.T) {
	s := scripted(t, stateless)
	s.Tools("read", "write")
	s.On("tools/call", func(c *mcptest.Call) { c.Text("done") })
	g := guard(t, gateway.Config{
		Policy: policy.Config{Rules: []policy.Rule{
			{Name: "all", Allow: []string{"tools:files/*"}},
			{Name: "only-reading", Who: policy.Who{Users: []string{"bob"}}, Deny: []string{"tools:files/write"}},
		}},
		Upstreams: []upstream.Config{{Name: "files", URL: s.URL}},
	})
	for _, revision := range []string{statefulClient, stateless} {
		c := g.raw(t, revision, g.issuer.Token(claims{"sub": "bob", "client_id": "editor"}))
		for tool, want := range map[string]string{
			"read":  "name=files__read user=bob client=editor upstream=files outcome=ok",
			"write": "name=files__write user=bob client=editor upstream=files policy=deny rule=only-reading outcome=invalid",
			"wirte": "name=files__wirte user=bob client=editor policy=unknown outcome=invalid",
		} {
			if _, _, err := c.Call(deadline(t), "tools/call", `{"name":"files__`+tool+`","arguments":{}}`); err != nil {
				t.Fatal(err)
			}
			text := g.log.String()
			g.log.Reset()
			if !strings.Contains(text, want) {
				t.Errorf("%s: the log lacks %q:\n%s", revision, want, text)
			}
		}
	}
}
