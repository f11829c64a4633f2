package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// workshop is a go-sdk server whose tool enable adds the tools extra and secret to the session
// in which it is called.
type workshop struct {
	url string

	mu      sync.Mutex
	servers []*sdk.Server // one for each session
}

// newWorkshop starts a workshop. A silent one does not tell that its tools change.
func newWorkshop(t *testing.T, silent bool) *workshop {
	t.Helper()
	w := &workshop{}
	options := &sdk.ServerOptions{SupportedProtocolVersions: []string{statefulServer}}
	if silent {
		options.Capabilities = &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}}
	}
	url, stop := serveBy(sdk.NewServer(&sdk.Implementation{Name: "none", Version: "1"}, nil),
		sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server {
			server := sdk.NewServer(&sdk.Implementation{Name: "workshop", Version: "1"}, options)
			sdk.AddTool(server, &sdk.Tool{Name: "enable"},
				func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
					for _, name := range []string{"extra", "secret"} {
						sdk.AddTool(server, &sdk.Tool{Name: name}, echo)
					}
					return says("enabled"), nil, nil
				})
			w.mu.Lock()
			defer w.mu.Unlock()
			w.servers = append(w.servers, server)
			return server
		}, nil))
	w.url = url
	t.Cleanup(stop)
	t.Cleanup(w.forget)
	return w
}

// forget ends all sessions.
func (w *workshop) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, server := range w.servers {
		for session := range server.Sessions() {
			session.Close()
		}
	}
}

func toolsAt(t *testing.T, c *mcptest.Client) (names []string) {
	t.Helper()
	m := mustCall(t, c, "tools/list", "{}")
	var list struct{ Tools []struct{ Name string } }
	if err := json.Unmarshal(m.Result, &list); err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	return names
}

// TestSessionLists: the tools that a server adds to one client's session are that client's
// alone, as far as policy lets it have them, until the session ends.
func TestSessionLists(t *testing.T) {
	t.Parallel()
	for _, revision := range []string{statefulClient, stateless} {
		for _, silent := range []bool{false, true} {
			name := revision + " told"
			if silent {
				name = revision + " not told"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel() // each waits until changes of lists settle
				w := newWorkshop(t, silent)
				url := start(t, gateway.Config{
					Upstreams: []upstream.Config{{Name: "up", URL: w.url}},
					Policy:    policy.Config{Rules: []policy.Rule{{Name: "r", Allow: []string{"tools:up/enable", "tools:up/extra"}}}},
				})
				ann, bob := newClient(revision), newClient(revision)
				ann.name, bob.name = "ann", "bob"
				for _, c := range []*client{ann, bob} {
					c.open(t, &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: ownClient(t)})
				}
				wants := func(c *client, want ...string) {
					t.Helper()
					if got := listTools(t, c); !slices.Equal(got, want) {
						t.Errorf("%s has %q, want %q", c.name, got, want)
					}
				}
				wants(ann, "up__enable")
				for _, c := range []*client{ann, bob} {
					if c.text(t, "up__enable", nil); !silent {
						receive(t, "that the tools changed", c.changed)
					}
				}
				wants(ann, "up__enable", "up__extra")
				wants(bob, "up__enable", "up__extra")
				if got := ann.text(t, "up__extra", map[string]any{"text": "hi"}); got != "hi" {
					t.Errorf("it answered %q", got)
				}
				carl := newClient(revision)
				carl.name = "carl"
				carl.open(t, &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: ownClient(t)})
				wants(carl, "up__enable")
				_, err := carl.CallTool(deadline(t), &sdk.CallToolParams{Name: "up__extra"})
				wantCode(t, "a tool of another session", err, mcp.CodeInvalidParams)
				_, err = ann.CallTool(deadline(t), &sdk.CallToolParams{Name: "up__secret"})
				wantCode(t, "a denied tool", err, mcp.CodeInvalidParams)
				if silent {
					return
				}
				if n := len(carl.changed); n > 0 {
					t.Errorf("another client was told %d times", n)
				}
				w.forget()
				for slices.Contains(listTools(t, ann), "up__extra") {
					receive(t, "that the tools changed again", ann.changed)
				}
			})
		}
	}
}

