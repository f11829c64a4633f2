package demo

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The challenge and its verifier are those of RFC 7636 appendix B.
const (
	challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
	verifier  = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
	callback  = "http://127.0.0.1:8080/oauth/callback"
)

func newTestProvider(t *testing.T) *provider {
	t.Helper()
	alice := user{Subject: "alice", Name: "Alice", Groups: []string{"engineering"}}
	p, err := newProvider("http://127.0.0.1:8081", callback, []user{alice})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// pick sends the form of the page, changed, and returns the answer.
func pick(p *provider, change func(query, form url.Values, h http.Header)) *http.Response {
	query := url.Values{
		"client_id": {"gateway"}, "redirect_uri": {callback}, "response_type": {"code"}, "state": {"s"}, "nonce": {"n"},
		"code_challenge": {challenge}, "code_challenge_method": {"S256"},
	}
	form := url.Values{"user": {"alice"}}
	header := http.Header{"Sec-Fetch-Site": {"same-origin"}, "Content-Type": {"application/x-www-form-urlencoded"}}
	change(query, form, header)
	r := httptest.NewRequest(http.MethodPost, "/authorize?"+query.Encode(), strings.NewReader(form.Encode()))
	r.Header = header
	w := httptest.NewRecorder()
	p.handler().ServeHTTP(w, r)
	return w.Result()
}

func asItIs(url.Values, url.Values, http.Header) {}

// redeem returns the status of the answer to a code, and the ID token.
func redeem(t *testing.T, p *provider, code, verifier, secret string) (status int, token string) {
	t.Helper()
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "code_verifier": {verifier}}
	r := httptest.NewRequest(http.MethodPost, "/token", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("gateway", secret)
	w := httptest.NewRecorder()
	p.handler().ServeHTTP(w, r)
	var answer struct {
		Token string `json:"id_token"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return w.Code, answer.Token
}

// TestProviderIsForTheGateway: only the gateway can send a browser there, get it back, and use its code.
func TestProviderIsForTheGateway(t *testing.T) {
	p := newTestProvider(t)
	for name, change := range map[string]func(query, form url.Values, h http.Header){
		"another client":   func(query, _ url.Values, _ http.Header) { query.Set("client_id", "other") },
		"another place":    func(query, _ url.Values, _ http.Header) { query.Set("redirect_uri", callback+"/x") },
		"no PKCE":          func(query, _ url.Values, _ http.Header) { query.Set("code_challenge_method", "plain") },
		"an unknown user":  func(_, form url.Values, _ http.Header) { form.Set("user", "dora") },
		"no user":          func(_, form url.Values, _ http.Header) { form.Del("user") },
		"another web page": func(_, _ url.Values, h http.Header) { h.Set("Sec-Fetch-Site", "cross-site") },
	} {
		if got := pick(p, change); got.StatusCode != http.StatusBadRequest || got.Header.Get("Location") != "" {
			t.Errorf("%s: %d, to %s", name, got.StatusCode, got.Header.Get("Location"))
		}
	}
	got := pick(p, asItIs)
	back, err := got.Location()
	if err != nil || !strings.HasPrefix(back.String(), callback+"?") {
		t.Fatalf("%d, to %v, %v", got.StatusCode, back, err)
	}
	if q := back.Query(); q.Get("state") != "s" || q.Get("iss") != p.URL {
		t.Errorf("back to %s", back)
	}
	code := back.Query().Get("code")
	for _, tt := range []struct {
		name, code, verifier, secret string
		want                         int
	}{
		{"without the secret", code, verifier, "", http.StatusUnauthorized},
		{"another verifier", code, verifier + "x", p.secret, http.StatusBadRequest},
		{"another code", code + "x", verifier, p.secret, http.StatusBadRequest},
		{"all of it", code, verifier, p.secret, http.StatusOK},
	} {
		status, token := redeem(t, p, tt.code, tt.verifier, tt.secret)
		if status != tt.want || (token != "") != (status == http.StatusOK) {
			t.Errorf("%s: %d, %q", tt.name, status, token)
		}
	}
}

// TestCodesEnd: a code is good for a minute.
func TestCodesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestProvider(t)
		back, err := pick(p, asItIs).Location()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(codeLifetime + time.Second)
		status, token := redeem(t, p, back.Query().Get("code"), verifier, p.secret)
		if status != http.StatusBadRequest {
			t.Errorf("%d, %q", status, token)
		}
	})
}
