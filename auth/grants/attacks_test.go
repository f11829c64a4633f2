package grants_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/grants"
	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

// isPage reports whether a browser was shown what is wrong, and sent nowhere.
func isPage(resp *http.Response) bool {
	return resp.Header.Get("Location") == "" && resp.StatusCode/100 == 4 &&
		strings.Contains(text(resp), "That did not work")
}

// TestConfusedDeputy: the gateway has one client at the provider, where the user may be signed in
// already. Nobody gets a code by that: not at a place that is not the client's, and not as another
// client than the one that the user allowed.
func TestConfusedDeputy(t *testing.T) {
	w := newWorld(t, nil)
	w.browser().code(t, asks("web", web)) // the user has allowed it
	for _, redirect := range []string{
		"https://evil.example/cb", web + "/../x", web + "?x=1", "https://app.example.evil.example/cb",
		"https://app.example@evil.example/cb", "http://app.example/cb", web + "#x", "javascript:alert(1)",
	} {
		ask := asks("web", redirect)
		if resp := w.browser().do(get("https://gateway.example/oauth/authorize?" + ask.Encode())); !isPage(resp) {
			t.Errorf("%s: %d %s", redirect, resp.StatusCode, resp.Header.Get("Location"))
		}
	}
	b := w.browser()
	if resp := b.signedIn(b.authorize(t, asks("evil", "https://evil.example/cb"))); resp.StatusCode != http.StatusOK ||
		!strings.Contains(text(resp), "evil.example") {
		t.Errorf("another client was not asked about: %d %s", resp.StatusCode, resp.Header.Get("Location"))
	}
}

// TestConsentBypass: no code without the form of the page that this very browser was shown, once.
func TestConsentBypass(t *testing.T) {
	w := newWorld(t, nil)
	shown := func() (*browser, string) {
		b := w.browser()
		resp := b.signedIn(b.authorize(t, asks("desk", loopback)))
		page := text(resp)
		if resp.Header.Get("Location") != "" || !pageID.MatchString(page) {
			t.Fatalf("%d %s", resp.StatusCode, page)
		}
		return b, page
	}
	_, page := shown()
	if !isPage(w.browser().decide(page, "allow")) {
		t.Error("a browser without the cookie decided")
	}
	other, _ := shown()
	if !isPage(other.decide(page, "allow")) {
		t.Error("another browser decided")
	}
	b, page := shown()
	crossed := post("/oauth/consent", url.Values{"id": {pageID.FindStringSubmatch(page)[1]}, "decision": {"allow"}})
	crossed.Header.Set("Sec-Fetch-Site", "cross-site")
	if !isPage(b.do(crossed)) {
		t.Error("a form of another site decided")
	}
	if r := get("https://gateway.example/oauth/consent?id=" + pageID.FindStringSubmatch(page)[1] +
		"&decision=allow"); b.do(r).StatusCode != http.StatusMethodNotAllowed {
		t.Error("a link decided")
	}
	if resp := b.decide(page, ""); answered(t, resp, loopback).Get("error") != "access_denied" {
		t.Error("no decision is a yes")
	}
	b, page = shown()
	answered(t, b.decide(page, "allow"), loopback)
	if !isPage(b.decide(page, "allow")) {
		t.Error("the form was good twice")
	}
}

// TestRelayReplay: what the provider answers is good in the browser that asked, once.
func TestRelayReplay(t *testing.T) {
	w := newWorld(t, nil)
	victim := w.browser()
	at := victim.authorize(t, asks("web", web))
	if !isPage(w.browser().signedIn(at)) {
		t.Error("another browser went on with a sign-in")
	}
	attacker := w.browser()
	attacker.authorize(t, asks("web", web))
	if !isPage(attacker.signedIn(at)) {
		t.Error("a sign-in of another browser went on in one that has its own")
	}
	if resp := victim.signedIn(at); resp.StatusCode != http.StatusOK {
		t.Fatal(resp.StatusCode)
	}
	if !isPage(victim.signedIn(at)) {
		t.Error("the same answer was good twice")
	}
}

