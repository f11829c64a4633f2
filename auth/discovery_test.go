package auth_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// Metadata are found where OpenID Connect has them, or where RFC 8414 has.
func TestDiscovery(t *testing.T) {
	for _, path := range []string{"", "/", "/tenant", "/tenant/v2.0", "/tenant/"} {
		t.Run(path, func(t *testing.T) {
			issuer := newIssuer(t, mcptest.IssuerOptions{Path: path})
			newGate(t, nil, issuer).bearer(issuer.Token(nil)).expect(t, 200)
			if n := issuer.Fetches(mcptest.EndpointMetadata); n != 0 {
				t.Errorf("%d fetches of a second document", n)
			}
			issuer.Break(mcptest.EndpointOpenID, mcptest.Status(404))
			newGate(t, nil, issuer).bearer(issuer.Token(nil)).expect(t, 200)
			if n := issuer.Fetches(mcptest.EndpointMetadata); n != 1 {
				t.Errorf("%d fetches of the second document", n)
			}
		})
	}
}

// A page for people is no document: the next place is asked.
func TestPageForPeople(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{Path: "/tenant"})
	page := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<!doctype html>") }
	issuer.Break(mcptest.EndpointOpenID, page)
	newGate(t, nil, issuer).bearer(issuer.Token(nil)).expect(t, 200)
	issuer.Break(mcptest.EndpointMetadata, page)
	g := newGate(t, nil, issuer)
	g.bearer(issuer.Token(nil)).expect(t, 503)
	if s := g.Status()[0]; !strings.Contains(s.Reason, "has no JSON") {
		t.Errorf("%+v", s)
	}
}

// An issuer whose keys the operator names needs no metadata.
func TestKeysByConfiguration(t *testing.T) {
	issuer, other := newIssuer(t, mcptest.IssuerOptions{}), newIssuer(t, mcptest.IssuerOptions{})
	issuer.Break(mcptest.EndpointOpenID, mcptest.Status(500))
	issuer.Break(mcptest.EndpointMetadata, mcptest.Status(500))
	g := newGate(t, func(c *auth.Config) { c.Issuers[0].JWKSURL = other.URLOf(mcptest.EndpointJWKS) }, issuer)
	g.bearer(other.Token(claims{"iss": issuer.URL})).expect(t, 200)
	g.bearer(issuer.Token(nil)).expect(t, 401, invalidToken)
	if n := issuer.Fetches(mcptest.EndpointOpenID); n != 0 {
		t.Errorf("the metadata were fetched %d times", n)
	}
}

// Metadata that are of somebody else, or lead where nobody should be sent.
func TestBadMetadata(t *testing.T) {
	inside := newIssuer(t, mcptest.IssuerOptions{}) // not what the operator wrote, and not public
	tests := []struct {
		name, member string
		value        any
		reason       string
	}{
		{"another issuer", "issuer", "https://login.example.com", "of another issuer"},
		{"a path", "issuer", inside.URL + "//", "of another issuer"},
		{"no issuer", "issuer", nil, "of another issuer"},
		{"keys on http", "jwks_uri", "http://login.example.com/jwks", "not a URL that may be asked"},
		{"keys on a loopback address", "jwks_uri", inside.URLOf(mcptest.EndpointJWKS), "not allowed"},
		{"keys at a name of a loopback address", "jwks_uri",
			strings.Replace(inside.URLOf(mcptest.EndpointJWKS), "127.0.0.1", "localhost", 1), "not allowed"},
		{"keys on another loopback address", "jwks_uri", "https://127.0.0.2:1/jwks", "not allowed"},
		{"keys on a private address", "jwks_uri", "https://10.0.0.1/jwks", "not allowed"},
		{"keys at the cloud's metadata", "jwks_uri", "https://169.254.169.254/jwks", "not allowed"},
		{"keys in a file", "jwks_uri", "file:///etc/passwd", "not a URL that may be asked"},
		{"keys with credentials", "jwks_uri", "https://u:p@login.example.com/jwks", "not a URL that may be asked"},
		{"no keys", "jwks_uri", nil, "do not say where the keys are"},
		{"keys that are no text", "jwks_uri", 1, "not a URL that may be asked"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			issuer := newIssuer(t, mcptest.IssuerOptions{})
			issuer.SetMetadata(tt.member, tt.value)
			g := newGate(t, nil, issuer)
			g.bearer(issuer.Token(nil)).expect(t, 503)
			if s := g.Status()[0]; s.State != auth.StateDown || !strings.Contains(s.Reason, tt.reason) ||
				strings.Contains(s.Reason, "u:p") {
				t.Errorf("got status %+v, want %q", s, tt.reason)
			}
		})
	}
	if n := inside.Fetches(mcptest.EndpointJWKS); n != 0 {
		t.Errorf("keys were fetched inside of the network %d times", n)
	}
}

// The last good keys stay when the metadata turn bad.
func TestLastGoodKeysStay(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{})
	g := newGate(t, nil, issuer)
	g.bearer(issuer.Token(nil)).expect(t, 200)
	issuer.SetMetadata("issuer", "https://login.example.com")
	issuer.SetMetadata("jwks_uri", "http://10.0.0.1/")
	issuer.Break(mcptest.EndpointJWKS, mcptest.Status(500))
	g.bearer(forged(issuer, 1)[0]).expect(t, 503)
	g.bearer(issuer.Token(nil)).expect(t, 200)
}

