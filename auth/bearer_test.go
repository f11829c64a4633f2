package auth_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// What a request says its token is. Error only if a token came.
func TestBearer(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{})
	g := newGate(t, func(c *auth.Config) { c.ScopesSupported = []string{"mcp:read", "mcp:write"} }, issuer)
	token := issuer.Token(nil)
	const invalidRequest = `error="invalid_request"`
	tests := []struct {
		name          string
		authorization []string
		status        int
		code          string // of the challenge, "" for none
	}{
		{"no Authorization", nil, 401, ""},
		{"good", []string{"Bearer " + token}, 200, ""},
		{"Basic", []string{"Basic dXNlcjpwYXNz"}, 401, ""},
		{"lower case", []string{"bearer " + token}, 200, ""},
		{"other case", []string{"bEARER " + token}, 200, ""},
		{"two spaces", []string{"Bearer  " + token}, 400, invalidRequest},
		{"a tab", []string{"Bearer \t" + token}, 400, invalidRequest},
		{"a trailing space", []string{"Bearer " + token + " "}, 400, invalidRequest},
		{"a tab in place of the space", []string{"Bearer\t" + token}, 401, ""},
		{"no space", []string{"Bearer" + token}, 401, ""},
		{"no token", []string{"Bearer"}, 401, ""},
		{"an empty token", []string{"Bearer "}, 401, ""},
		{"an empty header", []string{""}, 401, ""},
		{"only a token", []string{token}, 401, ""},
		{"another scheme that begins so", []string{"BearerX " + token}, 401, ""},
		{"two headers", []string{"Bearer " + token, "Bearer " + token}, 400, invalidRequest},
		{"two headers of two schemes", []string{"Basic dXNlcjpwYXNz", "Bearer " + token}, 400, invalidRequest},
		{"two tokens", []string{"Bearer " + token + ", Bearer " + token}, 401, invalidToken},
		{"not a token", []string{"Bearer x"}, 401, invalidToken},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := g.call(tt.authorization...)
			if tt.status == 200 {
				a.expect(t, 200)
				return
			}
			a.expect(t, tt.status, tt.code, `scope="mcp:read mcp:write"`)
			if challenge := a.Header().Get("WWW-Authenticate"); tt.code == "" && strings.Contains(challenge, "error") {
				t.Errorf("no token was presented, but the challenge has an error: %s", challenge)
			}
		})
	}
}

// A token in the query or in the body is none, and one beside a good token
// is refused: it has been where logs are written.
func TestQueryToken(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{})
	g := newGate(t, nil, issuer)
	token := issuer.Token(nil)
	r := httptest.NewRequest(http.MethodPost, publicURL+"?access_token="+token, untouchable{})
	g.do(r).expect(t, 401)
	r = httptest.NewRequest(http.MethodPost, publicURL+"?access_token="+token, untouchable{})
	r.Header.Set("Authorization", "Bearer "+token)
	g.do(r).expect(t, 400, `error="invalid_request"`)
	r = httptest.NewRequest(http.MethodPost, publicURL, untouchable{}) // not even looked at
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	g.do(r).expect(t, 401)
	r = httptest.NewRequest(http.MethodGet, publicURL+"?cursor=1", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	g.do(r).expect(t, 200)
}

// Below the gate the token is in the caller alone, and the inbound request is
// not changed.
func TestTokenStops(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{})
	g := newGate(t, nil, issuer)
	token := issuer.Token(map[string]any{"sub": "alice"})
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		r := httptest.NewRequest(method, publicURL, nil)
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Mcp-Session-Id", "s")
		a := g.do(r)
		a.expect(t, 200)
		if _, has := a.passed.Header["Authorization"]; has || a.passed.Header.Get("Mcp-Session-Id") != "s" {
			t.Errorf("%s: below the gate the header is %v", method, a.passed.Header)
		}
		if r.Header.Get("Authorization") != "Bearer "+token {
			t.Errorf("%s: the inbound request was changed", method)
		}
		if string(a.caller.Token) != token || a.caller.Token.String() == token {
			t.Errorf("%s: the caller has the token %s", method, a.caller.Token)
		}
	}
}

