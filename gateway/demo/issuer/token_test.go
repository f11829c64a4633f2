package issuer

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// codeForm is a good token request for a code, with changes as for query.
func codeForm(client, code string, changes ...string) url.Values {
	return change(url.Values{
		"grant_type": {grantCode}, "client_id": {client}, "code": {code}, "redirect_uri": {callback},
		"code_verifier": {verifier}, "resource": {resource},
	}, changes...)
}

func (s *server) code(t *testing.T, client string) string {
	t.Helper()
	return s.signIn(t, "alice", query(client)).Get("code")
}

// claimsOf returns the claims of the access token in an answer.
func (s *server) claimsOf(t *testing.T, a answer, audience string) claims {
	t.Helper()
	if a.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	c, err := s.verify(member(t, a, "access_token"), audience)
	if err != nil {
		t.Fatalf("%v\n%s", err, a.body)
	}
	return c
}

func (a answer) refused(t *testing.T, code string) {
	t.Helper()
	want := http.StatusBadRequest
	if code == errInvalidClient {
		want = http.StatusUnauthorized
	}
	if a.StatusCode != want || member(t, a, "error") != code || a.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %s, want %d %s", a.StatusCode, a.body, want, code)
	}
}

func TestCode(t *testing.T) {
	s := start(t, Deps{})
	id := clientID(t, callback)
	a := s.post(t, tokenPath, codeForm(id, s.code(t, id)))
	c := s.claimsOf(t, a, resource)
	if c.Subject != "alice" || c.ClientID != id || c.Scope != "mcp" || c.Groups[0] != "engineering" || !c.EmailVerified {
		t.Errorf("claims %+v", c)
	}
	if a.Header.Get("Cache-Control") != "no-store" || a.Header.Get("Access-Control-Allow-Origin") != "*" || member(t, a, "token_type") != "Bearer" {
		t.Errorf("%v %s", a.Header, a.body)
	}
	for _, tt := range []struct {
		name    string
		changes []string
		code    string
	}{
		{"without redirect_uri and resource, which PKCE and the code make up for", []string{"redirect_uri", "-", "resource", "-"}, ""},
		{"another verifier", []string{"code_verifier", strings.Repeat("x", 43)}, errInvalidGrant},
		{"the challenge as verifier", []string{"code_verifier", challenge}, errInvalidGrant},
		{"no verifier", []string{"code_verifier", "-"}, errInvalidRequest},
		{"a short verifier", []string{"code_verifier", "x"}, errInvalidRequest},
		{"another redirect_uri", []string{"redirect_uri", callback + "/"}, errInvalidGrant},
		{"another client", []string{"client_id", clientID(t, callback, callback+"/2")}, errInvalidGrant},
		{"an unknown client", []string{"client_id", "nobody"}, errInvalidClient},
		{"no client", []string{"client_id", "-"}, errInvalidClient},
		{"a secret, which it does not have", []string{"client_secret", "x"}, errInvalidClient},
		{"another resource", []string{"resource", other}, errInvalidTarget},
		{"another code", []string{"code", "x"}, errInvalidGrant},
		{"no code", []string{"code", "-"}, errInvalidRequest},
		{"no grant_type", []string{"grant_type", "-"}, errInvalidRequest},
		{"passwords", []string{"grant_type", "password"}, errUnsupported},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := s.post(t, tokenPath, codeForm(id, s.code(t, id), tt.changes...))
			if tt.code == "" {
				s.claimsOf(t, a, resource)
				return
			}
			a.refused(t, tt.code)
		})
	}
	t.Run("with a wrong verifier it is spent", func(t *testing.T) {
		code := s.code(t, id)
		s.post(t, tokenPath, codeForm(id, code, "code_verifier", strings.Repeat("x", 43))).refused(t, errInvalidGrant)
		s.post(t, tokenPath, codeForm(id, code)).refused(t, errInvalidGrant)
	})
	t.Run("used twice, what came of it ends", func(t *testing.T) {
		code := s.code(t, id)
		refresh := member(t, s.post(t, tokenPath, codeForm(id, code)), "refresh_token")
		s.post(t, tokenPath, codeForm(id, code)).refused(t, errInvalidGrant)
		s.post(t, tokenPath, refreshForm(id, refresh)).refused(t, errInvalidGrant)
	})
}

