package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/tlsfiles"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestAddresses: what listens where without authentication, and the URL and hosts that follow from it.
func TestAddresses(t *testing.T) {
	some := tlsfiles.Server{CertFile: "cert.pem", KeyFile: "key.pem"}
	for _, tt := range []struct {
		listen string
		tls    tlsfiles.Server
		url    string
		want   string // of the mistake; "" for none
	}{
		{"127.0.0.1:80", tlsfiles.Server{}, "http://127.0.0.1:80/mcp", ""},
		{"127.0.0.1:443", some, "https://127.0.0.1:443/mcp", ""},
		{"0.0.0.0:443", some, "https://0.0.0.0:443/mcp", "without authentication"},
		{"unix:/run/mcp.sock", tlsfiles.Server{}, "http://localhost/mcp", ""},
		{"unix:/run/mcp.sock", some, "https://localhost/mcp", ""},
		{"unix:mcp.sock", tlsfiles.Server{}, "http://localhost/mcp", "absolute path"},
		{"systemd", tlsfiles.Server{}, "http://localhost/mcp", ""},
		{"systemd:mcp", tlsfiles.Server{}, "http://localhost/mcp", ""},
		{"socket:mcp", tlsfiles.Server{}, "http://socket:mcp/mcp", "want a number"},
		{"127.0.0.1:443", tlsfiles.Server{CertFile: "cert.pem"}, "https://127.0.0.1:443/mcp", "tls: key_file: is missing"},
	} {
		c := Config{Listen: tt.listen, TLS: tt.tls, Upstreams: []upstream.Config{{Name: "a", URL: "https://a.example.com"}}}
		err := c.Validate()
		if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.listen, err, tt.want)
		}
		c = c.WithDefaults()
		if c.PublicURL != tt.url {
			t.Errorf("%s: %s, want %s", tt.listen, c.PublicURL, tt.url)
		}
		if hosts := c.Hosts(); slices.Contains(hosts, "unix") || slices.Contains(hosts, "systemd") {
			t.Errorf("%s: hosts %v", tt.listen, hosts)
		}
	}
}

// TestACMENeedsState: certificates that are ordered have a place that outlives the gateway, and an address of its own
// for proofs.
func TestACMENeedsState(t *testing.T) {
	acme := &tlsfiles.ACME{Domains: []string{"mcp.example.com"}, AcceptTerms: true, HTTPListen: "127.0.0.1:80"}
	c := Config{Listen: "127.0.0.1:443", TLS: tlsfiles.Server{ACME: acme}}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "state: directory: acme needs it") {
		t.Errorf("error %v", err)
	}
	c.State.Directory = "/var/lib/gatehouse"
	if err := c.Validate(); err == nil || strings.Contains(err.Error(), "acme") { // there are no upstreams
		t.Errorf("error %v", err)
	}
	c.Listen, c.Admin.TLS = "127.0.0.1:80", tlsfiles.Server{ACME: &tlsfiles.ACME{HTTPListen: "80"}}
	err := c.Validate()
	for _, want := range []string{"tls.acme.http_listen: 127.0.0.1:80: listen is there already",
		"admin.tls.acme.http_listen: \"80\"",
		"admin.tls: acme: domains"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// TestTLSWaitsForARestart: other files for a listener wait for a restart, with the URL that follows from them.
func TestTLSWaitsForARestart(t *testing.T) {
	holds := Config{Listen: "127.0.0.1:80"}.WithDefaults()
	next := holds
	next.PublicURL, next.TLS = "", tlsfiles.Server{CertFile: "cert.pem", KeyFile: "key.pem"}
	now, err := UntilRestart(next, holds)
	if err == nil || !strings.HasPrefix(err.Error(), "tls: waits") || strings.Contains(err.Error(), "public_url") {
		t.Errorf("error %v", err)
	}
	if !now.TLS.IsZero() || now.PublicURL != holds.PublicURL {
		t.Errorf("%+v %s", now.TLS, now.PublicURL)
	}
}
