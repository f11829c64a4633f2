package safehttp

import (
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// TestProxyGetsCheckedAddress: a URL that the operator has not named reaches a proxy as an address
// that was checked here. No answer of the proxy's own resolver can lead it into the network.
func TestProxyGetsCheckedAddress(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {})
	p := mcptest.NewForwardProxy(t, false)
	route := trust(t, s)
	route.Proxy = mcp.Secret(p.URL)
	c := newClient(t, Options{Route: route, Trust: []string{"https://named.example.com"}})
	at := netip.MustParseAddr("93.184.215.14")
	c.public.dialer.Resolver = mcptest.Resolver(func() netip.Addr { return at })

	p.Lead("93.184.215.14:443", s.Listener.Addr().String())
	if _, err := get(t, c, "https://example.com/document"); err != nil { // s has a certificate for it
		t.Fatal(err)
	}
	p.Lead("[2606:4700::1]:443", s.Listener.Addr().String())
	at = netip.MustParseAddr("2606:4700::1")
	c.Close()
	if _, err := get(t, c, "https://example.com/document"); err != nil {
		t.Fatal(err)
	}
	for _, addr := range []string{"169.254.169.254", "127.0.0.1", "10.0.0.1", "fd00:ec2::254", "::1",
		"64:ff9b::a9fe:a9fe"} {
		at = netip.MustParseAddr(addr)
		c.Close()
		if _, err := get(t, c, "https://example.com/document"); !errors.Is(err, ErrForbidden) {
			t.Errorf("%s: %v", addr, err)
		}
		if _, err := get(t, c, "https://"+netip.AddrPortFrom(at, 443).String()+"/"); !errors.Is(err, ErrForbidden) {
			t.Errorf("%s itself: %v", addr, err)
		}
	}
	want := []string{"CONNECT 93.184.215.14:443", "CONNECT [2606:4700::1]:443"}
	if asked := p.Asked(); !slices.Equal(asked, want) {
		t.Errorf("the proxy was asked for %q", asked)
	}

	p.Lead("named.example.com:443", s.Listener.Addr().String()) // by name, since the operator named it
	_, err := get(t, c, "https://named.example.com/keys")
	if asked := p.Asked(); asked[len(asked)-1] != "CONNECT named.example.com:443" {
		t.Errorf("the proxy was asked for %q, error %v", asked, err)
	}
}

// TestProxyRefusesTokens: a refusal of the proxy is an error with its address, without credentials.
func TestProxyRefusesTokens(t *testing.T) {
	p := mcptest.NewForwardProxy(t, false)
	p.Want("Basic other")
	proxy := mcp.Secret(strings.Replace(p.URL, "://", "://me:open-sesame@", 1))
	c := newClient(t, Options{Route: egress.Config{Proxy: proxy}, Trust: []string{"https://login.example.com"}})
	_, err := get(t, c, "https://login.example.com/token")
	if refused, ok := errors.AsType[*egress.ProxyError](err); !ok || refused.Status != http.StatusProxyAuthRequired ||
		!strings.Contains(err.Error(), "the proxy at "+p.Listener.Addr().String()+" refused: 407 Proxy Authentication Required") ||
		strings.Contains(err.Error(), "sesame") {
		t.Errorf("error %v", err)
	}
}

// TestOwnCertificateIsForNamedHosts: the gateway shows its certificate to hosts that the operator has
// named, and to no others.
func TestOwnCertificateIsForNamedHosts(t *testing.T) {
	shown := make(map[bool]int) // whether a client has shown one
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		shown[len(r.TLS.PeerCertificates) > 0]++
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	s.StartTLS()
	t.Cleanup(s.Close)
	p := mcptest.NewForwardProxy(t, false)
	for _, host := range []string{"93.184.215.14:443", "example.com:443"} {
		p.Lead(host, s.Listener.Addr().String())
	}
	route := trust(t, s)
	route.Proxy = mcp.Secret(p.URL)
	route.TLS.CertFile, route.TLS.KeyFile = mcptest.KeyPair(t, s)
	for _, named := range []bool{true, false} {
		opts := Options{Route: route}
		if named {
			opts.Trust = []string{"https://example.com"}
		}
		c := newClient(t, opts)
		c.public.dialer.Resolver = mcptest.Resolver(func() netip.Addr { return netip.MustParseAddr("93.184.215.14") })
		if _, err := get(t, c, "https://example.com/"); err != nil {
			t.Fatal(err)
		}
		c.Close()
		if shown[named] != 1 {
			t.Errorf("named %t: certificates were shown: %v", named, shown)
		}
	}
}