func TestForms(t *testing.T) {
	s := start(t, Deps{})
	id := clientID(t, callback)
	for _, path := range []string{tokenPath, revokePath, introspectPath} {
		s.postBody(t, path, `{}`, "Content-Type: application/json").refused(t, errInvalidRequest)
		s.post(t, path+"?client_id="+id, url.Values{}).refused(t, errInvalidRequest)
		s.postBody(t, path, "a=%zz", "Content-Type: application/x-www-form-urlencoded").refused(t, errInvalidRequest)
		s.post(t, path, url.Values{"client_id": {id, id}}).refused(t, errInvalidRequest)
		if a := s.get(t, path); a.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("GET %s: %d", path, a.StatusCode)
		}
	}
}

func refreshForm(client, token string, changes ...string) url.Values {
	return change(url.Values{"grant_type": {grantRefresh}, "client_id": {client}, "refresh_token": {token}}, changes...)
}

func TestRefresh(t *testing.T) {
	s := start(t, Deps{})
	id := clientID(t, callback)
	token := func(t *testing.T) string {
		return member(t, s.post(t, tokenPath, codeForm(id, s.signIn(t, "bob", query(id, "scope", "mcp admin")).Get("code"))), "refresh_token")
	}
	t.Run("rotated", func(t *testing.T) {
		first := token(t)
		a := s.post(t, tokenPath, refreshForm(id, first, "resource", resource, "scope", "mcp"))
		if c := s.claimsOf(t, a, resource); c.Subject != "bob" || c.Scope != "mcp" {
			t.Errorf("claims %+v", c)
		}
		second := member(t, a, "refresh_token")
		b := s.post(t, tokenPath, refreshForm(id, second))
		if c := s.claimsOf(t, b, resource); c.Scope != "mcp admin" {
			t.Errorf("scope %q: what was granted comes back", c.Scope)
		}
		s.post(t, tokenPath, refreshForm(id, first)).refused(t, errInvalidGrant)
		s.post(t, tokenPath, refreshForm(id, member(t, b, "refresh_token"))).refused(t, errInvalidGrant) // the line above ended it
	})
	for _, tt := range []struct {
		name    string
		changes []string
		code    string
	}{
		{"nothing", []string{"refresh_token", "-"}, errInvalidRequest},
		{"unknown", []string{"refresh_token", "x.y"}, errInvalidGrant},
		{"of another client", []string{"client_id", clientID(t, callback, callback+"/2")}, errInvalidGrant},
		{"more scopes", []string{"scope", "mcp root"}, errInvalidScope},
		{"another resource", []string{"resource", other}, errInvalidTarget},
	} {
		t.Run(tt.name, func(t *testing.T) {
			good := token(t)
			s.post(t, tokenPath, refreshForm(id, good, tt.changes...)).refused(t, tt.code)
			s.claimsOf(t, s.post(t, tokenPath, refreshForm(id, good)), resource) // none of the requests above affects it
		})
	}
	t.Run("revoked", func(t *testing.T) {
		good := token(t)
		for _, wrong := range []url.Values{
			{"client_id": {clientID(t, callback, callback+"/2")}, "token": {good}},
			{"client_id": {id}, "token": {good + "x"}},
			{"client_id": {id}, "token": {"x"}},
		} {
			if a := s.post(t, revokePath, wrong); a.StatusCode != http.StatusOK {
				t.Errorf("%d %s", a.StatusCode, a.body)
			}
		}
		a := s.post(t, tokenPath, refreshForm(id, good))
		s.claimsOf(t, a, resource)
		good = member(t, a, "refresh_token")
		if a := s.post(t, revokePath, url.Values{"client_id": {id}, "token": {good}}); a.StatusCode != http.StatusOK || a.body != "" {
			t.Errorf("%d %s", a.StatusCode, a.body)
		}
		s.post(t, tokenPath, refreshForm(id, good)).refused(t, errInvalidGrant)
		s.post(t, revokePath, url.Values{"client_id": {id}}).refused(t, errInvalidRequest)
		s.post(t, revokePath, url.Values{"client_id": {"nobody"}, "token": {good}}).refused(t, errInvalidClient)
		s.post(t, revokePath, url.Values{"client_id": {id}, "token": {member(t, a, "access_token")}}).refused(t, errTokenType)
	})
	t.Run("for a client that did not ask for them", func(t *testing.T) {
		id, _ := registeredID(client{name: "Test", redirects: []string{callback}})
		if a := s.post(t, tokenPath, codeForm(id, s.code(t, id))); strings.Contains(a.body, "refresh_token") {
			t.Errorf("%s", a.body)
		}
	})
}

