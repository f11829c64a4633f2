package e2e

import (
	"context"
	"slices"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestListChangesReachEveryClient: when a go-sdk server of either era gets a new
// tool, clients of both eras are notified and find it.
func TestListChangesReachEveryClient(t *testing.T) {
	t.Parallel()
	for _, revision := range []string{statefulServer, stateless} {
		t.Run("server "+revision, func(t *testing.T) {
			server := newPeer(revision, func(string) {})
			url, stop := serve(server, revision == stateless)
			t.Cleanup(stop)
			gateway := start(t, gateway.Config{Upstreams: []upstream.Config{{Name: "up", URL: url}}})
			clients := []*client{connect(t, gateway, statefulClient), connect(t, gateway, stateless)}
			for _, c := range clients {
				if got := listTools(t, c); slices.Contains(got, "up__new") {
					t.Fatalf("%q", got)
				}
			}
			sdk.AddTool(server, &sdk.Tool{Name: "new"}, func(context.Context, *sdk.CallToolRequest,
				struct{}) (*sdk.CallToolResult, any, error) {
				return says("brand new"), nil, nil
			})
			for _, c := range clients {
				receive(t, "notifications/tools/list_changed", c.changed)
				if got := listTools(t, c); !slices.Contains(got, "up__new") {
					t.Errorf("client %s: the new tool is not in %q", c.revision, got)
				}
				if got := c.text(t, "up__new", nil); got != "brand new" {
					t.Errorf("client %s: %q", c.revision, got)
				}
			}
		})
	}
}

// TestTheLastGoodListStays stops a server and starts it again.
func TestTheLastGoodListStays(t *testing.T) {
	s := scripted(t, statefulServer)
	s.Tools("do")
	s.Tool("do", func(c *mcptest.Call) { c.Text("ok") })
	c := raw(t, inFrontOf(t, s), stateless)
	s.SetDown(true)
	list, _, err := c.Call(deadline(t), "tools/list", "")
	if got := names(t, list, "tools"); err != nil || !slices.Equal(got, []string{"up__do"}) {
		t.Errorf("while it is down the list is %q, %v", got, err)
	}
	answer, _, err := c.Call(deadline(t), "tools/call", `{"name":"up__do"}`)
	if err != nil || answer.Error == nil {
		t.Errorf("while it is down the call gives %s, %v", answer.Text, err)
	}
	s.SetDown(false)
	if answer, _, err = c.Call(deadline(t), "tools/call", `{"name":"up__do"}`); err != nil || answer.Error != nil {
		t.Errorf("when it is back the call gives %s, %v", answer.Text, err)
	}
}

// TestManyClientsAtOnce is for the race detector: everything happens concurrently.
func TestManyClientsAtOnce(t *testing.T) {
	t.Parallel()
	url, _ := shared(t)
	var all sync.WaitGroup
	for _, revision := range []string{"2025-03-26", statefulServer, statefulClient, stateless} {
		for range 3 {
			c := raw(t, url, revision)
			for _, p := range peers {
				all.Go(func() {
					answer, before, err := c.Call(deadline(t), "tools/call",
						`{"name":"`+p.name+`__count","arguments":{"to":5},"_meta":{"progressToken":"`+p.name+`"}}`)
					// A client that has set no level gets all log messages.
					before = slices.DeleteFunc(before, func(m mcptest.Message) bool { return m.Method == "notifications/message" })
					if err != nil || said(answer) != "counted to 5" || len(before) != 5 {
						t.Errorf("%s %s: %s after %d events, %v", revision, p.name, answer.Text, len(before), err)
					}
					for _, m := range before {
						var token string
						if m.Param("progressToken", &token); token != p.name {
							t.Errorf("%s %s: %s", revision, p.name, m.Text)
						}
					}
				})
			}
		}
	}
	all.Wait()
}
