package outbound

import (
	"crypto"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

func TestFixed(t *testing.T) {
	for _, tt := range []struct {
		name        string
		cfg         Config
		key, header string
	}{
		{"none", Config{}, "", ""},
		{"header", Config{Type: TypeHeader, Header: "x-api-key", Token: "k 1"}, "X-Api-Key", "k 1"},
		{"bearer", Config{Type: TypeBearer, Token: "abc"}, "Authorization", "Bearer abc"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, log := newCredentials(t, tt.cfg, egress.Config{})
			h := http.Header{}
			stamp, err := c.Authorize(t.Context(), mcp.Caller{}, h)
			if err != nil || h.Get(tt.key) != tt.header || tt.key == "" && len(h) > 0 {
				t.Errorf("got %v, %v", h, err)
			}
			if c.PerUser() || c.refused(mcp.Caller{}, stamp, 401, `Bearer error="invalid_token", realm="abc k 1"`) {
				t.Error("there is no other credential")
			}
			if got := log.String(); tt.key != "" && (strings.Contains(got, "abc") && tt.name == "bearer" ||
				strings.Contains(got, "k 1") && tt.name == "header") {
				t.Errorf("the log shows the credential: %s", got)
			}
		})
	}
}

// Resource is in every token request.
func TestClientCredentials(t *testing.T) {
	empty, resource := "", "https://api.example.com/"
	for _, tt := range []struct {
		name   string
		tls    bool
		change func(*Config)
		form   map[string]string // what is expected beside the grant
	}{
		{"the default", false, func(*Config) {}, map[string]string{"resource": upstreamURL}},
		{"over TLS", true, func(*Config) {}, map[string]string{"resource": upstreamURL}},
		{"a resource, scopes, an audience", false,
			func(c *Config) { c.Resource, c.Scopes, c.Audience = &resource, []string{"a", "b"}, "crm" },
			map[string]string{"resource": resource, "scope": "a b", "audience": "crm"}},
		{"no resource", false, func(c *Config) { c.Resource = &empty }, map[string]string{}},
		{"client_secret_post", false, func(c *Config) { c.ClientAuth = authPost },
			map[string]string{"resource": upstreamURL, "client_id": clientID, "client_secret": secret}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newTokenServer(t, tt.tls)
			cfg := machineConfig(s)
			tt.change(&cfg)
			var route egress.Config
			if tt.tls {
				route.TLS.CAFile = mcptest.Certificates(t, s.Server)
			}
			c, _ := newCredentials(t, cfg, route)
			for range 3 {
				if got, _ := authorization(t, c, mcp.Caller{}); got != "Bearer token-of-" {
					t.Fatalf("got %q", got)
				}
			}
			got := s.requests()
			if len(got) != 1 {
				t.Fatalf("got %d requests, want one: the token is good", len(got))
			}
			form := got[0].form
			for name, want := range tt.form {
				if form.Get(name) != want {
					t.Errorf("%s: got %q, want %q", name, form.Get(name), want)
				}
			}
			if form.Get("grant_type") != "client_credentials" || len(form) != len(tt.form)+1 {
				t.Errorf("got %v", form)
			}
			if basic := cfg.ClientAuth == ""; basic != (got[0].user == clientID && got[0].secret == secret) ||
				!basic && got[0].header.Get("Authorization") != "" {
				t.Errorf("got client %q, secret %q", got[0].user, got[0].secret)
			}
		})
	}
}

// verifyAssertion checks a client assertion as an issuer does (RFC 7523 §3), and
// returns its claims.
func verifyAssertion(t *testing.T, text string, public crypto.PublicKey, alg jose.SignatureAlgorithm) map[string]any {
	t.Helper()
	signed, err := jose.ParseSignedCompact(text, []jose.SignatureAlgorithm{alg})
	if err != nil {
		t.Fatal(err)
	}
	payload, err := signed.Verify(public)
	if err != nil {
		t.Fatalf("the signature is not good: %v", err)
	}
	if h := signed.Signatures[0].Header; h.KeyID != "key-1" || h.ExtraHeaders["typ"] != "JWT" || h.JSONWebKey != nil {
		t.Errorf("got header %+v", h)
	}
	var claims map[string]any
	if err := json.Unmarshal(payload, &claims); err != nil {
		t.Fatal(err)
	}
	return claims
}