// The protected resource metadata, for everybody.
func TestMetadata(t *testing.T) {
	tests := []struct {
		public string
		paths  []string
	}{
		{"https://gw.example.com/mcp", []string{"/.well-known/oauth-protected-resource",
			"/.well-known/oauth-protected-resource/mcp"}},
		{"https://gw.example.com/mcp/eng/", []string{"/.well-known/oauth-protected-resource",
			"/.well-known/oauth-protected-resource/mcp/eng/"}},
		{"https://gw.example.com/", []string{"/.well-known/oauth-protected-resource"}},
		{"https://gw.example.com", []string{"/.well-known/oauth-protected-resource"}},
		{"http://127.0.0.1:8080/mcp", []string{"/.well-known/oauth-protected-resource",
			"/.well-known/oauth-protected-resource/mcp"}},
	}
	cfg := auth.Config{Mode: auth.ModeOAuth, RequiredScopes: []string{"mcp", "x"},
		Issuers: []auth.Issuer{{URL: "https://a.example/t"}, {URL: "https://b.example"}}}
	for _, tt := range tests {
		t.Run(tt.public, func(t *testing.T) {
			a, err := auth.New(cfg, auth.Deps{PublicURL: tt.public})
			if err != nil {
				t.Fatal(err)
			}
			if got := a.MetadataPaths(); strings.Join(got, " ") != strings.Join(tt.paths, " ") {
				t.Fatalf("got paths %q, want %q", got, tt.paths)
			}
			r := httptest.NewRequest(http.MethodGet, "http://evil.example"+tt.paths[len(tt.paths)-1], nil)
			r.Header.Set("X-Forwarded-Host", "evil.example")
			w := httptest.NewRecorder()
			a.Metadata().ServeHTTP(w, r)
			want := `{"resource":"` + tt.public +
				`","authorization_servers":["https://a.example/t","https://b.example"],"bearer_methods_supported":["header"],"scopes_supported":["mcp","x"]}`
			if w.Code != 200 || w.Body.String() != want || w.Header().Get("Content-Type") != "application/json" ||
				w.Header().Get("Access-Control-Allow-Origin") != "*" ||
				!strings.Contains(w.Header().Get("Cache-Control"), "max-age=") {
				t.Errorf("got %d %v %s, want %s", w.Code, w.Header(), w.Body, want)
			}
			if strings.Contains(w.Body.String(), "offline_access") {
				t.Error("offline_access is told")
			}
			// Metadata of the authorization server are not served here, against what
			// clients of 2025-03-26 look for: the issue that settles this gateway's
			// authorization has them at the issuer alone. A copy at another host would be one
			// whose issuer does not match (RFC 8414 §3.3), which is how mix-up attacks look.
			for _, path := range a.MetadataPaths() {
				if strings.Contains(path, "authorization-server") || strings.Contains(path, "openid") {
					t.Errorf("%s is served", path)
				}
			}
		})
	}
	a, err := auth.New(cfg, auth.Deps{PublicURL: publicURL})
	if err != nil {
		t.Fatal(err)
	}
	for method, want := range map[string]int{"HEAD": 200, "OPTIONS": 204, "POST": 405, "DELETE": 405} {
		w := httptest.NewRecorder()
		a.Metadata().ServeHTTP(w, httptest.NewRequest(method, publicURL, nil))
		if w.Code != want || w.Header().Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: got %d", method, w.Code)
		}
	}
	cfg.RequiredScopes = nil
	if a, err = auth.New(cfg, auth.Deps{PublicURL: publicURL}); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	a.Metadata().ServeHTTP(w, httptest.NewRequest(http.MethodGet, publicURL, nil))
	if strings.Contains(w.Body.String(), "scopes_supported") {
		t.Errorf("scopes without any: %s", w.Body)
	}
}

// Mode none has nothing to tell, and needs no issuer to be ready.
func TestModeNone(t *testing.T) {
	a, err := auth.New(auth.Config{}, auth.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	a.Metadata().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/.well-known/oauth-protected-resource", nil))
	if ok, reason := a.Ready(); w.Code != 404 || len(a.MetadataPaths()) != 0 || !ok || reason != "" {
		t.Errorf("got %d, paths %q, ready %t %q", w.Code, a.MetadataPaths(), ok, reason)
	}
	g := &gate{Auth: a}
	g.handler = a.Require(g)
	got := g.call("Bearer eyJ.a.b")
	got.expect(t, 200)
	if _, has := got.passed.Header["Authorization"]; has || got.caller.Token != "" || got.caller.Subject != "" {
		t.Errorf("credentials get through mode none: %v %+v", got.passed.Header, got.caller)
	}
}

// New refuses what it could not keep its promises with.
func TestNew(t *testing.T) {
	good := auth.Config{Mode: auth.ModeOAuth, Issuers: []auth.Issuer{{URL: "https://a.example"}}}
	for name, tt := range map[string]struct {
		cfg    auth.Config
		public string
		want   string
	}{
		"a bad configuration":  {auth.Config{Mode: "x"}, publicURL, "auth: mode"},
		"no public URL":        {good, "", "public_url"},
		"a public URL in http": {good, "http://gateway.example/mcp", "public_url"},
	} {
		if _, err := auth.New(tt.cfg, auth.Deps{PublicURL: tt.public}); err == nil ||
			!strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