// TestReplicasShareSessionLists: whichever replica a client lists at, it sees the tools of its
// session, and so it does after another replica has taken the session over.
func TestReplicasShareSessionLists(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, true)
	r := replicated(t, func(c *gateway.Config) {
		c.Upstreams = []upstream.Config{{Name: "up", URL: w.url}}
	})
	u, stop := r.another(t)
	const want = "up__enable up__extra up__secret"
	var clients []*mcptest.Client
	for _, revision := range []string{statefulClient, stateless} {
		c := unopened(t, u, revision)
		c.Name, c.Caps = "ann", askable
		if err := c.Open(deadline(t)); err != nil {
			t.Fatal(err)
		}
		other := rawWith(t, u, revision, askable)
		mustCall(t, c, "tools/call", `{"name":"up__enable","arguments":{}}`)
		for n := range 3 {
			if got := strings.Join(toolsAt(t, r.at(c, n)), " "); got != want {
				t.Errorf("client %s at replica %d has %s", revision, n, got)
			}
			if got := strings.Join(toolsAt(t, r.at(other, n)), " "); got != "up__enable" {
				t.Errorf("another client %s at replica %d has %s", revision, n, got)
			}
		}
		clients = append(clients, c)
	}
	stop()
	for _, c := range clients {
		for n := range 3 {
			if got := strings.Join(toolsAt(t, r.at(c, n)), " "); got != want {
				t.Errorf("after the takeover client %s at replica %d has %s", c.Revision.Name, n, got)
			}
		}
		mustCall(t, r.at(c, 1), "tools/call", `{"name":"up__extra","arguments":{"text":"x"}}`)
	}
}

// TestSessionListsInShort: a tool that only one client's session has is disclosed like any other, to
// that client alone, until the session ends.
func TestSessionListsInShort(t *testing.T) {
	t.Parallel()
	for _, revision := range []string{statefulClient, stateless} {
		t.Run(revision, func(t *testing.T) {
			t.Parallel() // each waits until changes of lists settle
			w := newWorkshop(t, false)
			url := start(t, inShort(upstream.Config{Name: "up", URL: w.url}))
			ann, bob := newClient(revision), newClient(revision)
			ann.name, bob.name = "ann", "bob"
			for _, c := range []*client{ann, bob} {
				c.open(t, &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: ownClient(t)})
			}
			asks := func(c *client, name string) map[string]any {
				t.Helper()
				return descriptions(t, c.text(t, "describe_tools", map[string]any{"names": []string{name}}))[name]
			}
			for _, c := range []*client{ann, bob} { // both have a session at the server
				asks(c, "up__enable")
			}
			ann.text(t, "up__enable", nil)
			receive(t, "that the tools changed", ann.changed)
			var extra *sdk.Tool
			for tool, err := range ann.Tools(deadline(t), nil) {
				if err != nil {
					t.Fatal(err)
				}
				if tool.Name == "up__extra" {
					extra = tool
				}
			}
			if extra == nil {
				t.Fatal("the tool is not listed")
			}
			if schema, err := json.Marshal(extra.InputSchema); err != nil ||
				string(schema) != `{"additionalProperties":true,"type":"object"}` {
				t.Errorf("in short it takes %s, %v", schema, err)
			}
			hello := func() *sdk.CallToolParams { // go-sdk writes into them who the client is
				return &sdk.CallToolParams{Name: "up__extra", Arguments: map[string]any{"text": "hi"}}
			}
			early, err := ann.CallTool(deadline(t), hello())
			if err != nil || !early.IsError || !strings.Contains(textOf(t, early), "TOOL_DESCRIPTION_REQUIRED") {
				t.Errorf("before it was described: %+v, %v", early, err)
			}
			schema, _ := asks(ann, "up__extra")["inputSchema"].(map[string]any)
			if properties, _ := schema["properties"].(map[string]any); properties["text"] == nil {
				t.Errorf("in full it takes %v", schema)
			}
			if got := ann.text(t, "up__extra", map[string]any{"text": "hi"}); got != "hi" {
				t.Errorf("it answered %q", got)
			}
			wantNone := func(c *client) {
				t.Helper()
				if got := asks(c, "up__extra")["error"]; got != "Tool 'up__extra' not found" {
					t.Errorf("%s is told %v", c.name, got)
				}
				_, err := c.CallTool(deadline(t), hello())
				wantCode(t, "a tool that the session does not have", err, mcp.CodeInvalidParams)
			}
			if slices.Contains(listTools(t, bob), "up__extra") {
				t.Error("another client is shown it")
			}
			wantNone(bob)
			w.forget()
			for slices.Contains(listTools(t, ann), "up__extra") {
				receive(t, "that the tools changed again", ann.changed)
			}
			wantNone(ann)
		})
	}
}
