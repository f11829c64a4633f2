package e2e

import (
	"slices"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestCompletionKeepsSecrets: suggestions for a template that everybody sees contain
// nothing that the caller may not know; other callers get them.
func TestCompletionKeepsSecrets(t *testing.T) {
	t.Parallel()
	rules := policy.Config{Rules: []policy.Rule{
		{Name: "all", Allow: []string{"resources:up/*", "skills:up/*"}},
		{Name: "not these", Who: policy.Who{Groups: []string{"guests"}},
			Deny: []string{"resources:up/doc:///secret/*", "resources:up/doc:///open/plan", "skills:up/payroll"}},
	}}
	for _, server := range []string{statefulServer, stateless} {
		up := secretive(t, server)
		up.On("resources/list", func(c *mcptest.Call) {
			c.Result(`{"resources":[{"uri":"skill://refunds/SKILL.md","name":"r"},{"uri":"skill://payroll/SKILL.md","name":"p"}]}`)
		})
		up.On("resources/read", func(c *mcptest.Call) {
			var uri string
			c.Param("uri", &uri)
			name := map[string]string{"skill://refunds/SKILL.md": "refunds", "skill://payroll/SKILL.md": "payroll"}[uri]
			c.Result(`{"contents":[{"uri":"` + uri + `","text":"---\nname: ` + name +
				`\ndescription: What it is about.\n---\n# It\n"}]}`)
		})
		up.On("resources/templates/list", func(c *mcptest.Call) {
			c.Result(`{"resourceTemplates":[{"uriTemplate":"doc:///{dir}/{name}","name":"d"},{"uriTemplate":"skill://{skill}/{+file}","name":"s"}]}`)
		})
		up.On("completion/complete", func(c *mcptest.Call) {
			var of string
			c.Param("argument|name", &of)
			c.Result(map[string]string{
				"dir":   `{"completion":{"values":["open","secret","%73ecret"],"total":3,"hasMore":false}}`,
				"name":  `{"completion":{"values":["plan","other"],"total":7}}`,
				"skill": `{"completion":{"values":["refunds","payroll","PAYROLL"]}}`,
			}[of])
		})
		g := guard(t, gateway.Config{Policy: rules, Upstreams: []upstream.Config{{Name: "up", URL: up.URL}}})
		for _, revision := range eras {
			t.Run("client "+revision+" server "+server, func(t *testing.T) {
				guest := g.raw(t, revision, g.issuer.Token(claims{"groups": "guests"}))
				other := g.raw(t, revision, g.issuer.Token(nil))
				for _, tt := range []struct {
					name, template, of, context string
					guest, other                []string
					total                       int
					more                        bool
				}{
					{"a directory", "up+doc:///{dir}/{name}", "dir", `{}`, []string{"open"}, []string{"open", "secret", "%73ecret"},
						1, false},
					{"in it", "up+doc:///{dir}/{name}", "name", `{"dir":"open"}`, []string{"other"}, []string{"plan", "other"},
						0, true},
					{"in one that is denied", "up+doc:///{dir}/{name}", "name", `{"dir":"secret"}`, nil, []string{"plan", "other"},
						0, true},
					{"a skill", "skill://up/{skill}/{+file}", "skill", `{}`, []string{"refunds"}, []string{"refunds", "payroll"},
						0, false},
				} {
					for _, as := range []struct {
						who  string
						c    *mcptest.Client
						want []string
					}{{"guest", guest, tt.guest}, {"other", other, tt.other}} {
						m, _, err := as.c.Call(deadline(t), "completion/complete",
							`{"ref":{"type":"ref/resource","uri":"`+tt.template+`"},"argument":{"name":"`+tt.of+
								`","value":""},"context":{"arguments":`+tt.context+`}}`)
						var got []string
						if err != nil || !m.Value("completion|values", &got) || !slices.Equal(got, as.want) {
							t.Errorf("%s for %s: %s, %v; want %q", tt.name, as.who, m.Text, err, as.want)
						}
						var total int
						var more bool
						m.Value("completion|total", &total)
						m.Value("completion|hasMore", &more)
						if as.who == "guest" && (total != tt.total || more != tt.more) {
							t.Errorf("%s: %d of %d, more %t", tt.name, len(got), total, more)
						}
					}
				}
			})
		}
	}
}