func TestClientCredentials(t *testing.T) {
	s := start(t, Deps{})
	form := func(changes ...string) url.Values {
		return change(url.Values{
			"grant_type": {grantClient}, "client_id": {"script"}, "client_secret": {"a secret: with%/&"}, "resource": {resource},
		}, changes...)
	}
	basic := func(id, secret string) string {
		r := &http.Request{Header: http.Header{}}
		r.SetBasicAuth(id, secret)
		return "Authorization: " + r.Header.Get("Authorization")
	}
	for name, a := range map[string]answer{
		"in the body":   s.post(t, tokenPath, form()),
		"in the header": s.post(t, tokenPath, form("client_id", "-", "client_secret", "-"), basic("script", url.QueryEscape("a secret: with%/&"))),
	} {
		c := s.claimsOf(t, a, resource)
		if c.Subject != "script" || c.ClientID != "script" || c.Groups[0] != "automation" || c.Scope != "mcp admin" || strings.Contains(a.body, "refresh_token") {
			t.Errorf("%s: %+v\n%s", name, c, a.body)
		}
	}
	if c := s.claimsOf(t, s.post(t, tokenPath, form("scope", "mcp other")), resource); c.Scope != "mcp" {
		t.Errorf("scope %q", c.Scope)
	}
	for _, tt := range []struct {
		name    string
		form    url.Values
		headers []string
		code    string
	}{
		{"a wrong secret", form("client_secret", "x"), nil, errInvalidClient},
		{"no secret", form("client_secret", "-"), nil, errInvalidClient},
		{"an unknown client", form("client_id", "nobody"), nil, errInvalidClient},
		{"a wrong secret in the header", form("client_id", "-", "client_secret", "-"), []string{basic("script", "x")}, errInvalidClient},
		{"another scheme", form("client_id", "-", "client_secret", "-"), []string{"Authorization: Bearer x"}, errInvalidClient},
		{"two ways at once", form(), []string{basic("script", "x")}, errInvalidRequest},
		{"two clients at once", form("client_id", "gateway", "client_secret", "-"), []string{basic("script", "x")}, errInvalidRequest},
		{"no resource", form("resource", "-"), nil, errInvalidTarget},
		{"another resource", form("resource", upstream), nil, errInvalidTarget},
		{"no such scope", form("scope", "root"), nil, errInvalidScope},
		{"a client of people", form("client_id", clientID(t, callback), "client_secret", "-"), nil, errUnauthorized},
		{"a client without this grant", form("client_id", "gateway", "client_secret", "gateway-secret"), nil, errInvalidTarget},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := s.post(t, tokenPath, tt.form, tt.headers...)
			a.refused(t, tt.code)
			wantBasic := tt.code == errInvalidClient && tt.headers != nil
			if got := strings.HasPrefix(a.Header.Get("WWW-Authenticate"), "Basic "); got != wantBasic {
				t.Errorf("challenge %q", a.Header.Get("WWW-Authenticate"))
			}
		})
	}
}

