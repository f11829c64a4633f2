package egress_test

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// authorityOf writes the certificate of a test server into a file.
func authorityOf(t *testing.T, s *httptest.Server) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// proxyOf returns the proxy of a route to a server.
func proxyOf(t *testing.T, r *egress.Route, server string) *egress.Proxy {
	t.Helper()
	to, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	p, err := r.Proxy(to)
	if err != nil || p == nil {
		t.Fatalf("proxy %v, %v", p, err)
	}
	return p
}

func TestTunnel(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	at := server.Listener.Addr().String()
	for _, secure := range []bool{false, true} {
		through := mcptest.NewForwardProxy(t, secure)
		through.Want("Basic " + "dXNlcjpwYXNzd29yZA==")
		named := strings.Replace(through.URL, "://", "://user:password@", 1)
		r := egress.New(egress.Config{Proxy: mcp.Secret(named), TLS: egress.TLS{CAFile: authorityOf(t, server)},
			URL: server.URL})
		conn, err := proxyOf(t, r, server.URL).Tunnel(t.Context(), new(net.Dialer).DialContext, at)
		if err != nil {
			t.Fatal(err)
		}
		secured, err := r.Secure(t.Context(), conn, "127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		secured.Close()
		stranger := egress.New(egress.Config{Proxy: mcp.Secret(through.URL), URL: server.URL})
		conn, err = proxyOf(t, stranger, server.URL).Tunnel(t.Context(), new(net.Dialer).DialContext, at)
		if err == nil {
			conn.Close()
			t.Error("a proxy that wants a password lets a stranger through")
		}
		refused, ok := errors.AsType[*egress.ProxyError](err)
		if !secure && (!ok || refused.Status != http.StatusProxyAuthRequired) {
			t.Errorf("refused with %v", err)
		}
	}
}

// TestOwnCertificateIsNotForProxies: the gateway's certificate is for the server, not for the proxy before it.
func TestOwnCertificateIsNotForProxies(t *testing.T) {
	shown := make(chan int, 1)
	proxy := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown <- len(r.TLS.PeerCertificates)
		w.WriteHeader(http.StatusForbidden)
	}))
	proxy.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	proxy.StartTLS()
	defer proxy.Close()
	cert, key := mcptest.NewAuthority(t).Issue(t, "gateway", time.Hour)
	r := egress.New(egress.Config{
		Proxy: mcp.Secret(proxy.URL),
		TLS:   egress.TLS{CAFile: authorityOf(t, proxy), CertFile: cert, KeyFile: key},
		URL:   "https://crm.example",
	})
	p := proxyOf(t, r, "https://crm.example")
	if _, err := p.Tunnel(t.Context(), new(net.Dialer).DialContext, "crm.example:443"); err == nil {
		t.Error("a refusal is a tunnel")
	}
	if n := <-shown; n != 0 {
		t.Errorf("the proxy was shown %d certificates", n)
	}
}
