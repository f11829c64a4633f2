package e2e

import (
	"fmt"
	"slices"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

//lint:file-ignore SA1019 what the newest revision deprecates still has to pass through

const oldest = "2024-11-05"

// The first revision over its own transport, with servers of each era.
func TestTheFirstRevision(t *testing.T) {
	t.Parallel()
	url, _ := shared(t)
	for _, p := range peers {
		t.Run(fmt.Sprintf("%s server over %s", p.revision, p.transport), func(t *testing.T) {
			c := connectSSE(t, url, oldest)
			if tools := listTools(t, c); !slices.Contains(tools, p.name+"__echo") {
				t.Errorf("tools %q", tools)
			}
			if got := c.text(t, p.name+"__echo", map[string]any{"text": "grüße"}); got != "grüße" {
				t.Errorf("echo says %q", got)
			}
			params := &sdk.CallToolParams{Name: p.name + "__count", Arguments: map[string]any{"to": 2}}
			params.SetProgressToken("a token")
			if _, err := c.CallTool(deadline(t), params); err != nil {
				t.Fatal(err)
			}
			for i := 1; i <= 2; i++ {
				if got := receive(t, "progress", c.progress); got.Progress != float64(i) || got.ProgressToken != "a token" ||
					got.Message != "" {
					t.Errorf("progress %+v", got)
				}
			}
			if got, want := c.text(t, p.name+"__sample", nil), "parrot: hello"; got != want {
				t.Errorf("sampling: %q, want %q", got, want)
			}
			if got, want := c.text(t, p.name+"__roots", nil), "file:///work"; got != want {
				t.Errorf("roots: %q, want %q", got, want)
			}
			// This revision has no elicitation, whatever its client declares.
			result, err := c.CallTool(deadline(t), &sdk.CallToolParams{Name: p.name + "__confirm"})
			if err == nil && !result.IsError || len(c.asked) > 0 {
				t.Errorf("elicitation: %+v, %v", result, err)
			}
			uri := p.name + "+test://static"
			if err := c.Subscribe(deadline(t), &sdk.SubscribeParams{URI: uri}); err != nil {
				t.Fatal(err)
			}
			c.text(t, p.name+"__touch", map[string]any{"uri": "test://static"})
			if got := receive(t, "an update", c.updated); got != uri {
				t.Errorf("updated %s, want %s", got, uri)
			}
		})
	}
}

// Closing the stream ends the session's calls and its sessions at servers. A server
// with a stream learns of it when the stream ends.
func TestAClosedStreamEndsAll(t *testing.T) {
	e := newEvents()
	t.Cleanup(e.server.Close)
	server := newPeer(statefulServer, e.happened)
	old, stop := serveSSE(server, false)
	t.Cleanup(stop)
	up := scripted(t, statefulServer)
	up.Tools("do")
	up.Tool("do", func(c *mcptest.Call) { c.Text("done") })
	url := start(t, gateway.Config{Upstreams: []upstream.Config{{Name: "old", URL: old}, {Name: "up", URL: up.URL}}})

	c, err := mcptest.OpenSSE(t.Context(), ownClient(t), ssePath(url), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Begin(t.Context(), oldest, `{}`); err != nil {
		t.Fatal(err)
	}
	if answer, err := c.Call(t.Context(), "tools/call", `{"name":"up__do"}`); err != nil || said(answer) != "done" {
		t.Fatalf("%s %v", answer.Text, err)
	}
	if err := c.Send(t.Context(), "9", "tools/call", `{"name":"old__wait","arguments":{"key":"k"}}`); err != nil {
		t.Fatal(err)
	}
	e.await(t, "started k")
	sessions := 0
	for range server.Sessions() {
		sessions++
	}
	// the client's, the catalog's and, for a while, another of it that declares nothing
	if sessions != 2 && sessions != 3 {
		t.Errorf("%d sessions at the server, want 2 or 3", sessions)
	}
	c.Close()
	e.await(t, "cancelled k")
	if _, err := up.Await(deadline(t), "the end of the session",
		func(r mcptest.Received) bool { return r.HTTP == "DELETE" }); err != nil {
		t.Error(err)
	}
}
