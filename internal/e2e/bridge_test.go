package e2e

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/bridge"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// bridged returns the transport of a client over a bridge, which ends with the test.
func bridged(t *testing.T, cfg bridge.Config) sdk.Transport {
	t.Helper()
	cfg.Log, cfg.Directory = slog.New(slog.NewTextHandler(t.Output(), nil)), t.TempDir()
	b, err := bridge.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	in, toBridge := io.Pipe()
	fromBridge, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- b.Run(t.Context(), in, out)
		out.Close()
	}()
	t.Cleanup(func() {
		toBridge.Close()
		fromBridge.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return &sdk.IOTransport{Reader: fromBridge, Writer: toBridge}
}

// TestBridge: a client of each era over a bridge, which signs its user in at the gateway's own authorization server.
func TestBridge(t *testing.T) {
	t.Parallel()
	s, issuer := scripted(t, statefulClient), newIssuer(t)
	s.Tools("ask")
	s.Tool("ask", func(c *mcptest.Call) {
		answer, err := c.Ask("elicitation/create", `{"message":"why?","requestedSchema":{"type":"object",`+
			`"properties":{"reason":{"type":"string"}}}}`)
		if err != nil {
			t.Error(err)
		}
		c.Text(string(answer.Result))
	})
	provide(issuer)
	at := guardWith(t, issuer, authServed(s, issuer)).url
	for _, revision := range []string{statefulClient, stateless} {
		t.Run(revision, func(t *testing.T) {
			opened := atomic.Int32{}
			c := newClient(revision)
			c.open(t, bridged(t, bridge.Config{URL: at, Open: func(page string) {
				opened.Add(1)
				go func() {
					tab := mcptest.NewTab(t, "alice")
					tab.Press(t.Context(), tab.Open(t.Context(), page, ""), "allow", "")
				}()
			}}))
			if got := c.text(t, "up__ask", nil); !strings.Contains(got, "it is time") || opened.Load() != 1 {
				t.Errorf("%q, and %d pages were opened", got, opened.Load())
			}
			<-c.asked
		})
	}
}

// TestBridgeOutlives: a client over a bridge does not notice that the gateway was started again.
func TestBridgeOutlives(t *testing.T) {
	t.Parallel()
	s := scripted(t, statefulClient)
	cfg := gateway.Config{Auth: auth.Config{Mode: auth.ModeNone}, Upstreams: []upstream.Config{{Name: "up", URL: s.URL}}}
	first, stop, err := run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var target atomic.Pointer[url.URL]
	lead := func(at string) {
		u, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		u.Path = ""
		target.Store(u)
	}
	lead(first.URL())
	transport := &http.Transport{DialContext: (&net.Dialer{}).DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	front := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target.Load()) },
		FlushInterval: -1, Transport: transport})
	t.Cleanup(front.Close) // after the end of the bridge
	c := newClient(statefulClient)
	c.open(t, bridged(t, bridge.Config{URL: front.URL + "/mcp"}))
	lead(start(t, cfg))
	stop()
	if _, err := c.ListTools(deadline(t), nil); err != nil {
		t.Error(err)
	}
	<-c.changed
}
