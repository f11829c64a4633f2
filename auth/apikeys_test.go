package auth_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/apikey"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// newAPIKey returns a key and its entry.
func newAPIKey(change func(*apikey.Entry)) (string, apikey.Entry) {
	key, id := apikey.New()
	e := apikey.Entry{ID: id, Hash: apikey.Hash(key), User: "ci-bot"}
	if change != nil {
		change(&e)
	}
	return key, e
}

// TestAPIKeys: a key is accepted beside tokens, and its caller is what its entry says.
func TestAPIKeys(t *testing.T) {
	ends := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	key, e := newAPIKey(func(e *apikey.Entry) {
		e.Groups, e.Scopes, e.Expires = []string{"deployers"}, []string{"admin"}, ends.Format(time.RFC3339)
	})
	plain, simple := newAPIKey(nil)
	expired, old := newAPIKey(func(e *apikey.Entry) { e.Expires = "2020-01-01T00:00:00Z" })
	revoked, gone := newAPIKey(func(e *apikey.Entry) { e.Revoked = "2020-01-01T00:00:00Z" })
	unknown, _ := newAPIKey(nil)
	issuer := newIssuer(t, mcptest.IssuerOptions{})
	var judged []auth.Judgement
	g := startGate(t, auth.Deps{Judged: func(j auth.Judgement) { judged = append(judged, j) }}, func(c *auth.Config) {
		c.Keys.Entries, c.Keys.Filed = []apikey.Entry{e, old}, []apikey.Entry{gone, simple}
		c.RequiredScopes, c.ImpliedScopes = []string{"mcp"}, map[string][]string{"admin": {"mcp"}}
		c.Issuers[0].Introspection = &auth.Introspection{ClientID: issuer.ClientID,
			ClientSecret: mcp.Secret(issuer.ClientSecret)}
	}, issuer)
	for range 3 {
		a := g.bearer(key)
		a.expect(t, 200)
		c := a.caller
		if c.Issuer != "keys" || c.Subject != "ci-bot" || c.ClientID != "ghk_"+e.ID ||
			!slices.Equal(c.Groups, []string{"deployers"}) ||
			!slices.Equal(c.Scopes, []string{"admin", "mcp"}) || !c.Expires.Equal(ends) || c.Token != "" || c.Claims != nil {
			t.Errorf("the caller is %+v", c)
		}
		if a.passed.Header.Get("Authorization") != "" {
			t.Error("the key gets past the gate")
		}
	}
	if len(judged) != 1 || judged[0].Status != 0 || judged[0].Caller.Subject != "ci-bot" {
		t.Errorf("of three requests in a minute: %+v", judged)
	}
	g.bearer(issuer.Token(map[string]any{"scope": "mcp"})).expect(t, 200)
	for text, bad := range map[string]string{
		"the key has expired": expired, "the key was revoked": revoked, "the key is not one of this gateway": unknown,
		"the key is not whole": key[:50],
	} {
		a := g.bearer(bad)
		a.expect(t, 401, invalidToken, text)
		if got, want := strings.Contains(a.Body.String(), "GH-TOKEN-EXPIRED"), bad == expired; got != want {
			t.Errorf("%s: %s", text, a.Body)
		}
		if strings.Contains(a.Body.String()+a.Header().Get("Www-Authenticate"), bad[14:40]) {
			t.Errorf("the answer tells the key: %s", a.Body)
		}
	}
	g.bearer(plain).expect(t, 403, `error="insufficient_scope"`)
	if n := len(judged); judged[n-1].Status != 403 || n != 7 {
		t.Errorf("judged: %+v", judged)
	}
	if asked := issuer.Introspected(); len(asked) != 0 {
		t.Errorf("the issuer has seen %d keys", len(asked))
	}
}

