package outbound

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const authServerURL = "https://auth.chat.example/"

// assertionOf is an ID-JAG; members replace those of a good one, nil takes one out.
func assertionOf(typ string, members map[string]any) string {
	claims := map[string]any{
		"iss": issuerURL, "sub": "U1", "aud": authServerURL, "client_id": "gate-at-chat", "resource": upstreamURL,
		"jti": "1", "iat": time.Now().Unix(), "exp": time.Now().Add(5 * time.Minute).Unix(),
	}
	maps.Copy(claims, members)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	text, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	part := base64.RawURLEncoding.EncodeToString
	return part([]byte(`{"alg":"RS256","typ":"`+typ+`"}`)) + "." + part(text) + ".c2ln"
}

// idJAG makes credentials with an identity provider that gives this assertion, and the upstream's
// authorization server.
func idJAG(t *testing.T, assertion string, members map[string]any) (c *Credentials, log interface{ String() string },
	provider, server *tokenServer) {
	t.Helper()
	provider, server = newTokenServer(t, false), newTokenServer(t, false)
	provider.answers(func(w http.ResponseWriter, _ tokenRequest) {
		all := map[string]any{"access_token": assertion, "token_type": "N_A", "issued_token_type": tokenTypePrefix + "id-jag",
			"expires_in": 300}
		maps.Copy(all, members)
		give(w, all)
	})
	server.answers(func(w http.ResponseWriter, _ tokenRequest) {
		give(w, map[string]any{"access_token": "of-the-server", "expires_in": 3600, "issued_token_type": nil})
	})
	cfg := userConfig(provider)
	cfg.Type, cfg.AuthorizationServer, cfg.Scopes = TypeIDJAG, authServerURL, []string{"chat.read", "chat.history"}
	cfg.Grant = Grant{TokenURL: server.URL, ClientID: "gate-at-chat", ClientSecret: "other " + secret}
	c, log = newCredentials(t, cfg, egress.Config{})
	return c, log, provider, server
}

// TestIDJAG: both requests have what they have to have, and nothing else; the user's token goes to
// the provider only, the assertion to the authorization server only.
func TestIDJAG(t *testing.T) {
	t.Parallel()
	jag := assertionOf(jagTyp, nil)
	c, log, provider, server := idJAG(t, jag, nil)
	if !c.PerUser() {
		t.Error("want a credential for each user")
	}
	for range 2 {
		if got, _ := authorization(t, c, caller("alice", "tok-alice")); got != "Bearer of-the-server" {
			t.Errorf("got %q", got)
		}
	}
	for name, tt := range map[string]struct {
		at     *tokenServer
		client string
		secret string
		form   map[string]string
	}{
		"the exchange": {provider, clientID, secret, map[string]string{
			"grant_type": grantExchange, "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
			"audience": authServerURL, "resource": upstreamURL,
			"scope": "chat.read chat.history", "subject_token": "tok-alice",
			"subject_token_type": tokenTypePrefix + "access_token",
		}},
		"the grant": {server, "gate-at-chat", "other " + secret, map[string]string{
			"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": jag, "resource": upstreamURL,
		}},
	} {
		got := tt.at.requests()
		if len(got) != 1 {
			t.Fatalf("%s: %d requests, want one", name, len(got))
		}
		if got[0].user != tt.client || got[0].secret != tt.secret || len(got[0].form) != len(tt.form) {
			t.Errorf("%s: client %q, form %v", name, got[0].user, got[0].form)
		}
		for key, want := range tt.form {
			if got[0].form.Get(key) != want {
				t.Errorf("%s: %s is %q, want %q", name, key, got[0].form.Get(key), want)
			}
		}
	}
	if strings.Contains(log.String(), "tok-alice") || strings.Contains(log.String(), jag) {
		t.Errorf("the log has a token: %s", log)
	}
}

// TestIDJAGForeign: an assertion for somebody else goes nowhere.
func TestIDJAGForeign(t *testing.T) {
	t.Parallel()
	good := func(members map[string]any) string { return assertionOf(jagTyp, members) }
	for _, tt := range []struct {
		name      string
		assertion string
		answer    map[string]any
		ok        bool
	}{
		{"good", good(nil), nil, true},
		{"without a resource", good(map[string]any{"resource": nil}), nil, true},
		{"for one audience, in a list", good(map[string]any{"aud": []string{authServerURL}}), nil, true},
		{"of another provider", good(map[string]any{"iss": "https://evil.example"}), nil, false},
		{"for another authorization server", good(map[string]any{"aud": "https://evil.example"}), nil, false},
		{"for two of them", good(map[string]any{"aud": []string{authServerURL, "https://evil.example"}}), nil, false},
		{"for nobody", good(map[string]any{"aud": nil}), nil, false},
		{"for another client", good(map[string]any{"client_id": "other"}), nil, false},
		{"for no client", good(map[string]any{"client_id": nil}), nil, false},
		{"for another server", good(map[string]any{"resource": "https://other.example/mcp"}), nil, false},
		{"that has ended", good(map[string]any{"exp": time.Now().Add(-time.Second).Unix()}), nil, false},
		{"without an end", good(map[string]any{"exp": nil}), nil, false},
		{"of another type", assertionOf("at+jwt", nil), nil, false},
		{"no JWT", "opaque", nil, false},
		{"the user's own token", "tok-alice", nil, false},
		{"issued as an access token", good(nil), map[string]any{"issued_token_type": tokenTypePrefix + "access_token"},
			false},
		{"to be used as one", good(nil), map[string]any{"token_type": "Bearer"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, log, _, server := idJAG(t, tt.assertion, tt.answer)
			if tt.ok {
				authorization(t, c, caller("alice", "tok-alice"))
				return
			}
			got := why(t, c, caller("alice", "tok-alice"))
			if !strings.Contains(got, "not a usable token") || len(server.requests()) > 0 {
				t.Errorf("got %q, %d requests for a token", got, len(server.requests()))
			}
			if strings.Contains(got+log.String(), "tok-alice") {
				t.Errorf("the user's token is shown: %s %s", got, log)
			}
		})
	}
}