// TestMixUp: an answer of another issuer than the one that was asked ends the sign-in, and tells the
// client nothing.
func TestMixUp(t *testing.T) {
	w := newWorld(t, nil)
	for _, iss := range []string{"https://evil.example", ""} {
		b := w.browser()
		at := b.authorize(t, asks("web", web))
		answer := url.Values{"code": {"good"}, "state": {at.Query().Get("state")}}
		if iss != "" {
			answer.Set("iss", iss)
		}
		resp := b.do(get("https://gateway.example/oauth/callback?" + answer.Encode()))
		if body := text(resp); resp.Header.Get("Location") != "" || !strings.Contains(body, "another issuer") ||
			pageID.MatchString(body) {
			t.Errorf("iss %q: %d %s", iss, resp.StatusCode, body)
		}
	}
	if len(w.forms) > 0 {
		t.Error("a code was sent to the provider")
	}
}

// TestCodeInjection: a code is worth nothing to another client, and nothing in another sign-in.
func TestCodeInjection(t *testing.T) {
	w := newWorld(t, nil)
	for name, change := range map[string]func(url.Values){
		"another client":      func(v url.Values) { v.Set("client_id", "evil") },
		"another verifier":    func(v url.Values) { v.Set("code_verifier", strings.Repeat("x", 43)) },
		"no verifier":         func(v url.Values) { v.Del("code_verifier") },
		"another redirect":    func(v url.Values) { v.Set("redirect_uri", "https://evil.example/cb") },
		"another resource":    func(v url.Values) { v.Set("resource", sales) },
		"no code":             func(v url.Values) { v.Del("code") },
		"a made-up code":      func(v url.Values) { v.Set("code", "made-up") },
		"two codes":           func(v url.Values) { v.Add("code", "x") },
		"the provider's code": func(v url.Values) { v.Set("code", "good") },
	} {
		form := redeem("web", w.browser().code(t, asks("web", web)), web)
		change(form)
		if a := w.ask(t, "/oauth/token", form); a.Status != http.StatusBadRequest || a.AccessToken != "" {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

// TestPKCEDowngrade: there is no way without S256.
func TestPKCEDowngrade(t *testing.T) {
	w := newWorld(t, nil)
	for name, change := range map[string]func(url.Values){
		"no challenge":       func(v url.Values) { v.Del("code_challenge") },
		"an empty challenge": func(v url.Values) { v.Set("code_challenge", "") },
		"plain":              func(v url.Values) { v.Set("code_challenge_method", "plain") },
		"no method":          func(v url.Values) { v.Del("code_challenge_method") },
		"a short challenge":  func(v url.Values) { v.Set("code_challenge", "x") },
	} {
		ask := asks("web", web)
		change(ask)
		resp := w.browser().do(get("https://gateway.example/oauth/authorize?" + ask.Encode()))
		if got := answered(t, resp, web); got.Get("error") != "invalid_request" {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestResourceSwap: a token is for what the user has consented to, at each refresh, too.
func TestResourceSwap(t *testing.T) {
	w := newWorld(t, nil)
	ask := asks("web", web)
	ask.Set("resource", sales)
	form := redeem("web", w.browser().code(t, ask), web)
	if a := w.ask(t, "/oauth/token", form); a.Error != "invalid_target" {
		t.Errorf("the gateway in place of a view: %+v", a)
	}
	form = redeem("web", w.browser().code(t, ask), web)
	form.Del("resource") // clients may leave it out
	a := w.ask(t, "/oauth/token", form)
	if _, ok := w.whose(a.AccessToken, ""); ok || a.Status != http.StatusOK {
		t.Errorf("%+v", a)
	}
	swap := refresh("web", a.RefreshToken)
	swap.Set("resource", gateway)
	if a := w.ask(t, "/oauth/token", swap); a.Error != "invalid_target" {
		t.Errorf("at a refresh: %+v", a)
	}
	if a := w.ask(t, "/oauth/token", refresh("web", a.RefreshToken)); a.Status != http.StatusOK {
		t.Errorf("a good refresh after a bad one: %+v", a)
	} else if _, ok := w.whose(a.AccessToken, ""); ok {
		t.Error("the refreshed token is good at the gateway")
	}
}

// TestCodeTwice: a code that is used twice ends what it gave.
func TestCodeTwice(t *testing.T) {
	w := newWorld(t, nil)
	form := redeem("web", w.browser().code(t, asks("web", web)), web)
	a := w.ask(t, "/oauth/token", form)
	if b := w.ask(t, "/oauth/token", form); a.Status != http.StatusOK || b.Error != "invalid_grant" {
		t.Fatalf("%+v %+v", a, b)
	}
	if b := w.ask(t, "/oauth/token", refresh("web", a.RefreshToken)); b.Error != "invalid_grant" {
		t.Errorf("the refresh token is still good: %+v", b)
	}
	if _, ok := w.whose(a.AccessToken, ""); ok {
		t.Error("the access token is still good")
	}
}

// TestRefreshReuse: a refresh token that was taken out of use ends the grant, except that of a client
// that has just lost the answer.
func TestRefreshReuse(t *testing.T) {
	w := newWorld(t, nil)
	first := w.tokens(t)
	second := w.ask(t, "/oauth/token", refresh("web", first.RefreshToken))
	retried := w.ask(t, "/oauth/token", refresh("web", first.RefreshToken))
	if second.Status != http.StatusOK || retried.RefreshToken != second.RefreshToken {
		t.Fatalf("a retry: %+v %+v", second, retried)
	}
	third := w.ask(t, "/oauth/token", refresh("web", second.RefreshToken))
	if a := w.ask(t, "/oauth/token", refresh("evil", third.RefreshToken)); a.Error != "invalid_grant" {
		t.Errorf("another client: %+v", a)
	}
	if a := w.ask(t, "/oauth/token", refresh("web", first.RefreshToken)); a.Error != "invalid_grant" {
		t.Errorf("used twice: %+v", a)
	}
	if a := w.ask(t, "/oauth/token", refresh("web", third.RefreshToken)); a.Error != "invalid_grant" {
		t.Errorf("the grant goes on: %+v", a)
	}
	if _, ok := w.whose(third.AccessToken, ""); ok {
		t.Error("the access token is still good")
	}
}

// TestDisabledUser: a user whom the provider does not let go on loses access at the next refresh. A
// provider that is away is no such answer.
func TestDisabledUser(t *testing.T) {
	w := newWorld(t, nil)
	a := w.tokens(t)
	w.set(func() { w.away = true })
	if b := w.ask(t, "/oauth/token", refresh("web", a.RefreshToken)); b.Status != http.StatusServiceUnavailable ||
		b.Error != "temporarily_unavailable" {
		t.Errorf("while the provider is away: %+v", b)
	}
	w.set(func() { w.away, w.claims = false, map[string]any{"groups": []string{"others"}} })
	b := w.ask(t, "/oauth/token", refresh("web", a.RefreshToken))
	if who, ok := w.whose(b.AccessToken, ""); !ok || len(who.Groups) != 1 || who.Groups[0] != "others" {
		t.Errorf("new groups: %+v %+v", b, who)
	}
	w.set(func() { w.disabled = true })
	if c := w.ask(t, "/oauth/token", refresh("web", b.RefreshToken)); c.Error != "invalid_grant" {
		t.Errorf("disabled: %+v", c)
	}
	w.set(func() { w.disabled = false })
	if c := w.ask(t, "/oauth/token", refresh("web", b.RefreshToken)); c.Error != "invalid_grant" {
		t.Errorf("the grant has ended: %+v", c)
	}
	w.set(func() { w.claims = nil })
	d := w.tokens(t)
	w.set(func() { w.user = "mallory" })
	if c := w.ask(t, "/oauth/token", refresh("web", d.RefreshToken)); c.Error != "invalid_grant" {
		t.Errorf("another user: %+v", c)
	}
}

// TestProviderTokenKept: what the provider gives at a refresh is kept, though its keys cannot be read
// now, or the client has gone: else the next refresh would show the provider a token of before.
func TestProviderTokenKept(t *testing.T) {
	w := newWorld(t, nil)
	a := w.tokens(t)
	w.issuer.Rotate("ES256")
	w.issuer.Break(mcptest.EndpointJWKS, mcptest.Status(http.StatusInternalServerError))
	if b := w.ask(t, "/oauth/token", refresh("web", a.RefreshToken)); b.Status != http.StatusServiceUnavailable ||
		b.Error != "temporarily_unavailable" {
		t.Errorf("while the provider's keys cannot be read: %+v", b)
	}
	w.issuer.Mend()
	w.open(t, w.state)
	ctx, gone := context.WithCancel(t.Context())
	w.set(func() { w.asked = gone })
	w.do(post("/oauth/token", refresh("web", a.RefreshToken)).WithContext(ctx))
	w.set(func() { w.asked = nil })
	// again, within a short while
	if b := w.ask(t, "/oauth/token", refresh("web", a.RefreshToken)); b.Status != http.StatusOK {
		t.Errorf("%+v", b)
	}
	if w.forms[1].Get("refresh_token") != "at-the-provider-1" || w.forms[2].Get("refresh_token") != "at-the-provider-2" ||
		len(w.forms) != 3 {
		t.Errorf("the provider was shown %v", w.forms)
	}
}

// TestRevocation: a client gives back what it has, and nobody else's.
func TestRevocation(t *testing.T) {
	w := newWorld(t, nil)
	for _, which := range []string{"refresh", "access"} {
		a := w.tokens(t)
		token := a.RefreshToken
		if which == "access" {
			token = a.AccessToken
		}
		if r := w.ask(t, "/oauth/revoke", url.Values{"client_id": {"evil"}, "token": {token}}); r.Status != http.StatusOK {
			t.Errorf("%s: %+v", which, r)
		}
		if b := w.ask(t, "/oauth/token", refresh("web", a.RefreshToken)); b.Status != http.StatusOK {
			t.Fatalf("%s: another client revoked it: %+v", which, b)
		} else if which == "refresh" {
			token = b.RefreshToken
		}
		if r := w.ask(t, "/oauth/revoke", url.Values{"client_id": {"web"}, "token": {token}}); r.Status != http.StatusOK {
			t.Errorf("%s: %+v", which, r)
		}
		if _, ok := w.whose(a.AccessToken, ""); ok {
			t.Errorf("%s: the access token is still good", which)
		}
	}
	for _, token := range []string{"", "x", "a.b", "a.b.c"} {
		if r := w.ask(t, "/oauth/revoke", url.Values{"client_id": {"web"}, "token": {token}}); r.Status != http.StatusOK {
			t.Errorf("%q: %+v", token, r)
		}
	}
}

// TestRegisteredClient: a client that has registered itself outlives a reload, and can be denied by the
// id that records have.
func TestRegisteredClient(t *testing.T) {
	w := newWorld(t, func(c *auth.Config) { c.Server.Registration.DCR.Enabled = true })
	r := post("/oauth/register", nil)
	r.Body = io.NopCloser(strings.NewReader(`{"redirect_uris":["http://127.0.0.1/cb"],"token_endpoint_auth_method":"none"}`))
	r.Header.Set("Content-Type", "application/json")
	var client struct {
		ID string `json:"client_id"`
	}
	if err := json.NewDecoder(w.do(r).Body).Decode(&client); err != nil || client.ID == "" {
		t.Fatal(client, err)
	}
	w.open(t, w.state)
	a := w.ask(t, "/oauth/token", redeem(client.ID, w.browser().code(t, asks(client.ID, loopback)), loopback))
	who, ok := w.whose(a.AccessToken, "")
	if !ok {
		t.Fatalf("after a reload: %+v", a)
	}
	w.cfg.Server.DenyClients = []string{who.ClientID}
	w.open(t, w.state)
	if b := w.ask(t, "/oauth/token", refresh(client.ID, a.RefreshToken)); b.Error != "invalid_client" {
		t.Errorf("denied: %+v", b)
	}
}

// TestForgedToken: only the keys of this server make tokens of it, and only of one kind.
func TestForgedToken(t *testing.T) {
	w := newWorld(t, nil)
	good := w.tokens(t).AccessToken
	parts := strings.Split(good, ".")
	claims, _ := base64.RawURLEncoding.DecodeString(parts[1])
	header, _ := base64.RawURLEncoding.DecodeString(parts[0])
	key := mcptest.NewKey("", "ES256", 0)
	admin := strings.Replace(string(claims), `"sub":"alice"`, `"sub":"admin"`, 1)
	for name, token := range map[string]string{
		"another key":        key.SignText(string(header), string(claims)),
		"the provider's key": w.issuer.Key().SignText(string(header), string(claims)),
		"changed claims":     parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(admin)) + "." + parts[2],
		"no signature": base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"at+jwt"}`)) + "." +
			parts[1] + "." + parts[2],
		"as one of the provider": w.issuer.Token(map[string]any{"iss": gateway, "scope": "mcp"}),
		"the refresh token":      w.tokens(t).RefreshToken,
		"the provider's own ID token": w.issuer.Sign(map[string]any{"typ": "JWT"},
			map[string]any{"aud": "gatehouse", "nonce": "x"}),
	} {
		if who, ok := w.whose(token, ""); ok {
			t.Errorf("%s: %+v", name, who)
		}
	}
	other := newWorld(t, nil)
	if _, ok := other.whose(good, ""); ok {
		t.Error("a token of another gateway")
	}
}

// TestReload: what a former configuration gave ends where the new one does not allow it.
func TestReload(t *testing.T) {
	w := newWorld(t, nil)
	a := w.tokens(t)
	w.open(t, w.state)
	if _, ok := w.whose(a.AccessToken, ""); !ok {
		t.Error("a reload ended a token")
	}
	second := mcptest.NewIssuer(mcptest.IssuerOptions{})
	t.Cleanup(second.Close)
	w.cfg.Issuers = append(w.cfg.Issuers, auth.Issuer{URL: second.URL})
	w.cfg.Server.Provider = second.URL
	w.open(t, w.state)
	if _, ok := w.whose(a.AccessToken, ""); ok {
		t.Error("a user of a former provider gets in")
	}
	if b := w.ask(t, "/oauth/token", refresh("web", a.RefreshToken)); b.Error != "invalid_grant" {
		t.Errorf("%+v", b)
	}
	w.cfg.Server.Provider, w.cfg.Server.DenyClients = "", []string{"web"}
	w.open(t, w.state)
	if b := w.ask(t, "/oauth/token", refresh("web", a.RefreshToken)); b.Error != "invalid_client" {
		t.Errorf("a client that is denied now: %+v", b)
	}
	state, err := grants.NewState(expiring.Base{}, seal.NewRandom)
	if err != nil {
		t.Fatal(err)
	}
	w.open(t, state)
	if _, ok := w.whose(a.AccessToken, ""); ok {
		t.Error("a token of keys that are gone")
	}
}

// TestConsentPagesOfOthers: however often one user is asked for consent, the pages of others are there.
func TestConsentPagesOfOthers(t *testing.T) {
	w := newWorld(t, nil)
	bob := w.browser()
	w.set(func() { w.user = "bob" })
	page := text(bob.signedIn(bob.authorize(t, asks("web", web))))
	w.set(func() { w.user = "alice" })
	for range 2100 {
		b := w.browser()
		if resp := b.signedIn(b.authorize(t, asks("web", web))); resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status)
		}
	}
	answered(t, bob.decide(page, "allow"), web)
}
