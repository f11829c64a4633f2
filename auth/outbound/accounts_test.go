package outbound

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth/vault"
	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// withAccounts makes credentials of users who have signed in, with tokens "first of NAME", whose
// refresh gives "second of NAME".
func withAccounts(t *testing.T, names ...string) (*Credentials, *vault.Vault) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "second-of-" + r.PostFormValue("refresh_token"),
			"token_type": "bearer", "expires_in": 3600})
	}))
	t.Cleanup(s.Close)
	log := slog.New(slog.DiscardHandler)
	v, err := vault.New(vault.Config{}, vault.Deps{Log: log,
		Reach: func(string) ([]string, egress.Config) { return []string{s.URL}, egress.Config{} }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	for _, name := range names {
		err := v.Keep(t.Context(), vault.Owner{Issuer: issuerURL, User: name}, "crm", vault.Grant{
			AccessToken: "first-of-" + name, RefreshToken: name, Expires: time.Now().Add(time.Hour), TokenURL: s.URL,
			ClientID: "g", URL: upstreamURL,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	c, err := New(Config{Type: TypeUserOAuth}, Deps{Log: log, Upstream: "crm", URL: upstreamURL, Vault: v})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, v
}

// TestAccounts: each user's requests have the token of that user's account, and nobody's own token
// for the gateway goes out.
func TestAccounts(t *testing.T) {
	t.Parallel()
	c, _ := withAccounts(t, "alice", "bob")
	if !c.PerUser() {
		t.Error("want a credential for each user")
	}
	for range 2 {
		for _, name := range []string{"alice", "bob"} {
			if got, _ := authorization(t, c, caller(name, "tok-"+name)); got != "Bearer first-of-"+name {
				t.Errorf("%s: got %q", name, got)
			}
		}
	}
	other := mcp.NewCaller(mcp.Caller{Issuer: "https://other.example", Subject: "alice"})
	for name, tt := range map[string]struct {
		who  mcp.Caller
		sign bool
	}{
		"nobody":                         {mcp.Caller{}, false},
		"somebody without an account":    {caller("carol", "t"), true},
		"the same name of other issuers": {other, true},
	} {
		h := http.Header{}
		_, err := c.Authorize(t.Context(), tt.who, h)
		if e, ok := errors.AsType[*Error](err); !ok || e.SignIn != tt.sign || len(h) > 0 {
			t.Errorf("%s: got %v %v", name, err, h)
		}
	}
}

// TestAccountRefused: what a server's refusal means for the account, and for the call.
func TestAccountRefused(t *testing.T) {
	t.Parallel()
	const scopes = `Bearer realm="x", error="insufficient_scope", scope="read write"`
	for _, tt := range []struct {
		name      string
		status    int
		challenge string
		again     bool
		why       string // of the error; "" for none
		state     string
	}{
		{"401", 401, "", true, "", vault.StateOK},
		{"403 with invalid_token", 403, `Bearer error="invalid_token"`, true, "", vault.StateOK},
		{"403", 403, "", false, "", vault.StateOK},
		{"403 for scopes", 403, scopes, false, "more rights than you have given (read write)", vault.StateOK},
		{"403 for unknown scopes", 403, `Bearer error=insufficient_scope`, false, "", vault.StateOK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, v := withAccounts(t, "alice")
			who := caller("alice", "tok-alice")
			_, stamp := authorization(t, c, who)
			again, err := c.Refused(t.Context(), who, stamp, tt.status, tt.challenge)
			e, _ := errors.AsType[*Error](err)
			if again != tt.again || (err == nil) != (tt.why == "") ||
				e != nil && (!e.SignIn || !strings.Contains(e.Why, tt.why)) {
				t.Errorf("got %v %v", again, err)
			}
			all, err := v.States(t.Context(), vault.OwnerOf(who), []string{"crm"})
			if err != nil || all[0].State != tt.state || tt.why != "" && strings.Join(all[0].Wanted, " ") != "read write" {
				t.Errorf("got %+v %v", all, err)
			}
			if !again {
				return
			}
			got, stamp := authorization(t, c, who)
			if got != "Bearer second-of-alice" {
				t.Errorf("got %q", got)
			}
			again, err = c.Refused(t.Context(), who, stamp, tt.status, tt.challenge)
			if e, ok := errors.AsType[*Error](err); again || !ok || !e.SignIn ||
				!strings.Contains(e.Why, "does not accept your sign-in") {
				t.Errorf("the second time: got %v %v", again, err)
			}
			if got := why(t, c, who); !strings.Contains(got, "does not accept your sign-in") {
				t.Errorf("got %q", got)
			}
		})
	}
}

// TestAccountTokenInChallenge: a server that says in its challenge which token it has refused does not
// get it into the log.
func TestAccountTokenInChallenge(t *testing.T) {
	t.Parallel()
	c, _ := withAccounts(t, "alice")
	log := &mcptest.Log{}
	c.log = slog.New(slog.NewTextHandler(log, nil))
	who := caller("alice", "tok-alice")
	got, stamp := authorization(t, c, who)
	if _, err := c.Refused(t.Context(), who, stamp, http.StatusUnauthorized,
		`Bearer error="invalid_token", error_description="not for us: `+strings.TrimPrefix(got, scheme)+`"`); err != nil {
		t.Fatal(err)
	}
	if text := log.String(); !strings.Contains(text, "not for us") || strings.Contains(text, "first-of-alice") {
		t.Errorf("the log has %s", text)
	}
}

func TestScopesOf(t *testing.T) {
	t.Parallel()
	for challenge, want := range map[string]string{
		`Bearer scope="a b"`:                                        "a b",
		`Bearer error="insufficient_scope",scope=a`:                 "a",
		`bearer SCOPE = "https://x.example/r"`:                      "https://x.example/r",
		`Bearer noscope="a"`:                                        "",
		`Bearer scope=""`:                                           "",
		"Bearer scope=\"a \x01 b\u202e c\"":                         "a c",
		`Bearer scope="` + strings.Repeat("a ", maxChallenge) + `"`: "",
	} {
		if got := strings.Join(scopesOf(challenge), " "); got != want {
			t.Errorf("%.60q: got %q, want %q", challenge, got, want)
		}
	}
}

func TestUserOAuthConfig(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cfg  Config
		want string
	}{
		"alone": {Config{}, ""},
		"all": {Config{AuthorizationServer: "https://a.example", ClientID: "c", ClientSecret: "s",
			ClientAuth: authPost, Scopes: []string{"a"}, Resource: new(string)}, ""},
		"a public client":    {Config{AuthorizationServer: "https://a.example", ClientID: "c"}, ""},
		"a client of nobody": {Config{ClientID: "c"}, "authorization_server: is needed with client_id"},
		"a secret of nobody": {Config{AuthorizationServer: "https://a.example", ClientSecret: "s"},
			"client_id: is needed with client_secret"},
		"no secret to send": {Config{AuthorizationServer: "https://a.example", ClientID: "c", ClientAuth: authPost},
			"client_auth: is of use with a client_secret only"},
		"another way to send it": {Config{AuthorizationServer: "https://a.example", ClientID: "c", ClientSecret: "s",
			ClientAuth: authJWT}, "client_auth: \"private_key_jwt\": want"},
		"by http": {Config{AuthorizationServer: "http://a.example"},
			"authorization_server: http is only for loopback"},
		"two scopes in one": {Config{Scopes: []string{"a b"}}, "scopes[0]"},
		"a token endpoint":  {Config{TokenURL: "https://a.example"}, "token_url: is for type"},
		"an audience":       {Config{Audience: "a"}, "audience: is for type"},
	} {
		tt.cfg.Type = TypeUserOAuth
		if err := tt.cfg.Validate(); (err == nil) != (tt.want == "") ||
			err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
	if _, err := New(Config{Type: TypeUserOAuth}, Deps{Log: slog.New(slog.DiscardHandler)}); err == nil {
		t.Error("there is no vault")
	}
	if got := fmt.Sprint(Config{}.Trusted("https://s.example"),
		Config{AuthorizationServer: "https://a.example"}.Trusted("https://s.example")); got != "[https://s.example] [https://s.example https://a.example]" {
		t.Errorf("got %s", got)
	}
}
