package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/view"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestReplicasViews: a request that is forwarded to the owner of a session comes to the same
// view there, and the endpoint and a view have nothing in common of a client.
func TestReplicasViews(t *testing.T) {
	t.Parallel()
	d := &desktop{Server: mcptest.NewSSEServer(wire.Lookup(statefulServer)), counts: make(map[string]int)}
	t.Cleanup(d.Close)
	d.Tools("add", "hidden")
	d.On("tools/call", func(c *mcptest.Call) { c.Text(fmt.Sprint(d.add(c.Session))) })
	r := replicated(t, func(cfg *gateway.Config) {
		cfg.Upstreams = []upstream.Config{{Name: "up", URL: d.URL}}
		cfg.Views = []view.Config{{Name: "v", Show: []string{"tools:up/add"}}}
	})
	other := map[string]string{"": "/v", "/v": ""}
	at := func(c *mcptest.Client, replica int, path string) *mcptest.Client {
		there := r.at(c, replica)
		there.URL += path
		return there
	}
	for _, revision := range eras {
		for _, path := range []string{"/v", ""} {
			c := rawWith(t, r.url+path, revision, "{}")
			for n := range 6 {
				there := at(c, n%3, path)
				wantCount(t, fmt.Sprintf("client %s at replica %d%s", revision, n%3, path), there, n+1)
				if path == "" {
					continue
				}
				if m, _, err := there.Call(deadline(t), "tools/call", `{"name":"up__hidden","arguments":{}}`); err != nil ||
					m.Error == nil {
					t.Errorf("client %s at replica %d%s calls what the view hides: %s, %v", revision, n%3, path, m.Text, err)
				}
			}
			for n := range 3 {
				if revision == stateless {
					continue
				}
				if got := wholeCall(t, at(c, n, other[path]), "ping", ""); !strings.HasPrefix(got, "404") {
					t.Errorf("a session of the path %q at another one of replica %d: %s", path, n, got)
				}
			}
		}
	}

	c, err := mcptest.OpenSSE(t.Context(), ownClient(t), r.url+"/v/sse", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if answer, err := c.Begin(deadline(t), "2024-11-05", "{}"); err != nil || answer.Error != nil {
		t.Fatal(answer.Text, err)
	}
	for n := range 6 { // at all replicas
		answer, err := c.Call(deadline(t), "tools/call", toAdd)
		if err != nil || outcome(answer) != fmt.Sprint(n+1) {
			t.Errorf("call %d over HTTP+SSE: %s, %v", n, answer.Text, err)
		}
		for i, replica := range r.urls {
			elsewhere := strings.TrimSuffix(replica, "/mcp") + strings.Replace(c.Endpoint, "/mcp/v", "", 1)
			if status, text := postTo(t, elsewhere, `{"jsonrpc":"2.0","id":1,"method":"ping"}`); status != http.StatusNotFound {
				t.Errorf("a message for the view's stream at the endpoint's path of replica %d: %d %s", i, status, text)
			}
		}
	}
}
