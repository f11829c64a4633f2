package outbound

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func TestExchange(t *testing.T) {
	s := newTokenServer(t, false)
	cfg := userConfig(s)
	cfg.Audience, cfg.Scopes, cfg.SubjectTokenType = "crm", []string{"read", "write"}, typeJWT
	c, log := newCredentials(t, cfg, egress.Config{})
	if !c.PerUser() {
		t.Error("want a credential for each user")
	}
	alice, bob := caller("alice", "tok-alice"), caller("bob", "tok-bob")
	fresh := caller("alice", "tok-alice-2")
	for range 2 {
		for _, who := range []mcp.Caller{alice, bob, fresh} {
			if got, _ := authorization(t, c, who); got != "Bearer token-of-"+string(who.Token) {
				t.Errorf("%s: got %q", who.Subject, got)
			}
		}
	}
	got := s.requests()
	if len(got) != 3 {
		t.Fatalf("got %d requests, want one for each token", len(got))
	}
	want := map[string]string{
		"grant_type": grantExchange, "subject_token": "tok-alice", "subject_token_type": tokenTypePrefix + "jwt",
		"requested_token_type": tokenTypePrefix + "access_token", "resource": upstreamURL, "audience": "crm",
		"scope": "read write",
	}
	if form := got[0].form; len(form) != len(want) {
		t.Errorf("got %v", form)
	}
	for name, value := range want {
		if got[0].form.Get(name) != value {
			t.Errorf("%s: got %q, want %q", name, got[0].form.Get(name), value)
		}
	}
	if got[0].user != clientID || got[0].secret != secret {
		t.Errorf("the client did not prove who it is: %q", got[0].user)
	}
	if strings.Contains(log.String(), "tok") {
		t.Errorf("the log shows a token: %s", log)
	}
}

// A user's token goes to the endpoint of its own issuer and nowhere else; who
// has none, or one that has ended, gets nothing.
func TestExchangeRefuses(t *testing.T) {
	s := newTokenServer(t, false)
	c, _ := newCredentials(t, userConfig(s), egress.Config{})
	expired := caller("alice", "tok")
	expired.Expires = time.Now().Add(-time.Second)
	foreign := caller("alice", "tok")
	foreign.Issuer = issuerURL + "/"
	same := mcp.NewCaller(mcp.Caller{Subject: "alice", Token: "tok"})
	for _, tt := range []struct {
		name string
		who  mcp.Caller
		want string
	}{
		{"nobody", mcp.Caller{}, "this request comes without one"},
		{"a user without a token", mcp.NewCaller(mcp.Caller{Issuer: issuerURL, Subject: "alice"}),
			"this request comes without one"},
		{"another issuer, by one letter", foreign, "another issuer"},
		{"no issuer", same, "another issuer"},
		{"ended", expired, "your sign-in has expired"},
	} {
		if got := why(t, c, tt.who); !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want it to contain %q", tt.name, got, tt.want)
		}
		if c.refused(tt.who, 1, http.StatusUnauthorized, "") && tt.name != "ended" {
			t.Errorf("%s: there is nothing to try again with", tt.name)
		}
	}
	if got := s.requests(); len(got) > 0 {
		t.Errorf("the endpoint was asked: %v", got)
	}
}

func jwtFor(aud string) string {
	part := base64.RawURLEncoding.EncodeToString
	return part([]byte(`{"alg":"none"}`)) + "." + part([]byte(`{"sub":"alice"`+aud+`}`)) + ".sig"
}

// What comes back has the upstream as its audience, and is not the user's own
// token by another way.
func TestExchanged(t *testing.T) {
	const unusable = "not a usable token"
	for _, tt := range []struct {
		name   string
		answer map[string]any
		want   string // part of the reason; "" for a token
	}{
		{"opaque", map[string]any{"access_token": "opaque"}, ""},
		{"a JWT by its type", map[string]any{"access_token": "opaque", "issued_token_type": tokenTypePrefix + "jwt"}, ""},
		{"for the audience", map[string]any{"access_token": jwtFor(`,"aud":"crm"`)}, ""},
		{"for the resource, among others", map[string]any{"access_token": jwtFor(`,"aud":["x","` + upstreamURL + `"]`)}, ""},
		{"a JWT without an audience", map[string]any{"access_token": jwtFor(``)}, ""},
		{"for somebody else", map[string]any{"access_token": jwtFor(`,"aud":"https://gateway.example/mcp"`)}, unusable},
		{"for nobody", map[string]any{"access_token": jwtFor(`,"aud":[]`)}, unusable},
		{"for the empty name", map[string]any{"access_token": jwtFor(`,"aud":""`)}, unusable},
		{"the user's own", map[string]any{"access_token": "tok-alice"}, unusable},
		{"no issued_token_type", map[string]any{"access_token": "x", "issued_token_type": nil}, unusable},
		{"a refresh token", map[string]any{"access_token": "x", "issued_token_type": tokenTypePrefix + "refresh_token"},
			unusable},
		{"an ID token", map[string]any{"access_token": "x", "issued_token_type": tokenTypePrefix + "id_token"}, unusable},
		{"a type without its prefix", map[string]any{"access_token": "x", "issued_token_type": "access_token"}, unusable},
		{"not to be used as one", map[string]any{"access_token": "x", "token_type": "N_A"}, unusable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newTokenServer(t, false)
			s.answers(func(w http.ResponseWriter, _ tokenRequest) { give(w, tt.answer) })
			cfg := userConfig(s)
			cfg.Audience = "crm"
			c, log := newCredentials(t, cfg, egress.Config{})
			if tt.want == "" {
				if got, _ := authorization(t, c, caller("alice", "tok-alice")); got != "Bearer "+
					tt.answer["access_token"].(string) {
					t.Errorf("got %q", got)
				}
				return
			}
			got := why(t, c, caller("alice", "tok-alice"))
			if !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want it to contain %q", got, tt.want)
			}
			if strings.Contains(got+log.String(), "tok-alice") {
				t.Errorf("the user's token is shown: %s %s", got, log)
			}
		})
	}
}