func TestExchange(t *testing.T) {
	s := start(t, Deps{})
	alice, err := s.Token("alice", resource, "mcp")
	if err != nil {
		t.Fatal(err)
	}
	form := func(changes ...string) url.Values {
		return change(url.Values{
			"grant_type": {grantExchange}, "client_id": {"gateway"}, "client_secret": {"gateway-secret"},
			"subject_token": {alice}, "subject_token_type": {accessTokenType}, "resource": {upstream},
		}, changes...)
	}
	for name, f := range map[string]url.Values{
		"resource": form(), "audience": form("resource", "-", "audience", upstream), "both": form("audience", upstream),
		"with the type": form("requested_token_type", accessTokenType), "with a scope": form("scope", "mcp"),
	} {
		t.Run("P9/232 "+name, func(t *testing.T) {
			a := s.post(t, tokenPath, f)
			c := s.claimsOf(t, a, upstream)
			if c.Subject != "alice" || c.ClientID != "gateway" || c.Actor == nil || c.Actor.Subject != "gateway" ||
				c.Groups[0] != "engineering" || c.Scope != "mcp" || member(t, a, "issued_token_type") != accessTokenType {
				t.Errorf("%+v\n%s", c, a.body)
			}
		})
	}
	mint := func(user, audience string) string {
		token, err := s.Token(user, audience)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	elsewhere := start(t, Deps{})
	foreign, err := elsewhere.Token("alice", resource)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, code string
		form       url.Values
	}{
		{"no target", errInvalidTarget, form("resource", "-")},
		{"two targets", errInvalidTarget, form("audience", other)},
		{"a target that is not allowed", errInvalidTarget, form("resource", other)},
		{"no token", errInvalidRequest, form("subject_token", "-")},
		{"no type", errInvalidRequest, form("subject_token_type", "-")},
		{"another type", errInvalidRequest, form("subject_token_type", "urn:ietf:params:oauth:token-type:id_token")},
		{"another type wanted", errInvalidRequest, form("requested_token_type", "urn:ietf:params:oauth:token-type:refresh_token")},
		{"an actor", errInvalidRequest, form("actor_token", "x")},
		{"more scopes", errInvalidScope, form("scope", "mcp admin")},
		{"a token for somebody else", errInvalidRequest, form("subject_token", mint("alice", other))},
		{"a token that was exchanged already", errInvalidRequest, form("subject_token", mint("alice", upstream))},
		{"a token of another issuer", errInvalidRequest, form("subject_token", foreign)},
		{"a broken token", errInvalidRequest, form("subject_token", alice+"x")},
		{"a client that serves nothing", errUnauthorized, form("client_id", "script", "client_secret", "a secret: with%/&")},
		{"a client of people", errUnauthorized, form("client_id", clientID(t, callback), "client_secret", "-")},
		{"a wrong secret", errInvalidClient, form("client_secret", "x")},
	} {
		t.Run(tt.name, func(t *testing.T) { s.post(t, tokenPath, tt.form).refused(t, tt.code) })
	}
}