// TestAPIKeyRevoked: a key that was used a moment ago is refused as soon as others are set.
func TestAPIKeyRevoked(t *testing.T) {
	key, e := newAPIKey(nil)
	other, more := newAPIKey(nil)
	g := newGate(t, func(c *auth.Config) { c.Mode, c.Keys.Entries = auth.ModeKeys, []apikey.Entry{e} })
	if a := g.bearer(key); a.Code != 200 {
		t.Fatal(a.Body)
	}
	g.SetKeys(apikey.Config{Entries: []apikey.Entry{e, more}})
	if a := g.bearer(other); a.Code != 200 {
		t.Error(a.Body)
	}
	e.Revoked = "2026-11-23T12:00:00Z"
	g.SetKeys(apikey.Config{File: "x", Filed: []apikey.Entry{e, more}})
	if a := g.bearer(key); a.Code != 401 || !strings.Contains(a.Body.String(), "the key was revoked") {
		t.Error(a.Code, a.Body)
	}
	if a := g.bearer(other); a.Code != 200 {
		t.Error(a.Body)
	}
	g.SetKeys(apikey.Config{})
	if a := g.bearer(other); a.Code != 401 {
		t.Error(a.Body)
	}
}

// TestKeysWithoutIssuers: in mode keys nobody is sent to an authorization server.
func TestKeysWithoutIssuers(t *testing.T) {
	key, e := newAPIKey(nil)
	g := newGate(t, func(c *auth.Config) { c.Mode, c.Keys.Entries = auth.ModeKeys, []apikey.Entry{e} })
	if a := g.bearer(key); a.Code != 200 {
		t.Error(a.Body)
	}
	for sent, want := range map[string]string{
		"": `Bearer realm="gatehouse"`, "Bearer eyJhbGciOiJub25lIn0.e30.": `Bearer error="invalid_token"`,
		"Bearer x": `Bearer error="invalid_token"`,
	} {
		var headers []string
		if sent != "" {
			headers = []string{sent}
		}
		a := g.call(headers...)
		if got := a.Header().Get("Www-Authenticate"); a.Code != 401 || !strings.HasPrefix(got, want) ||
			strings.Contains(got, "resource_metadata") {
			t.Errorf("%q: %d %s", sent, a.Code, got)
		}
	}
	if paths := g.MetadataPaths(); len(paths) != 0 {
		t.Errorf("metadata at %v", paths)
	}
	if ok, reason := g.Ready(); !ok || reason != "" {
		t.Errorf("not ready: %s", reason)
	}
}

// TestAPIKeyOfView: a key for views is good at their endpoints alone.
func TestAPIKeyOfView(t *testing.T) {
	key, e := newAPIKey(func(e *apikey.Entry) { e.Views = []string{"sales"} })
	whole, all := newAPIKey(nil)
	g := startGate(t, auth.Deps{Views: map[string]string{"sales": publicURL + "/sales", "ops": publicURL + "/ops"}},
		func(c *auth.Config) {
			c.Mode, c.Keys.Entries = auth.ModeKeys, []apikey.Entry{e, all}
		})
	for view, want := range map[string]int{"": 401, "sales": 200, "ops": 401} {
		for k, status := range map[string]int{key: want, whole: 200} {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodPost, publicURL, untouchable{})
			r.Header.Set("Authorization", "Bearer "+k)
			g.RequireAt(view, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {})).ServeHTTP(w, r)
			if w.Code != status {
				t.Errorf("view %q: %d, want %d: %s", view, w.Code, status, w.Body)
			}
		}
	}
}

// TestKeyIsNoPerson: who approves of calls, or signs in to the console, is a person.
func TestKeyIsNoPerson(t *testing.T) {
	key, e := newAPIKey(nil)
	g := newGate(t, func(c *auth.Config) { c.Mode, c.Keys.Entries = auth.ModeKeys, []apikey.Entry{e} })
	r := httptest.NewRequest(http.MethodPost, "https://admin.example/api", nil)
	r.Header.Set("Authorization", "Bearer "+key)
	if who, err := g.Identify(r); err == nil || who.Subject != "" {
		t.Errorf("%+v", who)
	}
}

