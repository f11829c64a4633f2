package gateway

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// TestUserAgent: servers, hooks, sinks of records and collectors of traces are told the gateway's version.
func TestUserAgent(t *testing.T) {
	site, err := url.Parse(newSite(t, true, one("work", saying("x"))).url)
	if err != nil {
		t.Fatal(err)
	}
	type seen struct{ path, agent string }
	requests, proxy := make(chan seen, 1000), httputil.NewSingleHostReverseProxy(site)
	outside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests <- seen{r.URL.Path, r.UserAgent()}
		switch r.URL.Path {
		case "/hook":
			io.WriteString(w, `{"action":"pass"}`)
		case "/mcp":
			r.URL.Path = "/"
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(outside.Close)
	c := startUnwatched(t, fmt.Sprintf(`upstreams: [{name: up, url: %[1]q}]
policy: {default: allow}
hooks: [{name: dlp, http: {url: %[2]q}}]
audit: {sinks: [{type: webhook, url: %[3]q}]}
tracing: {endpoint: %[4]q, sample: 1}
`, outside.URL+"/mcp", outside.URL+"/hook", outside.URL+"/records", outside.URL))
	if _, err := connect(t, c.Gateway, stateless).CallTool(t.Context(),
		&sdk.CallToolParams{Name: "up__work", Arguments: map[string]any{"a": "b"}}); err != nil {
		t.Fatal(err)
	}
	for waits := map[string]bool{"/mcp": true, "/hook": true, "/records": true, "/v1/traces": true}; len(waits) > 0; {
		got := <-requests
		if delete(waits, got.path); got.agent != mcp.UserAgent() {
			t.Errorf("%s is told %q", got.path, got.agent)
		}
	}
}
