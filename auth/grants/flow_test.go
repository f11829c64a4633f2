package grants_test

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/grants"
	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

func readAll(to io.Writer, resp *http.Response) (int64, error) { return io.Copy(to, resp.Body) }

// TestWholeWay: a client gets tokens of the gateway for a user of the provider, who is the same caller
// as with a token of the provider itself.
func TestWholeWay(t *testing.T) {
	w, b := newWorld(t, nil), (*browser)(nil)
	b = w.browser()
	at := b.authorize(t, asks("web", web))
	for name, want := range map[string]string{
		"client_id": "gatehouse", "redirect_uri": "https://gateway.example/oauth/callback", "scope": "mcp offline_access",
		"resource": gateway, "code_challenge_method": "S256",
	} {
		if got := at.Query().Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	resp := b.signedIn(at)
	page := text(resp)
	for _, want := range []string{"Let Web App act for you?", "<strong>app.example</strong>", "alice", gateway,
		"known to whoever runs this gateway"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in %s", want, page)
		}
	}
	if policy := resp.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "frame-ancestors 'none'") ||
		!strings.Contains(policy, "form-action 'self' https:") || strings.Contains(policy, "unsafe") {
		t.Error(policy)
	}
	back := answered(t, b.decide(page, "allow"), web)
	if back.Get("state") != "client state" || back.Get("iss") != gateway || len(back.Get("code")) < 32 {
		t.Fatalf("%v", back)
	}
	a := w.ask(t, "/oauth/token", redeem("web", back, web))
	if a.Status != http.StatusOK || a.ExpiresIn != 600 || a.Scope != "mcp" || a.RefreshToken == "" {
		t.Fatalf("%+v", a)
	}
	ours, ok := w.whose(a.AccessToken, "")
	theirs, ok2 := w.whose(w.issuer.Token(map[string]any{"scope": "mcp", "groups": []string{"sales"}}), "")
	if !ok || !ok2 || ours.User() != theirs.User() || ours.Issuer != w.issuer.URL || ours.Subject != "alice" ||
		!slices.Equal(ours.Groups, theirs.Groups) ||
		ours.ClientID != "web" || !slices.Equal(ours.Scopes, []string{"mcp"}) {
		t.Errorf("%+v\n%+v", ours, theirs)
	}
	if department, _ := ours.Claims.Member("department"); department.Text() != "emea" {
		t.Errorf("claims: %s", ours.Claims)
	}
	if _, ok := w.whose(a.AccessToken, "sales"); !ok {
		t.Error("a token for the gateway is not good at a view")
	}
	again := w.ask(t, "/oauth/token", refresh("web", a.RefreshToken))
	if again.Status != http.StatusOK || again.RefreshToken == a.RefreshToken {
		t.Fatalf("%+v", again)
	}
	if _, ok := w.whose(again.AccessToken, ""); !ok {
		t.Error("a refreshed token is not good")
	}
	var names []string
	for _, e := range w.events {
		names = append(names, e.Name)
	}
	if got := strings.Join(names, ", "); got != "signed in, consent given, token given" {
		t.Error(got)
	}
}

// TestView: a token for a view is good there, and nowhere else.
func TestView(t *testing.T) {
	w := newWorld(t, nil)
	ask := asks("web", web)
	ask.Set("resource", sales)
	form := redeem("web", w.browser().code(t, ask), web)
	form.Set("resource", sales)
	a := w.ask(t, "/oauth/token", form)
	if _, ok := w.whose(a.AccessToken, "sales"); !ok {
		t.Errorf("not good at its view: %+v", a)
	}
	if _, ok := w.whose(a.AccessToken, ""); ok {
		t.Error("good at the gateway")
	}
}

