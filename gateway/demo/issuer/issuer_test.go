package issuer

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

// TestLoopbackOnly: an issuer cannot be made for an address that other machines can reach.
func TestLoopbackOnly(t *testing.T) {
	for _, tt := range []struct {
		url  string
		good bool
	}{
		{"http://127.0.0.1:9000", true},
		{"http://127.1.2.3:9000", true},
		{"http://[::1]:9000", true},
		{"http://localhost:9000", false},
		{"http://0.0.0.0:9000", false},
		{"http://[::]:9000", false},
		{"http://10.0.0.1:9000", false},
		{"http://192.0.2.1:9000", false},
		{"https://127.0.0.1:9000", false},
		{"http://127.0.0.1:9000/", false},
		{"http://127.0.0.1:9000/tenant", false},
		{"http://127.0.0.1:9000?x", false},
		{"http://u@127.0.0.1:9000", false},
		{"http://127.0.0.1.example.com:9000", false},
		{"", false},
	} {
		if _, err := New(testConfig(tt.url), Deps{}); (err == nil) != tt.good {
			t.Errorf("%q: %v", tt.url, err)
		}
	}
}

func TestOtherMachinesAndNamesAreRefused(t *testing.T) {
	s, err := New(testConfig("http://127.0.0.1:9000"), Deps{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, from, host string
		want             int
	}{
		{"this machine", "127.0.0.1:4000", "127.0.0.1:9000", http.StatusOK},
		{"this machine by IPv6", "[::1]:4000", "127.0.0.1:9000", http.StatusOK},
		{"this machine, IPv4 as IPv6", "[::ffff:127.0.0.1]:4000", "127.0.0.1:9000", http.StatusOK},
		{"another machine", "192.0.2.1:4000", "127.0.0.1:9000", http.StatusForbidden},
		{"no address", "@", "127.0.0.1:9000", http.StatusForbidden},
		{"a name that was made to resolve to us", "127.0.0.1:4000", "evil.example:9000", http.StatusMisdirectedRequest},
		{"another port", "127.0.0.1:4000", "127.0.0.1:9001", http.StatusMisdirectedRequest},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, path := range []string{"/", jwksPath} {
				r := httptest.NewRequest(http.MethodGet, path, nil)
				r.RemoteAddr, r.Host = tt.from, tt.host
				w := httptest.NewRecorder()
				s.ServeHTTP(w, r)
				if w.Code != tt.want {
					t.Errorf("%s: %d, want %d", path, w.Code, tt.want)
				}
			}
		})
	}
}

