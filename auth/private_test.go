package auth_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// TestIssuerOfPrivateAuthority: an issuer with a certificate of a company is asked for
// metadata, keys, opaque tokens and sign-ins with tls.ca_file, and for nothing without it. A file that
// is put in place later is used without a restart.
func TestIssuerOfPrivateAuthority(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{TLS: true})
	file := filepath.Join(t.TempDir(), "ca.pem")
	settings := func(c *auth.Config) {
		asks(issuer)(c)
		c.Issuers[0].TLS.CAFile = file
	}
	without := newGate(t, asks(issuer), issuer)
	without.bearer(issuer.Token(nil)).expect(t, http.StatusServiceUnavailable)
	if _, err := without.Provider(t.Context(), issuer.URL); err == nil || !strings.Contains(err.Error(), "tls.ca_file") {
		t.Errorf("error %v, want one that names the key", err)
	}
	early := newGate(t, settings, issuer)
	if _, err := early.Provider(t.Context(), issuer.URL); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("error %v, want one that names the file", err)
	}
	certificate, err := os.ReadFile(mcptest.Certificates(t, issuer.Server()))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	issuer.SetMetadata("authorization_endpoint", issuer.URL+"/authorize")
	issuer.SetMetadata("token_endpoint", issuer.URL+"/token")
	if _, err := early.Provider(t.Context(), issuer.URL); err != nil {
		t.Errorf("with the file in place: %v", err)
	}
	g := newGate(t, settings, issuer)
	g.bearer(issuer.Token(nil)).expect(t, http.StatusOK)
	g.bearer(issuer.Opaque(nil)).expect(t, http.StatusOK)
}

// TestIssuerByProxy: metadata, keys and opaque tokens of an issuer come by its proxy.
func TestIssuerByProxy(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{TLS: true})
	at, err := url.Parse(issuer.URL)
	if err != nil {
		t.Fatal(err)
	}
	p := mcptest.NewForwardProxy(t, false)
	g := newGate(t, func(c *auth.Config) {
		asks(issuer)(c)
		c.Issuers[0].TLS.CAFile = mcptest.Certificates(t, issuer.Server())
		c.Issuers[0].Proxy = mcp.Secret(p.URL)
	}, issuer)
	g.bearer(issuer.Token(nil)).expect(t, http.StatusOK)
	g.bearer(issuer.Opaque(nil)).expect(t, http.StatusOK)
	for _, asked := range p.Asked() {
		if asked != "CONNECT "+at.Host {
			t.Errorf("the proxy was asked for %s", asked)
		}
	}
	if len(p.Asked()) == 0 {
		t.Error("the proxy was not used")
	}
}