// TestConsent: consent is remembered for a client on the web, never for a program; a no is told.
func TestConsent(t *testing.T) {
	w := newWorld(t, nil)
	again := func(ask url.Values) int { b := w.browser(); return b.signedIn(b.authorize(t, ask)).StatusCode }
	w.browser().code(t, asks("web", web))
	w.browser().code(t, asks("desk", loopback))
	if got := again(asks("web", web)); got != http.StatusSeeOther {
		t.Errorf("a remembered client: %d", got)
	}
	if got := again(asks("desk", loopback)); got != http.StatusOK {
		t.Errorf("a program: %d", got)
	}
	if got := again(asks("server", web)); got != http.StatusOK {
		t.Errorf("another client at the same place: %d", got)
	}
	for name, value := range map[string]string{"resource": sales, "scope": "mcp files"} {
		more := asks("web", web)
		more.Set(name, value)
		if got := again(more); got != http.StatusOK {
			t.Errorf("more than was allowed, %s: %d", name, got)
		}
	}
	asked := asks("web", web)
	asked.Set("prompt", "consent")
	if got := again(asked); got != http.StatusOK {
		t.Errorf("prompt=consent: %d", got)
	}
	w.set(func() { w.user = "bob" })
	b := w.browser()
	resp := b.signedIn(b.authorize(t, asks("web", web)))
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("another user: %d", resp.StatusCode)
	}
	if no := answered(t, b.decide(text(resp), "deny"), web); no.Get("error") != "access_denied" ||
		no.Get("iss") != gateway || no.Has("code") {
		t.Errorf("%v", no)
	}
	b = w.browser()
	if page := text(b.signedIn(b.authorize(t, asks("desk", loopback)))); !strings.Contains(page,
		"A program on this computer") || !strings.Contains(page, "127.0.0.1") {
		t.Error(page)
	}

	always := newWorld(t, func(c *auth.Config) { c.Server.Consent = auth.ConsentAlways })
	always.browser().code(t, asks("web", web))
	b = always.browser()
	if got := b.signedIn(b.authorize(t, asks("web", web))).StatusCode; got != http.StatusOK {
		t.Errorf("consent: always: %d", got)
	}
}

// TestRootResource: clients in JavaScript cannot write a URL without a path but with / at its end.
func TestRootResource(t *testing.T) {
	w := newWorld(t, nil)
	w.deps.PublicURL = "https://gateway.example"
	var err error
	if w.Server, err = grants.New(w.cfg, w.deps); err != nil {
		t.Fatal(err)
	}
	ask := asks("web", web)
	ask.Set("resource", "https://gateway.example/")
	form := redeem("web", w.browser().code(t, ask), web)
	form.Set("resource", "https://gateway.example/")
	a := w.ask(t, "/oauth/token", form)
	claims, err := base64.RawURLEncoding.DecodeString(strings.Split(a.AccessToken+"..", ".")[1])
	if a.Status != http.StatusOK || err != nil || !strings.Contains(string(claims), `"aud":"https://gateway.example"`) {
		t.Errorf("%+v %s", a, claims)
	}
	ask.Set("resource", "https://gateway.example.evil.example/")
	if at := w.browser().do(get("https://gateway.example/oauth/authorize?" +
		ask.Encode())).Header.Get("Location"); !strings.Contains(at, "error=invalid_target") {
		t.Error(at)
	}
}

