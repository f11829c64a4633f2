package grants_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// assertion is an identity assertion of an issuer for the client "server".
func assertion(of *mcptest.Issuer, header, change map[string]any) string {
	now := time.Now()
	claims := map[string]any{
		"iss": of.URL, "sub": "alice", "aud": gateway, "client_id": "server", "resource": gateway, "scope": "mcp files",
		"jti": "one", "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(), "groups": []string{"sales"},
	}
	for name, value := range change {
		claims[name] = value
	}
	all := map[string]any{"typ": "oauth-id-jag+jwt"}
	for name, value := range header {
		all[name] = value
	}
	return of.Sign(all, claims)
}

func byAssertion(text string) url.Values {
	return url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "client_id": {"server"},
		"client_secret": {"a secret of this client"}, "assertion": {text},
	}
}

func takesAssertions(cfg *auth.Config) { cfg.Server.IDJAG = true }

// TestIdentityAssertion: for an assertion of the provider, a client gets a token for its user, who is
// the same caller as with a token of the provider itself, and no refresh token.
func TestIdentityAssertion(t *testing.T) {
	w := newWorld(t, takesAssertions)
	a := w.ask(t, "/oauth/token", byAssertion(assertion(w.issuer, nil, nil)))
	if a.Status != http.StatusOK || a.RefreshToken != "" || a.ExpiresIn != 600 || a.Scope != "mcp files" {
		t.Fatalf("%+v", a)
	}
	ours, ok := w.whose(a.AccessToken, "")
	theirs, _ := w.whose(w.issuer.Token(map[string]any{"scope": "mcp files", "groups": []string{"sales"}}), "")
	if !ok || ours.User() != theirs.User() || !slices.Equal(ours.Groups, theirs.Groups) || ours.ClientID != "server" ||
		!slices.Equal(ours.Scopes, []string{"mcp", "files"}) {
		t.Errorf("%+v\n%+v", ours, theirs)
	}
	if resource, has := ours.Claims.Member("resource"); has {
		t.Errorf("a claim about the assertion is one about the user: %s", resource)
	}

	// A view, by the request or by the assertion; fewer scopes; and scopes that the provider leaves to us.
	form := byAssertion(assertion(w.issuer, nil, map[string]any{"jti": "two", "resource": nil, "scope": nil}))
	form.Set("resource", sales)
	form.Set("scope", "mcp")
	if a = w.ask(t, "/oauth/token", form); a.Status != http.StatusOK || a.Scope != "mcp" {
		t.Fatalf("%+v", a)
	}
	if _, ok := w.whose(a.AccessToken, "sales"); !ok {
		t.Error("not good at its view")
	}
	if _, ok := w.whose(a.AccessToken, ""); ok {
		t.Error("good at the gateway")
	}
	var events []string
	for _, e := range w.events {
		events = append(events, e.Name+" "+e.Reason+" "+e.Caller.Subject+" "+e.Client+" "+e.View)
	}
	if got := strings.Join(events,
		", "); got != "token given for an identity assertion alice server , token given for an identity assertion alice server sales" {
		t.Error(got)
	}
	document := text(w.do(get("https://gateway.example/.well-known/oauth-authorization-server")))
	if !strings.Contains(document,
		`"authorization_grant_profiles_supported":["urn:ietf:params:oauth:grant-profile:id-jag"]`) ||
		!strings.Contains(document, "jwt-bearer") {
		t.Error(document)
	}
}

// TestForeignAssertion: no assertion is good that the provider did not make for this client and this
// server, or that was used before.
func TestForeignAssertion(t *testing.T) {
	w := newWorld(t, takesAssertions)
	foreign := mcptest.NewIssuer(mcptest.IssuerOptions{})
	t.Cleanup(foreign.Close)
	used := assertion(w.issuer, nil, map[string]any{"jti": "used"})
	if a := w.ask(t, "/oauth/token", byAssertion(used)); a.Status != http.StatusOK {
		t.Fatalf("%+v", a)
	}
	now := time.Now()
	public := byAssertion(assertion(w.issuer, nil, map[string]any{"client_id": "web"}))
	public.Set("client_id", "web")
	public.Del("client_secret")
	wrong := byAssertion(assertion(w.issuer, nil, nil))
	wrong.Set("client_secret", "a guess")
	swapped := byAssertion(assertion(w.issuer, nil, nil))
	swapped.Set("resource", sales)
	with := func(name string, value any) url.Values {
		return byAssertion(assertion(w.issuer, nil, map[string]any{name: value}))
	}
	for name, tt := range map[string]struct {
		form url.Values
		code string
	}{
		"replay":             {byAssertion(used), "invalid_grant"},
		"a foreign provider": {byAssertion(assertion(foreign, nil, nil)), "invalid_grant"},
		"signed by a foreign provider": {byAssertion(assertion(foreign, nil, map[string]any{"iss": w.issuer.URL})),
			"invalid_grant"},
		"another audience": {with("aud", "https://other.example/"), "invalid_grant"},
		"two audiences":    {with("aud", []string{gateway, "https://other.example/"}), "invalid_grant"},
		"another client":   {with("client_id", "web"), "invalid_grant"},
		"no client":        {with("client_id", nil), "invalid_grant"},
		"an access token": {byAssertion(assertion(w.issuer, map[string]any{"typ": "at+jwt"}, nil)),
			"invalid_grant"},
		"no type": {byAssertion(assertion(w.issuer, map[string]any{"typ": nil}, nil)),
			"invalid_grant"},
		"no jti":                          {with("jti", nil), "invalid_grant"},
		"no iat":                          {with("iat", nil), "invalid_grant"},
		"no exp":                          {with("exp", nil), "invalid_grant"},
		"over":                            {with("exp", now.Add(-time.Hour).Unix()), "invalid_grant"},
		"good for too long":               {with("exp", now.Add(2*time.Hour).Unix()), "invalid_grant"},
		"no user":                         {with("sub", nil), "invalid_grant"},
		"bound to a key":                  {with("cnf", map[string]any{"jkt": "x"}), "invalid_grant"},
		"a resource that is not ours":     {with("resource", "https://other.example/"), "invalid_target"},
		"resources that cannot be read":   {with("resource", []string{gateway}), "invalid_grant"},
		"another resource in the request": {swapped, "invalid_target"},
		"a client that proves nothing":    {public, "unauthorized_client"},
		"a client that proves it wrongly": {wrong, "invalid_client"},
		"nothing":                         {byAssertion(""), "invalid_grant"},
		"no JWT":                          {byAssertion("opaque"), "invalid_grant"},
		"a token of the gateway":          {byAssertion(w.tokens(t).AccessToken), "invalid_grant"},
	} {
		if a := w.ask(t, "/oauth/token", tt.form); a.Error != tt.code || a.AccessToken != "" {
			t.Errorf("%s: %+v, want %s", name, a, tt.code)
		}
	}
	// What was refused was not used up.
	if a := w.ask(t, "/oauth/token", byAssertion(assertion(w.issuer, nil, nil))); a.Status != http.StatusOK {
		t.Errorf("%+v", a)
	}
	off := newWorld(t, nil)
	if a := off.ask(t, "/oauth/token", byAssertion(assertion(off.issuer, nil, nil))); a.Error != "unsupported_grant_type" {
		t.Errorf("not configured: %+v", a)
	}
}