func TestKeysConfig(t *testing.T) {
	_, e := newAPIKey(nil)
	some := apikey.Config{Entries: []apikey.Entry{e}}
	issuers := []auth.Issuer{{URL: "https://login.example.com"}}
	for name, tt := range map[string]struct {
		cfg  auth.Config
		want string // "" for nothing
	}{
		"keys alone":          {auth.Config{Mode: auth.ModeKeys, Keys: some}, ""},
		"a file":              {auth.Config{Mode: auth.ModeKeys, Keys: apikey.Config{File: "keys.yaml"}}, ""},
		"keys beside issuers": {auth.Config{Mode: auth.ModeOAuth, Issuers: issuers, Keys: some}, ""},
		"scopes of keys":      {auth.Config{Mode: auth.ModeKeys, Keys: some, RequiredScopes: []string{"x"}}, ""},
		"no keys":             {auth.Config{Mode: auth.ModeKeys}, "keys: mode keys needs some"},
		"issuers": {auth.Config{Mode: auth.ModeKeys, Keys: some, Issuers: issuers},
			"issuers: there is no use for them in mode keys"},
		"no issuers": {auth.Config{Mode: auth.ModeOAuth, Keys: some},
			"issuers: mode oauth needs at least one: write mode: keys"},
		"mode none": {auth.Config{Keys: some}, "keys: nobody asks for a key in mode none"},
		"a bad entry": {auth.Config{Mode: auth.ModeKeys, Keys: apikey.Config{Entries: []apikey.Entry{{}}}},
			"keys: entries[0]: id"},
	} {
		err := tt.cfg.Validate()
		if (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cfg := auth.Config{Mode: auth.ModeKeys}
	if err := cfg.CheckPublicURL("http://mcp.example.com/mcp"); err == nil ||
		!strings.Contains(err.Error(), "clients send keys to it") {
		t.Errorf("keys in the clear: %v", err)
	}
	if err := cfg.CheckListener("0.0.0.0:8080"); err != nil {
		t.Error(err)
	}
}

// TestHolds: a caller holds as long as the credential is good and says the same.
func TestHolds(t *testing.T) {
	issuer := mcptest.NewIssuer(mcptest.IssuerOptions{})
	defer issuer.Close()
	issuer.Audience = publicURL
	key, e := newAPIKey(nil)
	with := func(change func(*auth.Config)) *gate {
		return newGate(t, func(c *auth.Config) {
			c.Keys.Entries = []apikey.Entry{e}
			if change != nil {
				change(c)
			}
		}, issuer)
	}
	g := with(nil)
	byKey, byToken := g.bearer(key).caller, g.bearer(issuer.Token(map[string]any{"sub": "ann"})).caller
	if byKey.Subject == "" || byToken.Subject == "" {
		t.Fatal("somebody did not get in")
	}
	elsewhere := byToken
	elsewhere.View = "gone"
	others := byToken
	others.Groups = []string{"admins"}
	for name, tt := range map[string]struct {
		c    mcp.Caller
		want bool
	}{
		"a key": {byKey, true}, "a token": {byToken, true}, "at a view that there is not": {elsewhere, false},
		"with groups that it lost": {others, false},
		"nobody":                   {mcp.NewCaller(mcp.Caller{}), false},
		"a person in a browser":    {mcp.NewCaller(mcp.Caller{Issuer: "i", Subject: "ann"}), true},
	} {
		if got := g.Holds(t.Context(), &tt.c); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	for name, next := range map[string]*gate{
		"another scope is needed": with(func(c *auth.Config) { c.RequiredScopes = []string{"mcp"} }),
		"another audience":        with(func(c *auth.Config) { c.Issuers[0].Audiences = []string{"other"} }),
	} {
		if next.Holds(t.Context(), &byToken) {
			t.Errorf("%s: the token holds", name)
		}
	}
	if open := newGate(t, func(c *auth.Config) { c.Mode = auth.ModeNone }); open.Holds(t.Context(), &byToken) {
		t.Error("somebody stays somebody where nobody is asked")
	}
	down, err := auth.New(auth.Config{Mode: auth.ModeOAuth, Issuers: []auth.Issuer{{URL: issuer.URL}}},
		auth.Deps{PublicURL: publicURL})
	if err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if !down.Holds(soon, &byToken) { // it has fetched no keys, and nobody can tell
		t.Error("a token that nobody can judge is over")
	}
	changed := e
	changed.Groups = []string{"x"}
	for name, entries := range map[string][]apikey.Entry{"a key with other groups": {changed}, "a key that is gone": nil} {
		g.SetKeys(apikey.Config{Entries: entries})
		if g.Holds(t.Context(), &byKey) {
			t.Errorf("%s holds", name)
		}
	}
}
