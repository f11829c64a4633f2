package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// newWorkshop starts a server whose tool enable adds the tool and the skill extra to the session in
// which it is called, and tells nobody of it.
func newWorkshop(t *testing.T) (url string) {
	t.Helper()
	type text struct {
		Text string `json:"text" jsonschema:"what it says"`
	}
	shop := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server {
		server := mcp.NewServer(&mcp.Implementation{Name: "workshop", Version: "1"},
			&mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{},
				Resources: &mcp.ResourceCapabilities{}}})
		mcp.AddTool(server, &mcp.Tool{Name: "enable"},
			func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
				mcp.AddTool(server, &mcp.Tool{Name: "extra", Description: "Says a text."},
					func(_ context.Context, _ *mcp.CallToolRequest, in text) (*mcp.CallToolResult, any, error) {
						return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Text}}}, nil, nil
					})
				const uri = "skill://extra/SKILL.md"
				server.AddResource(&mcp.Resource{Name: "extra", URI: uri},
					func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
						text := "---\nname: extra\ndescription: Says how.\n---\nDo it."
						return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, Text: text}}}, nil
					})
				return &mcp.CallToolResult{}, nil, nil
			})
		return server
	}, nil))
	t.Cleanup(shop.Close)
	t.Cleanup(shop.CloseClientConnections)
	return shop.URL
}

// wantOwnTool adds a tool to the client's session at the workshop, and checks that it is described.
func wantOwnTool(t *testing.T, c *mcptest.Client, name string) {
	t.Helper()
	must(t, "a description", c, "tools/call", `{"name":"describe_tools","arguments":{"names":["shop__enable"]}}`)
	must(t, "enabling a tool", c, "tools/call", `{"name":"shop__enable","arguments":{}}`)
	full := must(t, "a description", c, "tools/call", `{"name":"describe_tools","arguments":{"names":["shop__extra"]}}`)
	if !strings.Contains(full.Text, "what it says") {
		t.Errorf("%s: the tool of its session in full: %s", name, full.Text)
	}
	wantTool(t, c, name)
}

// wantTool checks that the client has the tool of its session, in short form, and can call it, and that
// it has the skill of its session.
func wantTool(t *testing.T, c *mcptest.Client, name string) {
	t.Helper()
	list := must(t, "the list", c, "tools/list", "{}")
	if !strings.Contains(list.Text, `"shop__extra"`) || strings.Contains(list.Text, "what it says") {
		t.Errorf("%s: the tool of its session in a list: %s", name, list.Text)
	}
	if m := must(t, "a tool of its session", c, "tools/call",
		`{"name":"shop__extra","arguments":{"text":"it works"}}`); textOf(m) != "it works" {
		t.Errorf("%s: the tool of its session: %s", name, m.Text)
	}
	if skills := must(t, "the skills", c, "skills/list", "{}"); !strings.Contains(skills.Text, `"shop__extra"`) {
		t.Errorf("%s: the skills of its session: %s", name, skills.Text)
	}
	if m := must(t, "a skill of its session", c, "skills/get",
		`{"name":"shop__extra"}`); !strings.Contains(m.Text, "Do it.") {
		t.Errorf("%s: the skill of its session: %s", name, m.Text)
	}
}