func TestValidateConfig(t *testing.T) {
	good := func() Config { return testConfig("http://127.0.0.1:9000") }
	for _, tt := range []struct {
		name string
		with func(*Config)
		want string
	}{
		{"as it is", func(*Config) {}, ""},
		{"no resources", func(c *Config) { c.Resources = nil }, "resources: at least one"},
		{"a resource that is no URI", func(c *Config) { c.Resources = []string{"/mcp"} }, `"/mcp" is not a resource`},
		{"a resource with a fragment", func(c *Config) { c.Clients[0].Exchange = []string{"http://a/b#c"} }, "without a fragment"},
		{"no users", func(c *Config) { c.Users = nil }, "users: at least one"},
		{"a user without a name", func(c *Config) { c.Users[0].Name = "" }, "users[0]: subject and name"},
		{"a user twice", func(c *Config) { c.Users[1].Subject = "alice" }, `users[1]: subject "alice" is taken`},
		{"a client without a secret", func(c *Config) { c.Clients[0].Secret = "" }, "clients[0]: id and secret"},
		{"a client called like a user", func(c *Config) { c.Clients[0].ID = "bob" }, `clients[0]: id "bob" is the subject`},
		{"a scope with a space", func(c *Config) { c.Scopes[0].Name = "a b" }, "is not a scope"},
		{"a lifetime below zero", func(c *Config) { c.Lifetime = -1 }, "negative"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := good()
			tt.with(&cfg)
			err := cfg.Validate()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestMetadata(t *testing.T) {
	s := start(t, Deps{})
	oauth, openid := s.get(t, "/.well-known/oauth-authorization-server"), s.get(t, "/.well-known/openid-configuration")
	if oauth.body != openid.body || oauth.StatusCode != http.StatusOK {
		t.Errorf("two documents:\n%s\n%s", oauth.body, openid.body)
	}
	var m map[string]any
	if err := json.Unmarshal([]byte(oauth.body), &m); err != nil {
		t.Fatal(err)
	}
	if m["issuer"] != s.URL() || m["client_id_metadata_document_supported"] != false ||
		m["authorization_response_iss_parameter_supported"] != true {
		t.Errorf("metadata: %s", oauth.body)
	}
	for _, a := range []answer{oauth, openid, s.get(t, jwksPath)} {
		if a.Header.Get("Access-Control-Allow-Origin") != "*" || a.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: headers %v", a.Request.URL.Path, a.Header)
		}
	}
	if strings.Contains(s.get(t, jwksPath).body, `"d"`) {
		t.Error("the private key is published")
	}
}

func TestCORS(t *testing.T) {
	s := start(t, Deps{})
	for path, open := range map[string]bool{
		"/.well-known/oauth-authorization-server": true, tokenPath: true, registerPath: true, revokePath: true,
		authorizePath: false, "/": false,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodOptions, s.http.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Origin", "http://localhost:6274")
		a := s.do(t, r)
		if got := a.Header.Get("Access-Control-Allow-Origin") == "*"; got != open {
			t.Errorf("%s: open to scripts %t, want %t", path, got, open)
		}
		if open && (a.StatusCode != http.StatusNoContent || !strings.Contains(a.Header.Get("Access-Control-Allow-Headers"), "Authorization")) {
			t.Errorf("%s: %d %v", path, a.StatusCode, a.Header)
		}
	}
}

// TestTokensPassOtherPeoplesChecks verifies the tokens with go-oidc, over two rotations.
func TestTokensPassOtherPeoplesChecks(t *testing.T) {
	s := start(t, Deps{})
	provider, err := oidc.NewProvider(oidc.ClientContext(t.Context(), s.client), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	ctx := oidc.ClientContext(t.Context(), s.client)
	verify := func(token string) (*oidc.IDToken, error) { // a new one each time, because it caches keys for ever
		return provider.VerifierContext(ctx, &oidc.Config{ClientID: resource}).Verify(ctx, token)
	}
	first, err := s.Token("alice", resource, "mcp")
	if err != nil {
		t.Fatal(err)
	}
	token, err := verify(first)
	if err != nil {
		t.Fatal(err)
	}
	var got claims
	if err := token.Claims(&got); err != nil {
		t.Fatal(err)
	}
	if got.Subject != "alice" || got.Audience != resource || got.Scope != "mcp" || got.Groups[0] != "engineering" ||
		got.Email != "alice@example.com" || !got.EmailVerified || got.ID == "" || got.ClientID == "" {
		t.Errorf("claims: %+v", got)
	}
	for rotation, want := range []bool{true, false} {
		if err := s.Rotate(); err != nil {
			t.Fatal(err)
		}
		if _, err := verify(first); (err == nil) != want {
			t.Errorf("rotation %d: the first token: %v", rotation+1, err)
		}
		next, err := s.Token("bob", resource)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := verify(next); err != nil {
			t.Errorf("rotation %d: a new token: %v", rotation+1, err)
		}
	}
	again, err := s.Token("bob", resource, "mcp")
	if err != nil {
		t.Fatal(err)
	}
	if who, err := s.Verify(again, resource); err != nil || who.Subject != "bob" || who.Scopes[0] != "mcp" || time.Until(who.Expires) > 5*time.Minute {
		t.Errorf("verified: %+v, %v", who, err)
	}
	if _, err := s.Verify(again, upstream); err == nil {
		t.Error("a token for somebody else was good")
	}
	if _, err := s.Token("mallory", resource); err != ErrNoUser {
		t.Errorf("a token for nobody: %v", err)
	}
}

func TestAbout(t *testing.T) {
	s := start(t, Deps{})
	a := s.get(t, "/")
	for _, want := range []string{"For development only", "Alice", "Bob", resource, s.URL()} {
		if !strings.Contains(a.body, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if got := s.get(t, "/nothing").StatusCode; got != http.StatusNotFound {
		t.Errorf("a path that is not there: %d", got)
	}
}

func TestBodiesAreBounded(t *testing.T) {
	s := start(t, Deps{})
	big := `{"client_name":"` + strings.Repeat("x", maxBody) + `","redirect_uris":["` + callback + `"]}`
	if a := s.postBody(t, registerPath, big, "Content-Type: application/json"); a.StatusCode != http.StatusBadRequest {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}