// A user whose token is refused has that to himself; what concerns the gateway or the
// endpoint is everybody's, and is not tried again for each user.
func TestExchangeFailures(t *testing.T) {
	t.Run("of one user", func(t *testing.T) {
		s := newTokenServer(t, false)
		s.answers(func(w http.ResponseWriter, r tokenRequest) {
			if r.form.Get("subject_token") == "tok-bob" {
				give(w, map[string]any{"access_token": "for-bob"})
				return
			}
			refuse(w, http.StatusBadRequest, "invalid_grant", "revoked: "+r.form.Get("subject_token"))
		})
		c, log := newCredentials(t, userConfig(s), egress.Config{})
		for range 3 {
			if got := why(t, c, caller("alice", "tok-alice")); !strings.Contains(got,
				"your token could not be exchanged for one (invalid_grant); sign in again") {
				t.Errorf("got %q", got)
			}
		}
		if got, _ := authorization(t, c, caller("bob", "tok-bob")); got != "Bearer for-bob" {
			t.Errorf("got %q", got)
		}
		if got := len(s.requests()); got != 2 {
			t.Errorf("got %d requests, want one for each user", got)
		}
		if got := log.String(); strings.Contains(got, "tok-alice") || !strings.Contains(got, "revoked: <secret>") {
			t.Errorf("got log %s", got)
		}
	})
	for _, code := range []string{"invalid_grant", "invalid_token", "access_denied"} {
		t.Run("of one user: 401 "+code, func(t *testing.T) {
			s := newTokenServer(t, false)
			s.answers(func(w http.ResponseWriter, r tokenRequest) {
				if r.form.Get("subject_token") == "tok-bob" {
					give(w, map[string]any{"access_token": "for-bob"})
					return
				}
				refuse(w, http.StatusUnauthorized, code, "")
			})
			c, _ := newCredentials(t, userConfig(s), egress.Config{})
			if got := why(t, c, caller("alice", "tok-alice")); !strings.Contains(got,
				"your token could not be exchanged for one ("+code+")") {
				t.Errorf("got %q", got)
			}
			if got, _ := authorization(t, c, caller("bob", "tok-bob")); got != "Bearer for-bob" {
				t.Errorf("got %q", got)
			}
		})
	}
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusUnauthorized} {
		t.Run(fmt.Sprintf("of all: %d", status), func(t *testing.T) {
			s := newTokenServer(t, false)
			s.answers(func(w http.ResponseWriter, _ tokenRequest) { w.WriteHeader(status) })
			c, _ := newCredentials(t, userConfig(s), egress.Config{})
			for i := range 20 {
				why(t, c, caller(fmt.Sprintf("user-%d", i), fmt.Sprintf("tok-%d", i)))
			}
			if got := len(s.requests()); got != 1 {
				t.Errorf("got %d requests, want one for all users", got)
			}
		})
	}
}

// The cache has a bound, and a forgotten user is only exchanged for anew.
func TestExchangeCache(t *testing.T) {
	s := newTokenServer(t, false)
	c, _ := newCredentials(t, userConfig(s), egress.Config{})
	for i := range maxUsers + 10 {
		if _, err := c.sourceFor(caller("alice", fmt.Sprintf("tok-%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	if n := c.users.Len(); n != maxUsers {
		t.Errorf("got %d sources, want %d", n, maxUsers)
	}
	one, two := caller("alice", "tok"), caller("bob", "tok")
	first, err := c.sourceFor(one)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := c.sourceFor(two); err != nil || second == first {
		t.Errorf("two users with one token share a source: %v", err)
	}
}
