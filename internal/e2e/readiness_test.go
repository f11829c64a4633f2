package e2e

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// ready asks whether the gateway accepts new sessions, and why not.
func (g *guarded) ready(t *testing.T, query string) (status int, reasons []string) {
	t.Helper()
	resp := g.operator(t, http.MethodGet, "/readyz"+query, nil)
	defer resp.Body.Close()
	var answer struct{ Reasons []string }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, answer.Reasons
}

// TestReadyWithoutRoom: a gateway whose Redis accepts no new data begins no sessions, so it
// is not ready. For a balancer that excludes the store from its question, it stays ready.
func TestReadyWithoutRoom(t *testing.T) {
	t.Parallel()
	server, master := redistest.Start(t), redistest.Start(t)
	client := server.Client()
	defer client.Close()
	set := func(value string) {
		t.Helper()
		if err := client.ConfigSet(deadline(t), "maxmemory", value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	s := scripted(t, statefulServer)
	s.Tools("good")
	s.Tool("good", func(c *mcptest.Call) { c.Text("done") })
	cfg := gateway.Config{Admin: config.Admin{Listen: "127.0.0.1:0"},
		Upstreams: []upstream.Config{{Name: "up", URL: s.URL}}}
	cfg.Sessions.Store, cfg.Sessions.Redis.URL, cfg.Sessions.Key = "redis", mcp.Secret(server.URL()),
		mcp.Secret("0123456789abcdef0123456789abcdef")
	cfg.Replicas.Alone = true
	g := guard(t, cfg)
	known := g.raw(t, statefulClient, g.issuer.Token(nil))
	for _, tt := range []struct {
		name       string
		begin, end func()
		reason     string
	}{
		{"full", func() { set("1") }, func() { set("0") }, "the session store is full"},
		{"read-only", func() { server.Follow(t, master) }, func() { server.Lead(t) },
			"the session store does not answer, or takes no changes"},
	} {
		tt.begin()
		if status, reasons := g.ready(t, ""); status != http.StatusServiceUnavailable ||
			!slices.Equal(reasons, []string{tt.reason}) {
			t.Errorf("%s: %d %q", tt.name, status, reasons)
		}
		if status, reasons := g.ready(t, "?exclude=store"); status != http.StatusOK || reasons != nil {
			t.Errorf("%s, the store left out: %d %q", tt.name, status, reasons)
		}
		fresh := unopened(t, g.url, statefulClient)
		present(fresh, g.issuer.Token(nil))
		if err := fresh.Open(deadline(t)); err == nil || !strings.Contains(err.Error(), "503") {
			t.Errorf("%s, a new session: %v", tt.name, err)
		}
		mustCall(t, known, "tools/call", `{"name":"up__good"}`)
		g.scrape(t).want(t, map[string]float64{"redis_up": 0})
		tt.end()
		var status int
		var reasons []string
		again := time.NewTicker(50 * time.Millisecond) // after a failure there is a pause of a second
		for begun := time.Now(); status != http.StatusOK && time.Since(begun) < patience; <-again.C {
			status, reasons = g.ready(t, "")
		}
		again.Stop()
		if status != http.StatusOK {
			t.Errorf("%s, and over: %d %q", tt.name, status, reasons)
		}
		g.raw(t, statefulClient, g.issuer.Token(nil))
	}
}