// TestIDJAGRefused: what either endpoint says no to.
func TestIDJAGRefused(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{true, false} {
		c, log, provider, server := idJAG(t, assertionOf(jagTyp, nil), nil)
		at := server
		if first {
			at = provider
		}
		at.answers(func(w http.ResponseWriter, r tokenRequest) {
			refuse(w, http.StatusBadRequest, "access_denied", "no: "+r.form.Get("subject_token")+r.form.Get("assertion"))
		})
		for range 2 {
			if got := why(t, c, caller("alice", "tok-alice")); !strings.Contains(got,
				"your token could not be exchanged for one (access_denied)") {
				t.Errorf("got %q", got)
			}
		}
		if n := len(provider.requests()); n != 1 {
			t.Errorf("asked %d times", n)
		}
		if strings.Contains(log.String(), "tok-alice") || strings.Contains(log.String(), ".c2ln") {
			t.Errorf("the log has a token: %s", log)
		}
	}
	c, _, _, server := idJAG(t, assertionOf(jagTyp, nil), nil)
	server.answers(func(w http.ResponseWriter, r tokenRequest) {
		give(w, map[string]any{"access_token": r.form.Get("assertion"), "issued_token_type": nil})
	})
	if got := why(t, c, caller("alice", "tok-alice")); !strings.Contains(got, "not a usable token") {
		t.Errorf("got %q: the assertion is no token", got)
	}
}

// TestIDJAGServerDown: while the authorization server of the upstream has a problem, the provider is
// not asked for assertions that nobody takes.
func TestIDJAGServerDown(t *testing.T) {
	t.Parallel()
	c, _, provider, server := idJAG(t, assertionOf(jagTyp, nil), nil)
	server.answers(func(w http.ResponseWriter, _ tokenRequest) { refuse(w, http.StatusServiceUnavailable, "", "") })
	for _, name := range []string{"alice", "bob", "alice"} {
		if got := why(t, c, caller(name, "tok-"+name)); !strings.Contains(got, "has a problem (HTTP 503)") {
			t.Errorf("got %q", got)
		}
	}
	if asked, traded := len(provider.requests()), len(server.requests()); asked != 1 || traded != 1 {
		t.Errorf("the provider was asked %d times, the server %d times", asked, traded)
	}
}

func TestIDJAGConfig(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"good":                    {func(*Config) {}, ""},
		"no authorization server": {func(c *Config) { c.AuthorizationServer = "" }, "authorization_server: is needed"},
		"no resource": {func(c *Config) { c.Resource = new(string) },
			"resource: type id_jag cannot leave it out"},
		"no endpoint": {func(c *Config) { c.Grant.TokenURL = "" }, "grant: token_url: is needed"},
		"an endpoint by http": {func(c *Config) { c.Grant.TokenURL = "http://a.example" },
			"grant: token_url: http is only for loopback"},
		"no client":              {func(c *Config) { c.Grant.ClientID = "" }, "grant: client_id and client_secret"},
		"no secret":              {func(c *Config) { c.Grant.ClientSecret = "" }, "grant: client_id and client_secret"},
		"another way to send it": {func(c *Config) { c.Grant.ClientAuth = authJWT }, "grant: client_auth"},
		"no issuer":              {func(c *Config) { c.Issuer = "" }, "issuer: is needed for type id_jag"},
		"an audience":            {func(c *Config) { c.Audience = "a" }, "audience: is for type"},
		"a grant for another type": {func(c *Config) { c.Type, c.AuthorizationServer = TypeTokenExchange, "" },
			"grant: is for type id_jag"},
	} {
		c := Config{
			Type: TypeIDJAG, TokenURL: "https://i.example/token", Issuer: issuerURL, ClientID: "g",
			ClientSecret: mcp.Secret(secret), AuthorizationServer: authServerURL,
			Grant: Grant{TokenURL: "https://a.example/token", ClientID: "g", ClientSecret: "s"},
		}
		tt.change(&c)
		if err := c.Validate(); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
}
