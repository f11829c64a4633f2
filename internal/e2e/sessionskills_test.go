package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/loadskill"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// library is a go-sdk server with the skill common, whose tool lend adds the skills rare and secret to
// the session in which it is called.
func library(t *testing.T) (url string) {
	t.Helper()
	add := func(server *sdk.Server, name string) {
		uri := "skill://" + name + "/SKILL.md"
		server.AddResource(&sdk.Resource{Name: name, URI: uri},
			func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
				text := "---\nname: " + name + "\ndescription: About " + name + ".\n---\nDo it."
				return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: uri, Text: text}}}, nil
			})
	}
	url, stop := serveBy(sdk.NewServer(&sdk.Implementation{Name: "none", Version: "1"}, nil),
		sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server {
			server := sdk.NewServer(&sdk.Implementation{Name: "library", Version: "1"}, &sdk.ServerOptions{
				SupportedProtocolVersions: []string{statefulServer},
				// it tells of no changes
				Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}, Resources: &sdk.ResourceCapabilities{}},
			})
			add(server, "common")
			sdk.AddTool(server, &sdk.Tool{Name: "lend"}, func(context.Context, *sdk.CallToolRequest,
				struct{}) (*sdk.CallToolResult, any, error) {
				add(server, "rare")
				add(server, "secret")
				return says("lent"), nil, nil
			})
			return server
		}, nil))
	t.Cleanup(stop)
	return url
}

// TestSkillsOfSessions: skills that a server adds to one client's session are that client's alone, as far
// as policy lets it have them, in lists, in the tool load_skill, and when they are read.
func TestSkillsOfSessions(t *testing.T) {
	t.Parallel()
	for _, revision := range []string{statefulClient, stateless} {
		t.Run(revision, func(t *testing.T) {
			t.Parallel() // each waits until changes of lists settle
			g := start(t, gateway.Config{
				Upstreams: []upstream.Config{{Name: "up", URL: library(t)}},
				Skills:    loadskill.Config{LoadTool: true},
				Policy: policy.Config{Rules: []policy.Rule{{Name: "r",
					Allow: []string{"tools:*", "resources:*", "skills:up/common", "skills:up/rare"}}}},
			})
			open := func(name string) *mcptest.Client {
				c := unopened(t, g, revision)
				c.Name, c.Caps = name, askable
				if err := c.Open(deadline(t)); err != nil {
					t.Fatal(err)
				}
				return c
			}
			ann, bob := open("ann"), open("bob")
			wants := func(c *mcptest.Client, want ...string) {
				t.Helper()
				var skills struct{ Skills []struct{ Name string } }
				if err := json.Unmarshal(mustCall(t, c, "skills/list", "{}").Result, &skills); err != nil {
					t.Fatal(err)
				}
				var names []string
				for _, s := range skills.Skills {
					names = append(names, s.Name)
				}
				if !slices.Equal(names, want) {
					t.Errorf("%s has the skills %q, want %q", c.Name, names, want)
				}
				tools := string(mustCall(t, c, "tools/list", "{}").Result)
				if loads := strings.Contains(tools, "About rare."); loads != slices.Contains(want, "up__rare") ||
					strings.Contains(tools, "secret") {
					t.Errorf("%s has the tools %s", c.Name, tools)
				}
			}
			wants(ann, "up__common")
			mustCall(t, ann, "tools/call", `{"name":"up__lend","arguments":{}}`)
			wants(ann, "up__common", "up__rare")
			wants(bob, "up__common")
			for method, params := range map[string]string{
				"skills/get":     `{"name":"up__rare"}`,
				"resources/read": `{"uri":"skill://up/rare/SKILL.md"}`,
				"tools/call":     `{"name":"load_skill","arguments":{"name":"up__rare"}}`,
			} {
				if m := mustCall(t, ann, method, params); !strings.Contains(string(m.Result), "Do it.") {
					t.Errorf("%s answers %s", method, m.Result)
				}
			}
			refused(t, bob, "skills/get", `{"name":"up__rare"}`, -32602)
			refused(t, ann, "skills/get", `{"name":"up__secret"}`, -32602)
			if m, _, err := ann.Call(deadline(t), "resources/read", `{"uri":"skill://up/secret/SKILL.md"}`); err != nil ||
				m.Error == nil {
				t.Errorf("a denied skill is read as a resource: %s, %v", m.Result, err)
			}
			if list := mustCall(t, ann, "resources/list", "{}"); strings.Contains(string(list.Result), "secret") {
				t.Errorf("a denied skill is listed as a resource: %s", list.Result)
			}
		})
	}
}