func TestPrivateKeyJWT(t *testing.T) {
	public, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	big, ec := rsaKey(t, 2048), ecKey(t, elliptic.P384())
	for _, tt := range []struct {
		name   string
		key    any
		public crypto.PublicKey
		set    string
		alg    jose.SignatureAlgorithm
	}{
		{"RSA", big, big.Public(), "", jose.RS256},
		{"RSA-PSS", big, big.Public(), "PS256", jose.PS256},
		{"EC", ec, ec.Public(), "", jose.ES384},
		{"Ed25519", ed, public, "", jose.EdDSA},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newTokenServer(t, false)
			cfg := machineConfig(s)
			cfg.ClientSecret, cfg.PrivateKey, cfg.KeyID, cfg.Algorithm = "", pkcs8(t, tt.key), "key-1", tt.set
			c, _ := newCredentials(t, cfg, egress.Config{})
			before := time.Now().Add(-time.Second)
			_, stamp := authorization(t, c, mcp.Caller{})
			if !c.refused(mcp.Caller{}, stamp, 401, "") {
				t.Fatal("want another token")
			}
			authorization(t, c, mcp.Caller{})
			ids := map[any]bool{}
			for _, r := range s.requests() {
				if r.form.Get("client_assertion_type") != clientAssertionType || r.form.Get("client_id") != clientID ||
					r.form.Has("client_secret") || r.header.Get("Authorization") != "" {
					t.Errorf("got %v, %v", r.form, r.header)
				}
				claims := verifyAssertion(t, r.form.Get("client_assertion"), tt.public, tt.alg)
				issued, expires := time.Unix(int64(claims["iat"].(float64)), 0), time.Unix(int64(claims["exp"].(float64)), 0)
				if claims["iss"] != clientID || claims["sub"] != clientID || claims["aud"] != cfg.TokenURL ||
					issued.Before(before.Truncate(time.Second)) || expires.Sub(issued) != assertionLife {
					t.Errorf("got claims %v", claims)
				}
				ids[claims["jti"]] = true
			}
			if len(ids) != 2 || ids[nil] || ids[""] {
				t.Errorf("got ids %v, want two", ids)
			}
		})
	}
	t.Run("another audience", func(t *testing.T) {
		s := newTokenServer(t, false)
		cfg := machineConfig(s)
		cfg.ClientSecret, cfg.PrivateKey, cfg.KeyID, cfg.AssertionAudience = "", pkcs8(t, ec), "key-1", issuerURL
		c, _ := newCredentials(t, cfg, egress.Config{})
		authorization(t, c, mcp.Caller{})
		claims := verifyAssertion(t, s.requests()[0].form.Get("client_assertion"), ec.Public(), jose.ES384)
		if claims["aud"] != issuerURL {
			t.Errorf("got %v", claims)
		}
	})
}