func TestIntrospect(t *testing.T) {
	s := start(t, Deps{})
	ask := func(id, secret, token string) answer {
		return s.post(t, introspectPath, url.Values{"client_id": {id}, "client_secret": {secret}, "token": {token}})
	}
	good, err := s.Token("alice", resource, "mcp")
	if err != nil {
		t.Fatal(err)
	}
	a := ask("gateway", "gateway-secret", good)
	var got struct {
		Active             bool
		Sub, Iss, Aud, Exp any
	}
	if err := json.Unmarshal([]byte(a.body), &got); err != nil || !got.Active || got.Sub != "alice" || got.Aud != resource || got.Iss != s.URL() || got.Exp == nil {
		t.Errorf("%v: %s", err, a.body)
	}
	elsewhere, err := s.Token("alice", other)
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{elsewhere, good + "x", "x", ""} {
		if a := ask("gateway", "gateway-secret", token); a.StatusCode != http.StatusOK || strings.TrimSpace(a.body) != `{"active":false}` {
			t.Errorf("%d %s", a.StatusCode, a.body)
		}
	}
	ask("gateway", "x", good).refused(t, errInvalidClient)
	ask("script", "a secret: with%/&", good).refused(t, errInvalidClient)
	ask(clientID(t, callback), "", good).refused(t, errInvalidClient)
}

// TestTimes checks when codes and tokens expire.
func TestTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig("http://127.0.0.1:9000")
		cfg.TokenLifetime = time.Hour
		s, err := New(cfg, Deps{})
		if err != nil {
			t.Fatal(err)
		}
		given := grant{user: "alice", client: "c", resource: resource, refreshes: true}
		early, late := s.grants.code(given, callback, challenge), s.grants.code(given, callback, challenge)
		minted, err := s.Token("alice", resource)
		if err != nil {
			t.Fatal(err)
		}
		signedIn, err := s.respond(given, "")
		if err != nil || signedIn.ExpiresIn != 300 {
			t.Fatal(signedIn, err)
		}
		time.Sleep(codeLifetime - time.Second)
		_, refresh, err := s.grants.redeem(early, "c", callback, verifier)
		if err != nil {
			t.Errorf("just in time: %v", err)
		}
		time.Sleep(time.Second)
		if _, _, err := s.grants.redeem(late, "c", callback, verifier); err == nil {
			t.Error("a code after its time was good")
		}
		time.Sleep(5*time.Minute - codeLifetime)
		if _, err := s.verify(signedIn.AccessToken, resource); err == nil {
			t.Error("an access token after its time was good")
		}
		if _, err := s.verify(minted, resource); err != nil {
			t.Errorf("a token with a longer life: %v", err)
		}
		exchanged, err := s.byExchange(requester{id: "gateway", with: &s.cfg.Clients[0]}, url.Values{
			"subject_token": {minted}, "subject_token_type": {accessTokenType}, "resource": {upstream},
		})
		if err != nil || exchanged.ExpiresIn != 300 {
			t.Errorf("exchanged: %+v, %v", exchanged, err)
		}
		time.Sleep(54 * time.Minute)
		exchanged, err = s.byExchange(requester{id: "gateway", with: &s.cfg.Clients[0]}, url.Values{
			"subject_token": {minted}, "subject_token_type": {accessTokenType}, "resource": {upstream},
		})
		if err != nil || exchanged.ExpiresIn > 60 {
			t.Errorf("exchanged, it outlives what it is made of: %+v, %v", exchanged, err)
		}
		time.Sleep(refreshLifetime)
		if _, _, err := s.grants.refresh(refresh, "c", func(grant) error { return nil }); err == nil {
			t.Error("a refresh token after its time was good")
		}
	})
}

func TestGrantsAreBounded(t *testing.T) {
	g := newGrants()
	given := grant{user: "alice", client: "c", refreshes: true}
	first := g.code(given, callback, challenge)
	_, refresh, err := g.redeem(first, "c", callback, verifier)
	if err != nil {
		t.Fatal(err)
	}
	for range maxFamilies {
		if _, _, err := g.redeem(g.code(given, callback, challenge), "c", callback, verifier); err != nil {
			t.Fatal(err)
		}
	}
	if g.codes.Len() != maxCodes || g.families.Len() != maxFamilies {
		t.Errorf("%d codes, %d families", g.codes.Len(), g.families.Len())
	}
	if _, _, err := g.refresh(refresh, "c", func(grant) error { return nil }); err == nil {
		t.Error("the oldest is still there")
	}
}
