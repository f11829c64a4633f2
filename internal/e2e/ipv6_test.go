package e2e

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestIPv6: clients, gateway and servers of both eras meet at ::1. The gateway reports the
// address at which it listens, and accepts it as a Host.
func TestIPv6(t *testing.T) {
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "[::1]:0")
		if err != nil {
			t.Skipf("this machine has no IPv6: %v", err) // as in some containers
		}
		return l
	}
	cfg := gateway.Config{Listen: "[::1]:0", Admin: config.Admin{Listen: "[::1]:0"}}
	for _, revision := range []string{statefulServer, stateless} {
		server := scripted(t, revision)
		server.Tools("do")
		server.Tool("do", func(c *mcptest.Call) { c.Text("done") })
		there := &httptest.Server{Listener: listen(), Config: &http.Server{Handler: server}}
		there.Start()
		t.Cleanup(there.Close)
		cfg.Upstreams = append(cfg.Upstreams, upstream.Config{Name: fmt.Sprint("up", revision[:4]), URL: there.URL + "/mcp"})
	}
	g, err := gateway.New(gateway.Options{Config: cfg, Log: slog.New(slog.DiscardHandler), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	untilTheEnd(t, g)
	if url := g.URL(); !strings.HasPrefix(url, "http://[::1]:") {
		t.Fatalf("it serves at %s", url)
	}
	for _, revision := range eras {
		c := raw(t, g.URL(), revision)
		for _, u := range cfg.Upstreams {
			if got := said(mustCall(t, c, "tools/call", `{"name":"`+u.Name+`__do"}`)); got != "done" {
				t.Errorf("client %s at %s: %s", revision, u.Name, got)
			}
		}
	}
	resp, err := http.Get("http://" + g.AdminAddr().String() + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("/readyz: %s", resp.Status)
	}
}