// TestServerWithoutRedis: whether a grant has ended cannot be known then, so its tokens are good for a
// minute at most; clients are told to try again, and keep what they have.
func TestServerWithoutRedis(t *testing.T) {
	w := newWorld(t, nil)
	redis := redistest.Start(t)
	db, err := redisdb.Open(redisdb.Config{URL: mcp.Secret(redis.URL())}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	state, err := grants.NewState(expiring.Base{Redis: db}, seal.NewRandom)
	if err != nil {
		t.Fatal(err)
	}
	w.open(t, state)
	a := w.tokens(t)
	_, known := w.whose(a.AccessToken, "")
	redis.Kill()
	if _, ok := w.whose(a.AccessToken, ""); !known || !ok {
		t.Error("a token that was verified a moment ago")
	}
	w.open(t, state)
	r := httptest.NewRequest(http.MethodPost, gateway, nil)
	r.Header.Set("Authorization", "Bearer "+a.AccessToken)
	rw := httptest.NewRecorder()
	w.auth.Require(http.NotFoundHandler()).ServeHTTP(rw, r)
	if rw.Code != http.StatusServiceUnavailable || rw.Header().Get("Retry-After") == "" {
		t.Errorf("%d %s", rw.Code, rw.Body)
	}
	if b := w.ask(t, "/oauth/token", refresh("web", a.RefreshToken)); b.Status != http.StatusServiceUnavailable ||
		b.Error != "temporarily_unavailable" {
		t.Errorf("%+v", b)
	}
	b := w.browser()
	if resp := b.signedIn(b.authorize(t, asks("web", web))); resp.StatusCode != http.StatusServiceUnavailable ||
		!strings.Contains(text(resp), "Try again") {
		t.Errorf("a sign-in: %d", resp.StatusCode)
	}
}

// TestConfidential: a client with a secret proves who it is.
func TestConfidential(t *testing.T) {
	w := newWorld(t, nil)
	form := redeem("server", w.browser().code(t, asks("server", web)), web)
	if a := w.ask(t, "/oauth/token", form); a.Status != http.StatusUnauthorized || a.Error != "invalid_client" {
		t.Errorf("without its secret: %+v", a)
	}
	form.Set("client_secret", "another secret, a wrong one")
	if a := w.ask(t, "/oauth/token", form); a.Error != "invalid_client" {
		t.Errorf("with another secret: %+v", a)
	}
	form.Del("client_secret")
	r := post("/oauth/token", form)
	r.SetBasicAuth("server", url.QueryEscape("a secret of this client"))
	if resp := w.do(r); resp.StatusCode != http.StatusOK {
		t.Errorf("%d %s", resp.StatusCode, text(resp))
	}
}

// TestMetadata: clients find the server wherever they look, from a page of a browser, too.
func TestMetadata(t *testing.T) {
	w := newWorld(t, nil)
	for _, path := range []string{
		"/.well-known/oauth-authorization-server", "/.well-known/oauth-authorization-server/mcp",
		"/.well-known/oauth-authorization-server/mcp/sales",
		"/.well-known/openid-configuration", "/.well-known/openid-configuration/mcp", "/mcp/.well-known/openid-configuration",
	} {
		resp := w.do(get("https://gateway.example" + path))
		var doc map[string]any
		if body := text(resp); resp.StatusCode != http.StatusOK || json.Unmarshal([]byte(body), &doc) != nil {
			t.Fatalf("%s: %d %s", path, resp.StatusCode, body)
		}
		for name, want := range map[string]any{
			"issuer": gateway, "authorization_endpoint": "https://gateway.example/oauth/authorize",
			"token_endpoint":      "https://gateway.example/oauth/token",
			"revocation_endpoint": "https://gateway.example/oauth/revoke", "jwks_uri": "https://gateway.example/oauth/jwks",
			"authorization_response_iss_parameter_supported": true, "client_id_metadata_document_supported": false,
			"registration_endpoint": nil,
		} {
			if doc[name] != want {
				t.Errorf("%s: %s: %v", path, name, doc[name])
			}
		}
		if got := resp.Header.Get("Access-Control-Allow-Origin"); got != "*" {
			t.Errorf("%s: CORS %q", path, got)
		}
	}
	for _, path := range []string{"/oauth/token", "/oauth/revoke", "/oauth/jwks"} {
		r := get("https://gateway.example" + path)
		r.Method = http.MethodOptions
		if resp := w.do(r); resp.StatusCode != http.StatusNoContent ||
			!strings.Contains(resp.Header.Get("Access-Control-Allow-Headers"), "Authorization") {
			t.Errorf("%s: %d %v", path, resp.StatusCode, resp.Header)
		}
	}
	if resp := w.do(get("https://gateway.example/oauth/jwks")); strings.Contains(text(resp), `"d"`) {
		t.Error("a private key is published")
	}
}

// TestErrors: whoever may read it learns what is wrong.
func TestErrors(t *testing.T) {
	w := newWorld(t, func(c *auth.Config) { c.Server.DenyClients = []string{"evil.example"} })
	for name, tt := range map[string]struct {
		change func(url.Values)
		want   string // the error at the client; "" for a page
	}{
		"no client":         {func(v url.Values) { v.Del("client_id") }, ""},
		"an unknown client": {func(v url.Values) { v.Set("client_id", "nobody") }, ""},
		"a denied client":   {func(v url.Values) { v.Set("client_id", "evil"); v.Set("redirect_uri", "https://evil.example/cb") }, ""},
		"no redirect URI":   {func(v url.Values) { v.Del("redirect_uri") }, ""},
		"two states":        {func(v url.Values) { v.Add("state", "x") }, ""},
		"another flow": {func(v url.Values) { v.Set("response_type", "token") },
			"unsupported_response_type"},
		"a fragment":       {func(v url.Values) { v.Set("response_mode", "fragment") }, "invalid_request"},
		"a request object": {func(v url.Values) { v.Set("request", "e30") }, "invalid_request"},
		"no page":          {func(v url.Values) { v.Set("prompt", "none") }, "login_required"},
		"what is not the gateway": {func(v url.Values) { v.Set("resource", "https://other.example/mcp") },
			"invalid_target"},
		"a slash behind the resource":    {func(v url.Values) { v.Set("resource", gateway+"/") }, "invalid_target"},
		"two resources":                  {func(v url.Values) { v.Add("resource", sales) }, "invalid_target"},
		"a request that is far too long": {func(v url.Values) { v.Set("state", strings.Repeat("x", 4000)) }, ""},
	} {
		ask := asks("web", web)
		tt.change(ask)
		resp := w.browser().do(get("https://gateway.example/oauth/authorize?" + ask.Encode()))
		if tt.want == "" {
			if resp.Header.Get("Location") != "" || resp.StatusCode/100 != 4 ||
				!strings.Contains(text(resp), "That did not work") {
				t.Errorf("%s: %d %s", name, resp.StatusCode, resp.Header.Get("Location"))
			}
			continue
		}
		if got := answered(t, resp, web); got.Get("error") != tt.want || got.Get("iss") != gateway ||
			got.Get("state") != "client state" {
			t.Errorf("%s: %v", name, got)
		}
	}
	if a := w.ask(t, "/oauth/token", url.Values{"grant_type": {"password"},
		"client_id": {"web"}}); a.Error != "unsupported_grant_type" {
		t.Errorf("%+v", a)
	}
	if a := w.ask(t, "/oauth/token", url.Values{"grant_type": {"refresh_token"}}); a.Error != "invalid_client" ||
		a.Status != http.StatusUnauthorized {
		t.Errorf("%+v", a)
	}
}

// TestExamine: the gateway that runs says of its own tokens at which step they are refused.
func TestExamine(t *testing.T) {
	w := newWorld(t, nil)
	token := w.tokens(t).AccessToken
	e, _ := auth.Examine(t.Context(), w.auth, token, "")
	if !e.Good || e.Caller.User != "alice" || e.Caller.Client != "web" || !strings.Contains(e.Kind, "the gateway's own") ||
		slices.ContainsFunc(e.Steps, func(s auth.Examined) bool { return s.Result != auth.StepGood }) {
		t.Errorf("a good one: %+v", e)
	}
	failed := func(token string) (auth.Step, auth.Examination) {
		e, _ := auth.Examine(t.Context(), w.auth, token, "")
		for _, s := range e.Steps {
			if s.Result == auth.StepFailed {
				return s.Step, e
			}
		}
		return "", e
	}
	if step, e := failed(token[:len(token)-8] + "AAAAAAAA"); step != auth.StepSignature {
		t.Errorf("a changed one: %s, %+v", step, e)
	}
	w.ask(t, "/oauth/revoke", url.Values{"client_id": {"web"}, "token": {token}})
	if step, e := failed(token); step != auth.StepRevoked || !strings.Contains(e.Next, "Sign in again") {
		t.Errorf("a revoked one: %s, %+v", step, e)
	}
}
