package gateway

import (
	"io"
	"log"
	"log/slog"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway/trial"
	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestTrialTellsRoute: a check tells each server's certificate and proxy, and what is missing.
func TestTrialTellsRoute(t *testing.T) {
	at, err := url.Parse(startPeer(t, false, says("x")).url)
	if err != nil {
		t.Fatal(err)
	}
	behind := at.Path
	at.Path = ""
	s := httptest.NewUnstartedServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(at) }})
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	p := mcptest.NewForwardProxy(t, false)
	proxy := mcp.Secret(strings.Replace(p.URL, "://", "://me:open-sesame@", 1))
	trusting := egress.TLS{CAFile: mcptest.Certificates(t, s)}
	reports, _, _, err := trial.Connect(t.Context(), Inspector("1", slog.New(slog.DiscardHandler)),
		Config{Proxy: proxy, Upstreams: []upstream.Config{
			{Name: "direct", URL: s.URL + behind, TLS: trusting},
			{Name: "proxied", URL: s.URL + behind, TLS: trusting, Proxy: proxy},
			{Name: "strange", URL: s.URL + behind, Proxy: proxy},
		}}, "")
	if err != nil || len(reports) != 3 {
		t.Fatalf("%v, %d reports; want 3", err, len(reports))
	}
	const certificate = `of "example.com" (until 2084-01-29, issued by "O=Acme Co")`
	address := p.Listener.Addr().String()
	for i, want := range []trial.Report{
		{State: "up", Certificate: certificate},
		{State: "up", Certificate: certificate, Proxy: address},
		{State: "down", Proxy: address},
	} {
		got := reports[i]
		if got.State != want.State || got.Certificate != want.Certificate || got.Proxy != want.Proxy {
			t.Errorf("%s: %+v", got.Name, got)
		}
	}
	for _, part := range []string{certificate, "through the proxy at " + address, `the authority "O=Acme Co"`,
		"tls.ca_file"} {
		if !strings.Contains(reports[2].Error, part) {
			t.Errorf("the error %q has no %q", reports[2].Error, part)
		}
	}
	if strings.Contains(reports[2].Error, "sesame") {
		t.Error("the error tells the credentials")
	}
}
