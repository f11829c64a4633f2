package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/view"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// shop is a gateway with two servers and the views sales and desk.
func shop(t *testing.T, more func(*gateway.Config)) *guarded {
	t.Helper()
	cfg := gateway.Config{Auth: auth.Config{RequiredScopes: []string{"mcp"}}}
	for _, name := range []string{"crm", "erp"} {
		cfg.Upstreams = append(cfg.Upstreams, upstream.Config{Name: name, URL: secretive(t, statefulServer).URL})
	}
	cfg.Policy = policy.Config{Default: policy.DefaultAllow,
		Rules: []policy.Rule{{Name: "no", Deny: []string{"tools:*/secret"}}}}
	cfg.Views = []view.Config{
		{Name: "sales", Show: []string{"tools:crm/*", "prompts:crm/open"}},
		{Name: "desk", Path: "/desk", Who: policy.Who{Groups: []string{"desk"}}, Show: []string{"*:erp/*"}},
	}
	if more != nil {
		more(&cfg)
	}
	return guard(t, cfg)
}

// at returns the gateway with the endpoint at another path.
func (g *guarded) at(path string) *guarded {
	view := *g
	view.url = strings.TrimSuffix(g.url, "/mcp") + path
	return &view
}

func (c *client) names(t *testing.T) string {
	t.Helper()
	tools, err := c.ListTools(deadline(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range tools.Tools {
		names = append(names, tool.Name)
	}
	return strings.Join(names, " ")
}

// TestViews: at each endpoint, clients of both eras see and may use what the view selects of
// what policy allows, and nothing else.
func TestViews(t *testing.T) {
	t.Parallel()
	g := shop(t, nil)
	clerk := g.issuer.Token(claims{"scope": "mcp", "groups": []string{"desk"}})
	for _, revision := range eras {
		t.Run(revision, func(t *testing.T) {
			for _, v := range []struct{ path, tools, prompts string }{
				{"/mcp", "crm__open erp__open", "crm__open crm__secret erp__open erp__secret"},
				{"/mcp/sales", "crm__open", "crm__open"},
				{"/desk", "erp__open", "erp__open erp__secret"},
			} {
				c := g.at(v.path).connect(t, revision, clerk)
				if got := c.names(t); got != v.tools {
					t.Errorf("%s lists the tools %s, want %s", v.path, got, v.tools)
				}
				var prompts []string
				for p, err := range c.Prompts(deadline(t), nil) {
					if err != nil {
						t.Fatal(err)
					}
					prompts = append(prompts, p.Name)
				}
				if got := strings.Join(prompts, " "); got != v.prompts {
					t.Errorf("%s lists the prompts %s, want %s", v.path, got, v.prompts)
				}
				for _, name := range []string{"crm__open", "erp__open"} {
					_, err := c.CallTool(deadline(t), &sdk.CallToolParams{Name: name})
					if shown := strings.Contains(v.tools, name); (err == nil) != shown {
						t.Errorf("%s: %s: %v", v.path, name, err)
					}
				}
				if v.path == "/mcp/sales" {
					if about := c.InitializeResult().Instructions; !strings.Contains(about, "## crm") ||
						strings.Contains(about, "## erp") {
						t.Errorf("the instructions are about other servers: %s", about)
					}
				}
			}
			// A name that the view hides is unknown, and so is everything else about it.
			c := g.at("/mcp/sales").raw(t, revision, clerk)
			for _, call := range []struct{ method, params, hidden, none string }{
				{"tools/call", `{"name":%q,"arguments":{}}`, "erp__open", "nil__open"},
				{"prompts/get", `{"name":%q}`, "crm__secret", "crm__nothin"},
				{"completion/complete", `{"ref":{"type":"ref/prompt","name":%q},"argument":{"name":"a","value":"b"}}`,
					"erp__open", "nil__open"},
				{"resources/read", `{"uri":%q}`, "crm+file:///docs/open", "nil+file:///docs/open"},
				{"resources/subscribe", `{"uri":%q}`, "crm+file:///docs/open", "nil+file:///docs/open"},
			} {
				got := wholeCall(t, c, call.method, fmt.Sprintf(call.params, call.hidden))
				want := wholeCall(t, c, call.method, fmt.Sprintf(call.params, call.none))
				if hide(got, call.hidden) != hide(want, call.none) {
					t.Errorf("%s of a hidden name:\n%s\nof an unknown one:\n%s", call.method, got, want)
				}
			}
			stranger := unopened(t, g.at("/desk").url, revision)
			present(stranger, g.issuer.Token(claims{"scope": "mcp"}))
			if err := stranger.Open(deadline(t)); revision == statefulClient &&
				(err == nil || !strings.Contains(err.Error(), "for other users")) {
				t.Errorf("a view for others is opened: %v", err)
			}
			if got := wholeCall(t, stranger, "tools/list", ""); !strings.HasPrefix(got, "403") {
				t.Errorf("a view for others lists its tools: %s", got)
			}
		})
	}
}

// TestViewChanges: a client hears of changes of what its view shows, and of no others.
func TestViewChanges(t *testing.T) {
	t.Parallel()
	shown, hidden := newPeer(stateless, func(string) {}), newPeer(stateless, func(string) {})
	g := shop(t, func(cfg *gateway.Config) {
		for name, server := range map[string]*sdk.Server{"shown": shown, "hidden": hidden} {
			url, stop := serve(server, true)
			t.Cleanup(stop)
			cfg.Upstreams = append(cfg.Upstreams, upstream.Config{Name: name, URL: url})
		}
		cfg.Views = []view.Config{{Name: "v", Show: []string{"tools:shown/new*"}},
			{Name: "other", Show: []string{"tools:hidden/*"}}}
	})
	token := g.issuer.Token(claims{"scope": "mcp"})
	add := func(server *sdk.Server, name string) {
		sdk.AddTool(server, &sdk.Tool{Name: name}, func(context.Context, *sdk.CallToolRequest,
			struct{}) (*sdk.CallToolResult, any, error) {
			return says(name), nil, nil
		})
	}
	var at, elsewhere []*client
	for _, revision := range eras {
		at = append(at, g.at("/mcp/v").connect(t, revision, token))
		elsewhere = append(elsewhere, g.at("/mcp/other").connect(t, revision, token))
	}
	add(hidden, "new")
	for _, c := range elsewhere {
		receive(t, "a change of what the other view shows", c.changed)
	}
	add(shown, "else") // which the view does not select
	add(shown, "new1")
	for _, c := range at {
		receive(t, "a change of what the view shows", c.changed)
		if got := c.names(t); got != "shown__new1" {
			t.Errorf("the view lists %s", got)
		}
		if len(c.changed) > 0 {
			t.Error("the client was told of a change that it cannot see")
		}
	}
}

// TestViewShape: a view names, describes and orders what it shows in its own way, and clients of
// both eras use it by these names.
func TestViewShape(t *testing.T) {
	g := shop(t, func(cfg *gateway.Config) {
		cfg.Views = []view.Config{
			{Name: "short", Show: []string{"*:crm/*", "tools:erp/open"}, DropPrefixes: true, Instructions: "Only sell.",
				Order: []string{"tools:erp/*"}, Descriptions: map[string]string{"tools:erp/open": "Opens the books."}},
			{Name: "brief", Show: []string{"tools:crm/*"}, DropPrefixes: true, Disclosure: view.Disclosure{Mode: "progressive"}},
		}
	})
	token := g.issuer.Token(claims{"scope": "mcp"})
	for _, revision := range eras {
		t.Run(revision, func(t *testing.T) {
			c := g.at("/mcp/short").connect(t, revision, token)
			if got := c.names(t); got != "erp__open crm__open" {
				t.Errorf("tools %s", got)
			}
			tools, err := c.ListTools(deadline(t), nil)
			if err != nil || tools.Tools[0].Description != "Opens the books." {
				t.Errorf("described as %q, %v", tools.Tools[0].Description, err)
			}
			if got := c.InitializeResult().Instructions; got != "Only sell." {
				t.Errorf("instructions %q", got)
			}
			for name, shown := range map[string]bool{"open": true, "crm__open": true, "secret": true, "erp__open": false,
				"none": false} {
				if _, err := c.GetPrompt(deadline(t), &sdk.GetPromptParams{Name: name}); (err == nil) != shown {
					t.Errorf("prompt %s: %v", name, err)
				}
			}

			c = g.at("/mcp/brief").connect(t, revision, token)
			if got := c.names(t); got != "describe_tools open" {
				t.Errorf("tools in short: %s", got)
			}
			for i, want := range []string{"TOOL_DESCRIPTION_REQUIRED", "ran open"} {
				result, err := c.CallTool(deadline(t), &sdk.CallToolParams{Name: "open"})
				if err != nil || !strings.Contains(result.Content[0].(*sdk.TextContent).Text, want) {
					t.Errorf("call %d of a tool in short: %v, %v; want %s", i, result, err, want)
				}
			}
		})
	}
}

// hide removes a name and what depends on its call from an answer.
func hide(answer, name string) string {
	lines := strings.Split(strings.ReplaceAll(answer, name, "NAME"), "\n")
	return strings.Join(slices.DeleteFunc(lines,
		func(line string) bool { return strings.HasPrefix(line, "Content-Length") }), "\n")
}

// TestViewSessions: a session exists only at the endpoint where it began, and so do the state of
// a question and the stream of HTTP+SSE.
func TestViewSessions(t *testing.T) {
	t.Parallel()
	var s *mcptest.Server
	g := shop(t, func(cfg *gateway.Config) {
		s = scripted(t, statefulServer)
		s.Tools("ask")
		s.Tool("ask", func(c *mcptest.Call) {
			c.Ask("elicitation/create", `{"message":"really?","requestedSchema":{"type":"object","properties":{}}}`)
			c.Text("done")
		})
		cfg.Upstreams = append(cfg.Upstreams, upstream.Config{Name: "asks", URL: s.URL})
		cfg.Views[0].Show = append(cfg.Views[0].Show, "tools:asks/*")
	})
	token := g.issuer.Token(claims{"scope": "mcp", "groups": []string{"desk"}})
	paths := []string{"/mcp", "/mcp/sales", "/desk"}
	for _, from := range paths {
		c := g.at(from).raw(t, statefulClient, token)
		for _, to := range paths {
			other := as(t, c, token)
			other.URL = g.at(to).url
			want := "200"
			if to != from {
				want = "404"
			}
			if got := wholeCall(t, other, "ping", ""); !strings.HasPrefix(got, want) {
				t.Errorf("a session of %s at %s: %s", from, to, got)
			}
			if to == from {
				continue
			}
			for _, verb := range []string{"GET", "DELETE"} {
				if got := wholeAnswer(t, other, verb, "", http.Header{"Accept": {"text/event-stream"}}); !strings.HasPrefix(got,
					"404") {
					t.Errorf("%s of a session of %s at %s: %s", verb, from, to, got)
				}
			}
		}
	}

	c := g.at("/mcp/sales").rawWith(t, stateless, token, `{"elicitation":{"form":{}}}`)
	asked := mustCall(t, c, "tools/call", `{"name":"asks__ask","arguments":{}}`)
	var state string
	var requests map[string]json.RawMessage
	if !asked.Value("requestState", &state) || !asked.Value("inputRequests", &requests) || len(requests) != 1 {
		t.Fatalf("no question: %s", asked.Text)
	}
	var key string
	for key = range requests {
	}
	retry := fmt.Sprintf(`{"name":"asks__ask","arguments":{},"requestState":%q,"inputResponses":{%q:{"action":"accept","content":{}}}}`, state, key)
	elsewhere := as(t, c, token)
	elsewhere.URL = g.url
	if got := wholeCall(t, elsewhere, "tools/call", retry); !strings.Contains(got,
		"not one that was given to this client") {
		t.Errorf("the state of a question at another endpoint: %s", got)
	}
	if got := said(mustCall(t, c, "tools/call", retry)); got != "done" {
		t.Errorf("the answer at its own endpoint: %s", got)
	}
}

// TestViewSSE: a view has HTTP+SSE of its own.
func TestViewSSE(t *testing.T) {
	g := shop(t, nil)
	token := g.issuer.Token(claims{"scope": "mcp"})
	c := newClient(statefulServer)
	c.open(t, &sdk.SSEClientTransport{Endpoint: g.at("/mcp/sales/sse").url,
		HTTPClient: &http.Client{Transport: bearer{token, ownClient(t).Transport}}})
	if got := c.names(t); got != "crm__open" {
		t.Errorf("the view lists %s over HTTP+SSE", got)
	}
}

// TestViewTokens: a token for the gateway is good at all views, and a token for a view there
// alone. The metadata of each endpoint name it as the resource.
func TestViewTokens(t *testing.T) {
	t.Parallel()
	g := shop(t, nil)
	sales, desk := g.at("/mcp/sales"), g.at("/desk")
	groups := []string{"desk"}
	for _, tt := range []struct {
		name string
		aud  any
		good string // paths
	}{
		{"for the gateway", g.url, "/mcp /mcp/sales /desk"},
		{"for a view", sales.url, "/mcp/sales"},
		{"for another view", desk.url, "/desk"},
		{"for two views", []string{sales.url, desk.url}, "/mcp/sales /desk"},
		{"for the gateway and a view", []string{g.url, sales.url}, "/mcp /mcp/sales /desk"},
		{"for a path that is no view", g.url + "/nothing", ""},
	} {
		token := g.issuer.Token(claims{"scope": "mcp", "groups": groups, "aud": tt.aud})
		for _, path := range []string{"/mcp", "/mcp/sales", "/desk", "/mcp"} { // from the cache, too
			c := unopened(t, g.at(path).url, stateless)
			present(c, token)
			x, err := c.Send(deadline(t), "tools/list", "")
			if err != nil {
				t.Fatal(err)
			}
			want := http.StatusUnauthorized
			if slices.Contains(strings.Fields(tt.good), path) {
				want = http.StatusOK
			}
			if x.Status != want {
				t.Errorf("a token %s at %s: %d, want %d", tt.name, path, x.Status, want)
			}
			metadata := strings.TrimSuffix(g.url, "/mcp") + "/.well-known/oauth-protected-resource" + path
			if challenge := x.Header.Get("WWW-Authenticate"); want == http.StatusUnauthorized &&
				!strings.Contains(challenge, `resource_metadata="`+metadata+`"`) {
				t.Errorf("the challenge of %s: %s", path, challenge)
			}
			x.Close()
			resp, err := ownClient(t).Get(metadata)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			var document struct{ Resource string }
			if err != nil || json.Unmarshal(body, &document) != nil || document.Resource != g.at(path).url {
				t.Errorf("the metadata of %s: %s, %v", path, body, err)
			}
		}
	}
}
