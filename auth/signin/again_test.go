package signin_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/auth/signin"
)

// idTokens makes the issuer give ID tokens with these claims, and access tokens that are not for the
// gateway.
func (w *world) idTokens(claims func(nonce string) map[string]any, nonce *string) {
	w.IDToken = true
	w.claims = map[string]any{"aud": "https://graph.example.com"}
	w.issuer.Handle("/token", func(rw http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		answer := map[string]any{
			"access_token": w.issuer.Token(w.claims), "token_type": "Bearer", "expires_in": 300, "refresh_token": "r-1",
			"id_token": w.issuer.Sign(map[string]any{"typ": "JWT"}, claims(*nonce)),
		}
		rw.Header().Set("Content-Type", "application/json")
		switch r.PostForm.Get("refresh_token") {
		case "":
		case "r-1":
			delete(answer, "id_token")
			answer["refresh_token"] = "r-2"
		case "away":
			rw.WriteHeader(http.StatusServiceUnavailable)
		default:
			rw.WriteHeader(http.StatusBadRequest)
			answer = map[string]any{"error": "invalid_grant"}
		}
		_ = json.NewEncoder(rw).Encode(answer)
	})
}

// TestIDToken: where the issuer's access tokens are for somebody else, its ID token says who has
// signed in; and only one for this client and this sign-in.
func TestIDToken(t *testing.T) {
	for name, tt := range map[string]struct {
		claims map[string]any
		good   bool
	}{
		"ours":                    {nil, true},
		"of another client":       {map[string]any{"aud": "other"}, false},
		"with another party":      {map[string]any{"azp": "other"}, false},
		"of another sign-in":      {map[string]any{"nonce": "other"}, false},
		"without a nonce":         {map[string]any{"nonce": nil}, false},
		"of another issuer":       {map[string]any{"iss": "https://evil.example.com"}, false},
		"that has expired":        {map[string]any{"exp": 1}, false},
		"that is an access token": {map[string]any{"aud": "https://gateway.example/mcp"}, false},
	} {
		w, nonce := newWorld(t), ""
		w.idTokens(func(nonce string) map[string]any {
			all := map[string]any{"aud": "console", "nonce": nonce, "client_id": nil, "groups": []string{"platform"}}
			for name, value := range tt.claims {
				all[name] = value
			}
			return all
		}, &nonce)
		cookie, asked := w.begin(t)
		if nonce = asked.Get("nonce"); nonce == "" || !strings.Contains(asked.Get("scope"), "openid") ||
			asked.Has("resource") {
			t.Errorf("%s: asked for %v", name, asked)
		}
		who, _, err := w.end(cookie, w.good(asked))
		if tt.good != (err == nil) || tt.good && (who.Subject != "alice" || who.Issuer != w.issuer.URL ||
			len(who.Groups) != 1) || !tt.good && who.Subject != "" {
			t.Errorf("%s: %+v %v", name, who, err)
		}
	}
}

// TestAgain: the issuer is asked again whether a user may go on; its no is told from its silence.
func TestAgain(t *testing.T) {
	w, nonce := newWorld(t), ""
	w.idTokens(func(nonce string) map[string]any { return map[string]any{"aud": "console", "nonce": nonce} }, &nonce)
	cookie, asked := w.begin(t)
	nonce = asked.Get("nonce")
	r := httptest.NewRequest(http.MethodGet, redirect+"?"+w.good(asked).Encode(), nil)
	r.AddCookie(cookie)
	in, err := w.Finish(httptest.NewRecorder(), r)
	if err != nil || in.Refresh != "r-1" || in.Caller.Subject != "alice" || in.To != "/console/calls" {
		t.Fatalf("%+v %v", in, err)
	}
	r = httptest.NewRequest(http.MethodPost, "/oauth/token", nil)
	if again, err := w.Again(r, in.Refresh); err != nil || again.Refresh != "r-2" || again.Caller.Subject != "" {
		t.Errorf("%+v %v", again, err)
	}
	_, err = w.Again(r, "gone")
	if _, no := errors.AsType[*signin.RefusedError](err); !no {
		t.Errorf("a refused refresh: %v", err)
	}
	_, err = w.Again(r, "away")
	if _, no := errors.AsType[*signin.RefusedError](err); no || err == nil {
		t.Errorf("an issuer that is away: %v", err)
	}
}

// TestSeveral: a browser may be in several sign-ins at a time, where the flow says so.
func TestSeveral(t *testing.T) {
	w := newWorld(t)
	w.Several, w.claims = true, map[string]any{}
	first, asked := w.begin(t)
	if second, _ := w.begin(t); first.Name == second.Name {
		t.Error("the second sign-in takes the cookie of the first")
	}
	w.challenge = asked.Get("code_challenge")
	if _, _, err := w.end(first, w.good(asked)); err != nil {
		t.Error(err)
	}
	// Sign-ins that nobody ends do not fill the header of each request: the first ones are forgotten.
	var all []*http.Cookie
	for i := range 20 {
		r, rw := httptest.NewRequest(http.MethodGet, "/start", nil), httptest.NewRecorder()
		r.AddCookie(&http.Cookie{Name: "another", Value: strings.Repeat("x", 1000)})
		size := 0
		for _, c := range all {
			r.AddCookie(c)
			size += len(c.Value)
		}
		if _, err := w.Begin(rw, r, strings.Repeat("x", 1000)); err != nil || size > 6000 {
			t.Fatal(i, size, err)
		}
		for _, c := range rw.Result().Cookies() {
			if c.MaxAge > 0 {
				all = append(all, c)
			} else if at := slices.IndexFunc(all, func(one *http.Cookie) bool { return one.Name == c.Name }); at == 0 {
				all = all[1:]
			} else {
				t.Fatalf("%d: forgets the sign-in %d, %s", i, at, c.Name)
			}
		}
	}
	if len(all) < 3 {
		t.Errorf("only %d sign-ins at a time", len(all))
	}
	if _, err := w.Begin(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/start", nil),
		strings.Repeat("x", 4000)); err == nil {
		t.Error("a cookie that browsers drop")
	}
}
