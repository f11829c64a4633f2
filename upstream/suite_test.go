package upstream_test

import (
	"net/http/httptest"
	"os"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	for _, era := range []struct {
		name     string
		stateful bool
	}{{"stateful", true}, {"stateless", false}} {
		t.Run("streamable "+era.name, func(t *testing.T) {
			t.Parallel()
			upstreamtest.Run(t, era.stateful, func(t *testing.T) upstream.Config {
				server := httptest.NewServer(&upstreamtest.Server{Stateful: era.stateful})
				t.Cleanup(server.Close)
				return upstream.Config{URL: server.URL}
			})
		})
		t.Run("streamable by the standard client "+era.name, func(t *testing.T) {
			t.Parallel()
			upstreamtest.Run(t, era.stateful, func(t *testing.T) upstream.Config {
				server := httptest.NewServer(&upstreamtest.Server{Stateful: era.stateful})
				t.Cleanup(server.Close)
				return upstream.Config{URL: server.URL, HTTPClient: "standard"}
			})
		})
		t.Run("streamable over HTTP/2 "+era.name, func(t *testing.T) {
			t.Parallel()
			upstreamtest.Run(t, era.stateful, func(t *testing.T) upstream.Config {
				return upstream.Config{URL: newHTTP2(t, &upstreamtest.Server{Stateful: era.stateful}).URL}
			})
		})
		t.Run("stdio "+era.name, func(t *testing.T) {
			t.Parallel()
			upstreamtest.Run(t, era.stateful, func(t *testing.T) upstream.Config {
				return command(t, era.name)
			})
		})
	}
	for _, how := range []struct{ name, transport string }{{"HTTP+SSE", "sse"}, {"HTTP+SSE, found out", "auto"}} {
		t.Run(how.name, func(t *testing.T) {
			t.Parallel()
			upstreamtest.Run(t, true, func(t *testing.T) upstream.Config {
				server := httptest.NewServer((&upstreamtest.Server{Stateful: true}).SSE())
				t.Cleanup(server.Close)
				return upstream.Config{URL: server.URL + "/sse", Transport: how.transport}
			})
		})
	}
}

// command is the configuration that runs this binary as a stdio server.
func command(t *testing.T, role string) upstream.Config {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return upstream.Config{Name: "stdio", Command: []string{self}, Env: map[string]mcp.Secret{
		roleEnv:  mcp.Secret(role),
		"GORACE": "atexit_sleep_ms=0", // otherwise each process takes a second to end
	}}
}
