package e2e

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/pinning"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestManyTools: a server with 20,000 tools is listed, pinned and called like any other one.
func TestManyTools(t *testing.T) {
	mcptest.Long(t)
	const many = 20_000
	server := sdk.NewServer(&sdk.Implementation{Name: "many", Version: "1"}, &sdk.ServerOptions{PageSize: 1000})
	for i := range many {
		server.AddTool(&sdk.Tool{Name: fmt.Sprintf("t%05d", i), Description: "Does one thing of many.",
			InputSchema: map[string]any{"type": "object"}}, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return says(r.Params.Name), nil
		})
	}
	url, stop := serveBy(server, sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	t.Cleanup(stop)
	for _, mode := range []string{"full", "progressive"} {
		cfg := gateway.Config{
			Upstreams: []upstream.Config{{Name: "up", URL: url, Disclosure: upstream.Disclosure{Mode: mode}}},
			Pinning:   pinning.Config{Mode: pinning.Block, File: filepath.Join(t.TempDir(), "gatehouse.lock")},
		}
		lockAll(t, cfg)
		c := newClient(statefulClient)
		c.open(t, &sdk.StreamableClientTransport{Endpoint: start(t, cfg), HTTPClient: ownClient(t)})
		if got := listTools(t, c); len(got) < many || len(got) > many+1 || got[len(got)-1] != "up__t19999" {
			t.Errorf("%s: %d tools are listed", mode, len(got))
		}
		if mode == "progressive" {
			c.text(t, "up__t19999", nil) // which describes it
		}
		if got := c.text(t, "up__t19999", nil); got != "t19999" {
			t.Errorf("%s: it answered %q", mode, got)
		}
	}
}