// No method gets through without a token: preflights are answered above (front.Behind).
func TestEveryMethod(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{})
	g := newGate(t, nil, issuer)
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "X"} {
		r := httptest.NewRequest(method, publicURL, nil)
		r.Header.Set("Origin", "https://page.example")
		r.Header.Set("Access-Control-Request-Method", "POST")
		w := g.do(r)
		if w.Code != 401 || w.passed != nil || w.Header().Get("WWW-Authenticate") == "" ||
			(w.Body.Len() == 0) != (method == "HEAD") {
			t.Errorf("%s: got %d %s", method, w.Code, w.Body)
		}
	}
}

// What the configuration says gets into a challenge as a quoted-string.
func TestChallengeQuotes(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{})
	cfg := auth.Config{Mode: auth.ModeOAuth, Issuers: []auth.Issuer{{URL: issuer.URL}}}
	a, err := auth.New(cfg, auth.Deps{PublicURL: `https://gateway.example/m"c\p, x="é` + "y"})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	a.Require(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodPost, publicURL, nil))
	want := `Bearer resource_metadata="https://gateway.example/.well-known/oauth-protected-resource/m\"c\\p, x=\"y"`
	if got := w.Header()["Www-Authenticate"]; len(got) != 1 || got[0] != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The same over a real connection, which then serves the next request.
func TestOverHTTP(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{})
	g := newGate(t, nil, issuer)
	server := httptest.NewServer(g.Require(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name := range r.Header {
			if strings.Contains(strings.ToLower(name), "authorization") {
				t.Errorf("%s got through", name)
			}
		}
		w.WriteHeader(http.StatusAccepted)
	})))
	defer server.Close()
	for _, tt := range []struct {
		lines  []string
		status int
	}{
		{nil, 401},
		{[]string{"Bearer " + issuer.Token(nil)}, 202},
		{[]string{"Bearer " + issuer.Token(nil), "Bearer " + issuer.Token(nil)}, 400},
		{[]string{"Bearer x"}, 401},
		{[]string{"bearer " + issuer.Token(nil) + " "}, 202}, // net/http takes the space away
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL,
			strings.NewReader(`{"jsonrpc":"2.0","id":7,"method":"ping"}`))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range tt.lines {
			req.Header.Add("authorization", line)
		}
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != tt.status ||
			(resp.StatusCode != 202) != strings.Contains(string(body), `"id":null`) {
			t.Errorf("%d headers: got %d %s (%v), want %d", len(tt.lines), resp.StatusCode, body, err, tt.status)
		}
	}
}

// TestRefusedAgent: of a refused token, it is told what its client calls itself, and no part of the token.
func TestRefusedAgent(t *testing.T) {
	var judged []auth.Judgement
	issuer := newIssuer(t, mcptest.IssuerOptions{})
	g := startGate(t, auth.Deps{Judged: func(j auth.Judgement) { judged = append(judged, j) }},
		func(*auth.Config) {}, issuer)
	const token = "canary-1234.token"
	for agent, want := range map[string]string{
		"claude-code/2.0.1 (cli)": "claude-code",
		"python-httpx/0.28":       "python-httpx",
		"Cursor":                  "Cursor",
		"":                        "",
		"(only a comment)":        "",
		"<script>":                "",
		strings.Repeat("a", 41):   "",
		token:                     "",
		token + "/1.0":            "",
		"canary-1234":             "",
		"Bearer " + token:         "",
	} {
		judged = nil
		r := httptest.NewRequest(http.MethodPost, publicURL, untouchable{})
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("User-Agent", agent)
		g.do(r).expect(t, 401, invalidToken)
		if len(judged) != 1 || judged[0].Agent != want || strings.Contains(judged[0].Agent+judged[0].Reason, "canary") {
			t.Errorf("%q: %+v, want %q", agent, judged, want)
		}
	}
}