// What the token endpoint answers is not trusted: it has to be a bearer token, and
// nothing of it gets into an error or a log that should not.
func TestAnswers(t *testing.T) {
	long := strings.Repeat("x", maxToken+1)
	const bad, operator, later = "not a usable token", "refused the gateway itself", "try again later"
	body := func(status int, text string) func(http.ResponseWriter, tokenRequest) {
		return func(w http.ResponseWriter, _ tokenRequest) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(text))
		}
	}
	members := func(m map[string]any) func(http.ResponseWriter, tokenRequest) {
		return func(w http.ResponseWriter, _ tokenRequest) { give(w, m) }
	}
	for _, tt := range []struct {
		name   string
		answer func(http.ResponseWriter, tokenRequest)
		want   string // part of the reason; "" for a token
	}{
		{"type in lower case", members(map[string]any{"access_token": "t", "token_type": "bearer"}), ""},
		{"no lifetime", members(map[string]any{"access_token": "t", "expires_in": nil}), ""},
		{"lifetime as text", members(map[string]any{"access_token": "t", "expires_in": "3600"}), ""},
		{"another type", members(map[string]any{"access_token": "t", "token_type": "DPoP"}), bad},
		{"no type", members(map[string]any{"access_token": "t", "token_type": nil}), bad},
		{"type N_A", members(map[string]any{"access_token": "t", "token_type": "N_A"}), bad},
		{"no token", members(nil), bad},
		{"token of another kind", members(map[string]any{"access_token": 7}), bad},
		{"token with a line break", members(map[string]any{"access_token": "a\r\nX-Evil: 1"}), bad},
		{"token with a space", members(map[string]any{"access_token": "a b"}), bad},
		{"too long a token", members(map[string]any{"access_token": long}), bad},
		{"a page", body(200, "<html>login</html>"), bad},
		{"an array", body(200, `["access_token"]`), bad},
		{"nothing", body(200, ""), bad},
		{"two documents", body(200, `{"access_token":"t","token_type":"Bearer"}{}`), bad},
		{"huge", body(200, strings.Repeat(" ", maxAnswer+1)), bad},
		{"a redirect", body(307, ""), bad},
		{"created", body(201, `{"access_token":"t","token_type":"Bearer"}`), "refused to issue a token (HTTP 201)"},
		{"invalid_client", func(w http.ResponseWriter, _ tokenRequest) { refuse(w, 401, "invalid_client", "wrong "+secret) },
			operator + " (invalid_client)"},
		{"unauthorized_client", func(w http.ResponseWriter, _ tokenRequest) { refuse(w, 400, "unauthorized_client", "") },
			operator},
		{"401 without a code", body(401, "no"), operator + " (HTTP 401)"},
		{"invalid_scope", func(w http.ResponseWriter, _ tokenRequest) { refuse(w, 400, "invalid_scope", "no such") },
			"(invalid_scope)"},
		{"a code with control characters", func(w http.ResponseWriter, _ tokenRequest) { refuse(w, 400, "a\x1b[31m\nb", "") },
			"(HTTP 400)"},
		{"a long code", func(w http.ResponseWriter, _ tokenRequest) { refuse(w, 400, long, "") }, "(HTTP 400)"},
		{"429", body(429, ""), later},
		{"500", body(500, "panic: at /srv/secret"), "(HTTP 500); " + later},
		{"the connection is cut", func(http.ResponseWriter, tokenRequest) { panic(http.ErrAbortHandler) },
			"does not answer; " + later},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newTokenServer(t, false)
			s.answers(tt.answer)
			c, log := newCredentials(t, machineConfig(s), egress.Config{})
			if tt.want == "" {
				if got, _ := authorization(t, c, mcp.Caller{}); got != "Bearer t" {
					t.Errorf("got %q", got)
				}
				return
			}
			got := why(t, c, mcp.Caller{})
			if !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want it to contain %q", got, tt.want)
			}
			if len(got) > 300 || strings.ContainsFunc(got, func(r rune) bool { return r < ' ' }) {
				t.Errorf("not fit to be shown: %q", got)
			}
			// A failure is remembered for a moment: the next caller costs nothing.
			if again := why(t, c, mcp.Caller{}); again != got || len(s.requests()) != 1 {
				t.Errorf("got %q after %d requests", again, len(s.requests()))
			}
			for _, hidden := range []string{secret, "/srv/secret", "s%2Bs"} {
				if strings.Contains(got, hidden) || strings.Contains(log.String(), hidden) {
					t.Errorf("%q is shown: %s %s", hidden, got, log)
				}
			}
		})
	}
	t.Run("nobody listens", func(t *testing.T) {
		s := newTokenServer(t, false)
		cfg := machineConfig(s)
		s.Close()
		c, log := newCredentials(t, cfg, egress.Config{})
		if got := why(t, c, mcp.Caller{}); !strings.Contains(got, "does not answer") || strings.Contains(got, "127.0.0.1") {
			t.Errorf("got %q", got)
		}
		if !strings.Contains(log.String(), "refused") {
			t.Errorf("the log does not say why: %s", log)
		}
	})
}

func TestReadLifetime(t *testing.T) {
	for text, want := range map[string]time.Duration{
		`3600`: time.Hour, `"3600"`: time.Hour, `59.5`: 59500 * time.Millisecond, `1`: time.Second,
		`0`: 0, `-1`: 0, `0.5`: 0, `"never"`: 0, `null`: 0, ``: 0, `{}`: 0, `true`: 0, `"NaN"`: 0, `"-Inf"`: 0,
		`1e300`: longestLife, `1e999`: longestLife, `999999999999999999999`: longestLife, `"Inf"`: longestLife,
	} {
		if got := readLifetime(mcp.Raw(text)); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func FuzzReadAnswer(f *testing.F) {
	f.Add([]byte(`{"access_token":"t","token_type":"Bearer","expires_in":3600}`))
	f.Add([]byte(`{"access_token":"\u0000","token_type":"bearer","expires_in":"1e9"}`))
	f.Add([]byte(`{"access_token":"a","access_token":"b\n","token_type":"Bearer","issued_token_type":{}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := readAnswer(text, "Bearer")
		if err != nil {
			return
		}
		if !json.Valid(text) || !tokenPattern.MatchString(a.token) || len(a.token) > maxToken || a.lifetime < 0 ||
			a.lifetime > longestLife {
			t.Errorf("%q was read as %+v", text, a)
		}
		audiences, ok := audiencesOf(a.token)
		if !ok && len(audiences) > 0 {
			t.Errorf("%q has audiences %q", a.token, audiences)
		}
	})
}

func TestPrintable(t *testing.T) {
	if got := printable("a\nb\u202ec token d", "token", ""); got != "a?b?c <secret> d" {
		t.Errorf("got %q", got)
	}
	if got := printable(strings.Repeat("é", 500)); len([]rune(got)) != 200 {
		t.Errorf("got %d letters", len([]rune(got)))
	}
	if slices.Contains([]byte(printable("\x00\xff")), 0) {
		t.Error("NUL is kept")
	}
}
