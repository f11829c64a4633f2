package accounts

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth/vault"
	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

func TestMain(m *testing.M) { mcptest.VerifyMain(m) }

const public = "https://gateway.example.com"

var alice, mallory = vault.Owner{Issuer: "https://login.example.com", User: "alice"},
	vault.Owner{Issuer: "https://login.example.com", User: "mallory"}

func newKey(t *testing.T) *seal.Key {
	t.Helper()
	key, err := seal.NewRandom("test")
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// world is a server with its authorization server, and the gateway's flow.
type world struct {
	*Flow
	*mcptest.Accounts
	server Server
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{Accounts: mcptest.NewAccounts(nil)}
	t.Cleanup(w.Accounts.Close)
	w.Flow = &Flow{PublicURL: public, Store: expiring.New(expiring.Base{}, newKey(t), "accounts", 100), Key: newKey(t)}
	w.server = Server{Name: "crm", URL: w.Accounts.URL}
	return w
}

func (w *world) find(name string) (Server, bool) { return w.server, name == w.server.Name }

// visit sends a browser to sign in. It returns the answer of the authorization server.
func (w *world) visit(t *testing.T, at string) url.Values {
	t.Helper()
	browser := http.Client{Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := browser.Get(at)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	to, err := answer.Location()
	if err != nil || !strings.HasPrefix(to.String(), public+CallbackPath(w.server.Name)+"?") {
		t.Fatalf("sent to %v %v", to, err)
	}
	return to.Query()
}

func (w *world) beginAs(t *testing.T, who vault.Owner, browser string) way {
	t.Helper()
	way, err := w.begin(t.Context(), w.server, who, browser, "", vault.State{})
	if err != nil {
		t.Fatal(err)
	}
	return way
}

func (w *world) endAs(answer url.Values, who vault.Owner, browser string) (ended, error) {
	return w.end(context.Background(), w.server.Name, answer, who, browser, w.find)
}

// TestRootIssuer: an authorization server without a path is the same one with a slash and without, in the
// server's metadata, its own, the configuration and its answers. One with a path is not.
func TestRootIssuer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		path, configured, named, own, answers string // after the origin
		bad                                   bool
	}{
		"a slash in the server's metadata":   {named: "/"},
		"a slash in its own":                 {own: "/"},
		"a slash in the configuration":       {configured: "/"},
		"a slash in the others":              {named: "/", own: "/", answers: "/"},
		"a slash in the answer":              {answers: "/"},
		"a path with a slash":                {path: "/tenant", own: "/", bad: true},
		"a path with a slash where it is":    {path: "/tenant", answers: "/", bad: true},
		"a path with a slash, as configured": {path: "/tenant", configured: "/", bad: true},
	} {
		w := newWorld(t)
		w.Issuer = strings.TrimSuffix(w.URL, "/mcp") + tt.path
		w.SetResource("authorization_servers", []string{w.Issuer + tt.named})
		w.SetMetadata("issuer", w.Issuer+tt.own)
		w.SetAnswer("iss", w.Issuer+tt.answers)
		if tt.configured != "" {
			w.server.Issuer = w.Issuer + tt.configured
		}
		way, err := w.begin(t.Context(), w.server, alice, "browser", "", vault.State{})
		if err == nil {
			_, err = w.endAs(w.visit(t, way.URL), alice, "browser")
		}
		if (err != nil) != tt.bad {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFlow: a user signs in; PKCE, resource and the scopes of the challenge are in the requests.
func TestFlow(t *testing.T) {
	w := newWorld(t)
	way := w.beginAs(t, alice, "browser")
	if way.Host != hostOf(w.Issuer) || !slices.Equal(way.Scopes, []string{"read"}) {
		t.Errorf("%+v", way)
	}
	e, err := w.endAs(w.visit(t, way.URL), alice, "browser")
	if err != nil {
		t.Fatal(err)
	}
	asked, form := w.Authorized()[0], w.Forms()[0]
	for name, want := range map[string]string{
		"response_type": "code", "client_id": "registered-1", "redirect_uri": public + CallbackPath("crm"), "scope": "read",
		"code_challenge_method": "S256", "resource": w.server.URL,
	} {
		if asked.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, asked.Get(name), want)
		}
	}
	if form.Get("resource") != w.server.URL || form.Get("client_id") != "registered-1" || form.Get("code_verifier") == "" {
		t.Errorf("request for a token: %v", form)
	}
	g := e.grant
	if e.server != "crm" || !strings.HasPrefix(g.AccessToken, "account-") ||
		!strings.HasPrefix(g.RefreshToken, "refresh-") || g.Scope != "read" ||
		g.AuthServer != w.Issuer || g.TokenURL != w.Issuer+"/token" || g.RevokeURL != w.Issuer+"/revoke" ||
		g.ClientID != "registered-1" || g.ClientAuth != vault.AuthNone ||
		g.Resource != w.server.URL || time.Until(g.Expires) > time.Hour {
		t.Errorf("%+v", e)
	}
}

// TestStateReplay: the answer of a sign-in is good once, for the user and in the browser that began it.
func TestStateReplay(t *testing.T) {
	w := newWorld(t)
	answer := w.visit(t, w.beginAs(t, alice, "browser").URL)
	for name, who := range map[string]struct {
		vault.Owner
		browser string
	}{
		"by another user":             {mallory, "browser"},
		"in another browser":          {alice, "other"},
		"by her at another issuer":    {vault.Owner{Issuer: "https://evil.example.com", User: alice.User}, "browser"},
		"by nobody":                   {vault.Owner{}, ""},
		"by another in their browser": {mallory, "other"},
	} {
		if _, err := w.endAs(answer, who.Owner, who.browser); err == nil {
			t.Errorf("the state is good %s", name)
		}
	}
	if len(w.Forms()) > 0 {
		t.Error("a code was sent to the token endpoint")
	}
	if _, err := w.endAs(answer, alice, "browser"); err != nil {
		t.Errorf("an attempt of somebody else has used up the state: %v", err)
	}
	if _, err := w.endAs(answer, alice, "browser"); err == nil {
		t.Error("the state is good twice")
	}
}

// TestAnswers: what an attacker can put into an answer, or an authorization server may say, signs
// nobody in.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(answer url.Values){
		"mix-up: another issuer":       func(a url.Values) { a.Set("iss", "https://evil.example.com") },
		"mix-up: almost the issuer":    func(a url.Values) { a.Set("iss", a.Get("iss")+"/") },
		"mix-up: no issuer":            func(a url.Values) { a.Del("iss") },
		"mix-up: two issuers":          func(a url.Values) { a.Add("iss", "https://evil.example.com") },
		"mix-up: error of another one": func(a url.Values) { a.Set("iss", "https://evil.example.com"); a.Set("error", "canary") },
		"an error":                     func(a url.Values) { a.Set("error", "access_denied") },
		"a hostile error":              func(a url.Values) { a.Set("error", "canary <script>") },
		"no code":                      func(a url.Values) { a.Del("code") },
		"two codes":                    func(a url.Values) { a.Add("code", "x") },
		"an injected code":             func(a url.Values) { a.Set("code", "stolen") },
		"two states":                   func(a url.Values) { a.Add("state", "x") },
		"a made-up state":              func(a url.Values) { a.Set("state", "x") },
	} {
		w := newWorld(t)
		answer := w.visit(t, w.beginAs(t, alice, "browser").URL)
		change(answer)
		e, err := w.endAs(answer, alice, "browser")
		if err == nil || e.grant.AccessToken != "" {
			t.Errorf("%s: %+v", name, e)
			continue
		}
		if strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: the error has what others wrote: %v", name, err)
		}
		if sent := len(w.Forms()) > 0; sent != (name == "an injected code") {
			t.Errorf("%s: a code was sent to the token endpoint: %t", name, sent)
		}
	}
}

// TestMixUp: an attacker's authorization server, at which the user believes to sign in, sends the browser
// on to an honest one, and does not get its code: the honest one sends it to the callback of its own
// server, whose states are others. Where it says who answers, its code is no good at the other callback
// either.
func TestMixUp(t *testing.T) {
	for name, names := range map[string]bool{"with iss": true, "without iss": false} {
		honest, evil := newWorld(t), newWorld(t)
		evil.Flow, evil.server.Name = honest.Flow, "evil"
		if !names {
			for _, w := range []*world{honest, evil} {
				w.SetMetadata("authorization_response_iss_parameter_supported", nil)
				w.SetAnswer("iss", "")
			}
		}
		stolen := honest.visit(t, honest.beginAs(t, alice, "browser").URL)
		evilWay := evil.beginAs(t, alice, "browser")
		at, err := url.Parse(evilWay.URL)
		if err != nil {
			t.Fatal(err)
		}
		stolen.Set("state", at.Query().Get("state"))
		if stolen.Has("iss") != names {
			t.Fatalf("%s: %v", name, stolen)
		}
		ends := map[string]*world{"of the honest server": honest}
		if names {
			ends["of the evil server"] = evil
		}
		for callback, w := range ends {
			if _, err := w.endAs(stolen, alice, "browser"); err == nil || len(evil.Forms()) > 0 {
				t.Errorf("%s, at the callback %s: the code of the honest server went to the evil one: %v", name, callback, err)
			}
		}
	}
}

// TestServerMovesMeanwhile: tokens for a server do not go to another URL that gets its name while the user
// signs in.
func TestServerMovesMeanwhile(t *testing.T) {
	w := newWorld(t)
	answer := w.visit(t, w.beginAs(t, alice, "browser").URL)
	w.server.URL += "/other"
	if e, err := w.endAs(answer, alice, "browser"); err == nil || e.grant.AccessToken != "" || len(w.Forms()) > 0 {
		t.Errorf("tokens for %s: %v", e.grant.URL, err)
	}
}

// TestMixUpByMetadata: a server whose authorization server names somebody else's sign-in page and its own
// token endpoint gets no code of theirs. The client is the gateway's document, which all of them know.
func TestMixUpByMetadata(t *testing.T) {
	t.Parallel()
	victimHost := strings.NewReplacer("127.0.0.1", "localhost") // another host than the attacker's
	for name, tt := range map[string]struct {
		prepare func(evil, victim *world)
		why     string // "" if the sign-in goes on to the token endpoint
		sent    bool   // to the victim
	}{
		"the victim does not name itself": {func(*world, *world) {}, "does not seem to be its own", false},
		"it says that its answers do not": {func(evil,
			_ *world) {
			evil.SetMetadata("authorization_response_iss_parameter_supported", false)
		}, "does not seem to be its own", false},
		"a text is not true": {func(evil,
			_ *world) {
			evil.SetMetadata("authorization_response_iss_parameter_supported", "true")
		}, "does not seem to be its own", false},
		"it lies that its answers do": {func(evil,
			_ *world) {
			evil.SetMetadata("authorization_response_iss_parameter_supported", true)
		}, "another authorization server", true},
		"it lies, and the victim does": {func(evil, victim *world) {
			evil.SetMetadata("authorization_response_iss_parameter_supported", true)
			victim.SetAnswer("iss", victim.Issuer)
		}, "another authorization server", true},
		"the operator has named it": {func(evil, _ *world) { evil.server.Issuer = evil.Issuer }, "", true},
	} {
		evil, victim := newWorld(t), newWorld(t)
		for _, w := range []*world{evil, victim} {
			w.SetMetadata("authorization_response_iss_parameter_supported", nil)
			w.SetMetadata("client_id_metadata_document_supported", true)
		}
		victim.SetAnswer("iss", "")
		evil.SetMetadata("authorization_endpoint", victimHost.Replace(victim.Issuer)+"/authorize")
		tt.prepare(evil, victim)
		way, err := evil.begin(t.Context(), evil.server, alice, "browser", "", vault.State{})
		if err == nil {
			_, err = evil.endAs(evil.visit(t, way.URL), alice, "browser")
		}
		if stolen := len(evil.Forms()) > 0; err == nil || !strings.Contains(err.Error(), tt.why) || stolen != (tt.why == "") {
			t.Errorf("%s: %v; the attacker has the code: %t", name, err, stolen)
		}
		if sent := len(victim.Authorized()) > 0; sent != tt.sent {
			t.Errorf("%s: the user was sent to the victim: %t", name, sent)
		}
		if p, ok := errors.AsType[*Problem](err); !ok || strings.Contains(p.Why, "http") {
			t.Errorf("%s: the user reads what others wrote: %v", name, err)
		}
	}
}

// TestSameSite: a registrable domain is a site, a public suffix and an address are none.
func TestSameSite(t *testing.T) {
	for pair, want := range map[[2]string]bool{
		{"https://login.example.com/a", "https://www.Example.COM:8443/b"}: true,
		{"https://example.com", "https://example.com/authorize"}:          true,
		{"https://a.example.co.uk", "https://b.example.co.uk"}:            true,
		{"https://example.com", "https://example.org"}:                    false,
		{"https://example.com", "https://example.com.evil.org"}:           false,
		{"https://a.co.uk", "https://b.co.uk"}:                            false,
		{"https://mallory.github.io", "https://alice.github.io"}:          false,
		{"https://github.io", "https://github.io"}:                        true,
		{"http://127.0.0.1:1/a", "http://127.0.0.1:2"}:                    true,
		{"http://127.0.0.1", "http://localhost"}:                          false,
		{"http://localhost:1", "http://LOCALHOST:2"}:                      true,
		{"https://192.0.2.1", "https://198.51.2.1"}:                       false,
		{"https://[2001:db8::1]", "https://[2001:db8::1]:8443/authorize"}: true,
		{"https://[2001:db8::1]", "https://[2001:db8::2]"}:                false,
		{"https://auth", "https://evil"}:                                  false,
		{"https://evil.example.com.", "https://example.com"}:              false,
		{"https:///authorize", "https:///authorize"}:                      false,
	} {
		if sameSite(pair[0], pair[1]) != want {
			t.Errorf("%q: want %t", pair, want)
		}
	}
}

// TestDiscovery: the orders of the specification, and what is refused.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	prm := "/.well-known/oauth-protected-resource"
	for name, tt := range map[string]struct {
		prepare func(w *world)
		why     string   // "" for a good one
		scopes  []string // with a good one
		never   string   // a path that must not be asked for
	}{
		"a challenge without metadata": {prepare: func(w *world) { w.SetChallenge("Bearer") },
			scopes: []string{"read", "write"}},
		"configured scopes after those of the challenge": {prepare: func(w *world) {
			w.server.Scopes = []string{"mine"}
		}, scopes: []string{"read"}},
		"configured scopes before those that are supported": {prepare: func(w *world) {
			w.SetChallenge("Bearer")
			w.server.Scopes = []string{"mine"}
		}, scopes: []string{"mine"}},
		"a refresh token where it is known": {prepare: func(w *world) {
			w.SetMetadata("scopes_supported", []string{"offline_access", "all"})
		}, scopes: []string{"read", "offline_access"}},
		"another challenge first": {prepare: func(w *world) {
			w.SetChallenge(`Basic realm="a, Bearer scope=\"x\"", Bearer realm="b", scope="a b  \"c"`)
		}, scopes: []string{"a", "b"}},
		"another resource": {prepare: func(w *world) { w.SetResource("resource", "https://other.example.com/mcp") },
			why: "as another server"},
		"no resource":                {prepare: func(w *world) { w.SetResource("resource", nil) }, why: "as another server"},
		"the host, at its path":      {prepare: func(w *world) { w.SetResource("resource", strings.TrimSuffix(w.server.URL, "/mcp")) }, why: "as another server"},
		"the resource as configured": {prepare: func(w *world) { w.SetResource("resource", "urn:x"); w.server.Resource = "urn:x" }, why: "as another server"},
		"a configured resource": {prepare: func(w *world) {
			w.SetResource("resource", "https://api.example.com")
			w.server.Resource = "https://api.example.com/"
		}, scopes: []string{"read"}},
		"no authorization server": {prepare: func(w *world) { w.SetResource("authorization_servers", nil) },
			why: "names no authorization server"},
		"another one than is wanted": {prepare: func(w *world) { w.server.Issuer = "https://login.example.com" },
			why: "another authorization server"},
		"metadata of another issuer": {prepare: func(w *world) { w.SetMetadata("issuer", "https://honest.example.com") },
			why: "does not describe itself"},
		"PKCE downgrade: not said": {prepare: func(w *world) { w.SetMetadata("code_challenge_methods_supported", nil) },
			why: "PKCE"},
		"PKCE not said by the operator's": {prepare: func(w *world) {
			w.server.Issuer = w.Issuer
			w.SetMetadata("code_challenge_methods_supported", nil)
		}, scopes: []string{"read"}},
		"PKCE denied by the operator's": {prepare: func(w *world) {
			w.server.Issuer = w.Issuer
			w.SetMetadata("code_challenge_methods_supported", []string{})
		}, why: "PKCE"},
		"public clients alone, not said": {prepare: func(w *world) {
			w.PublicOnly()
			w.SetMetadata("token_endpoint_auth_methods_supported", nil)
		}, scopes: []string{"read"}},
		"a page in place of its metadata": {prepare: func(w *world) { w.SetPages(wellKnownOAuth + "/tenant") },
			scopes: []string{"read"}},
		"pages in place of all metadata": {prepare: func(w *world) {
			w.SetPages(wellKnownOAuth+"/tenant", wellKnownOpenID+"/tenant", "/tenant"+wellKnownOpenID)
		},
			why: "does not describe itself"},
		"a page in place of the server's metadata": {prepare: func(w *world) {
			w.SetPages(prm, prm+"/mcp")
			w.SetChallenge("Bearer")
			w.server.Issuer = w.Issuer
		}},
		"PKCE downgrade: plain": {prepare: func(w *world) { w.SetMetadata("code_challenge_methods_supported", []string{"plain"}) }, why: "PKCE"},
		"a page for scripts": {prepare: func(w *world) { w.SetMetadata("authorization_endpoint", "javascript:alert(1)") },
			why: "no page"},
		"a page with user info": {prepare: func(w *world) { w.SetMetadata("authorization_endpoint", "https://a@evil.example.com/") }, why: "no page"},
		"no token endpoint":     {prepare: func(w *world) { w.SetMetadata("token_endpoint", nil) }, why: "no token endpoint"},
		"nowhere to register": {prepare: func(w *world) { w.SetMetadata("registration_endpoint", nil) },
			why: "has to be registered"},
	} {
		w := newWorld(t)
		tt.prepare(w)
		way, err := w.begin(t.Context(), w.server, alice, "browser", "", vault.State{})
		why, _ := errors.AsType[*Problem](err)
		switch {
		case tt.why == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tt.why == "" && !slices.Equal(way.Scopes, tt.scopes):
			t.Errorf("%s: scopes %q, want %q", name, way.Scopes, tt.scopes)
		case tt.why != "" && (why == nil || !strings.Contains(why.Why, tt.why)):
			t.Errorf("%s: %v, want %q", name, err, tt.why)
		}
	}
	t.Run("the challenge says where", func(t *testing.T) {
		w := newWorld(t)
		w.SetChallenge(`Bearer resource_metadata="` + strings.TrimSuffix(w.server.URL, "/mcp") + `/nothing"`)
		if _, err := w.begin(t.Context(), w.server, alice, "browser", "", vault.State{}); err == nil ||
			slices.Contains(w.Paths(), prm+"/mcp") {
			t.Errorf("%v; asked for %q", err, w.Paths())
		}
	})
}

// TestOrders: the places of metadata are tried in the order of the specification.
func TestOrders(t *testing.T) {
	for _, tt := range []struct {
		server string // its path
		there  map[string]string
		want   []string
	}{
		{"/mcp", map[string]string{
			"/.well-known/oauth-protected-resource": `{"resource":"BASE","authorization_servers":["BASE/t"]}`,
			"/t/.well-known/openid-configuration":   `{"issuer":"BASE/t"}`,
		}, []string{"/mcp", "/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource",
			"/.well-known/oauth-authorization-server/t", "/.well-known/openid-configuration/t",
			"/t/.well-known/openid-configuration"}},
		{"/mcp", map[string]string{"/.well-known/openid-configuration": `{"issuer":"BASE"}`}, // as servers of 2025-03-26
			[]string{"/mcp", "/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource",
				"/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"}},
		{"", map[string]string{}, []string{"/", "/.well-known/oauth-protected-resource",
			"/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"}},
	} {
		var asked []string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.URL.Path)
			text, ok := tt.there[r.URL.Path]
			if !ok {
				http.NotFound(w, r)
				return
			}
			_, _ = w.Write([]byte(strings.ReplaceAll(text, "BASE", "http://"+r.Host)))
		}))
		w := newWorld(t)
		_, err := w.begin(t.Context(), Server{Name: "crm", URL: server.URL + tt.server}, alice, "browser", "", vault.State{})
		server.Close()
		if err == nil || !slices.Equal(asked, tt.want) {
			t.Errorf("%v; asked for %q, want %q", err, asked, tt.want)
		}
	}
}

// TestSSRFByMetadata: a server cannot have the gateway ask for what is not public, by any URL that it
// or its authorization server names.
func TestSSRFByMetadata(t *testing.T) {
	touched := false
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { touched = true }))
	defer inside.Close()
	for name, prepare := range map[string]func(w *world){
		"resource_metadata":     func(w *world) { w.SetChallenge(`Bearer resource_metadata="` + inside.URL + `/"`) },
		"authorization_servers": func(w *world) { w.SetResource("authorization_servers", []string{inside.URL}) },
		"registration_endpoint": func(w *world) { w.SetMetadata("registration_endpoint", inside.URL) },
		"token_endpoint":        func(w *world) { w.SetMetadata("token_endpoint", inside.URL) },
		"cloud metadata":        func(w *world) { w.SetResource("authorization_servers", []string{"http://169.254.169.254"}) },
	} {
		w := newWorld(t)
		prepare(w)
		way, err := w.begin(t.Context(), w.server, alice, "browser", "", vault.State{})
		if err == nil {
			_, err = w.endAs(w.visit(t, way.URL), alice, "browser")
		}
		if err == nil || touched {
			t.Errorf("%s: %v; asked: %t", name, err, touched)
		}
	}
}

// TestClients: which client the gateway is, at which authorization server.
func TestClients(t *testing.T) {
	t.Run("registered once for all", func(t *testing.T) {
		w := newWorld(t)
		for range 3 {
			w.beginAs(t, alice, "browser")
		}
		if all := w.Registered(); len(all) != 1 || all[0]["application_type"] != "web" ||
			all[0]["token_endpoint_auth_method"] != "none" {
			t.Errorf("registered as %v", all)
		}
	})
	t.Run("its own document", func(t *testing.T) {
		w := newWorld(t)
		w.SetMetadata("client_id_metadata_document_supported", true)
		e, err := w.endAs(w.visit(t, w.beginAs(t, alice, "browser").URL), alice, "browser")
		if err != nil || e.grant.ClientID != public+DocumentPath("crm") || len(w.Registered()) > 0 {
			t.Errorf("%+v %v", e, err)
		}
		doc, err := object(w.Document("crm"))
		if err != nil || doc.At("client_id").Text() != public+DocumentPath("crm") ||
			!slices.Equal(texts(doc.At("redirect_uris")), []string{public + CallbackPath("crm")}) ||
			doc.At("token_endpoint_auth_method").Text() != vault.AuthNone {
			t.Errorf("%s %v", w.Document("crm"), err)
		}
	})
	t.Run("without a resource", func(t *testing.T) {
		w := newWorld(t)
		w.server.NoResource = true
		e, err := w.endAs(w.visit(t, w.beginAs(t, alice, "browser").URL), alice, "browser")
		if err != nil || e.grant.Resource != "" || w.Authorized()[0].Has("resource") || w.Forms()[0].Has("resource") {
			t.Errorf("%+v %v", e, err)
		}
	})
	t.Run("what the operator registered", func(t *testing.T) {
		w := newWorld(t)
		w.SetMetadata("client_id_metadata_document_supported", true)
		w.server.ClientID, w.server.ClientSecret, w.server.Issuer = "fixed", "s3cret", w.Issuer
		e, err := w.endAs(w.visit(t, w.beginAs(t, alice, "browser").URL), alice, "browser")
		if err != nil || e.grant.ClientID != "fixed" || e.grant.ClientSecret != "s3cret" ||
			e.grant.ClientAuth != vault.AuthBasic || w.Forms()[0].Has("client_secret") {
			t.Errorf("%+v %v", e, err)
		}
	})
}

// FuzzChallenge: any header can be read.
func FuzzChallenge(f *testing.F) {
	for _, text := range []string{`Bearer resource_metadata="https://a/b", scope="x y"`, `Basic, Bearer a=b`,
		`Bearer a="\`, `=`, `Bearer scope = x`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := readChallenge(http.Header{"Www-Authenticate": {text}})
		for _, scope := range c.scopes {
			if !isScope(scope) {
				t.Errorf("%q is no scope", scope)
			}
		}
		if len(c.scopes) > maxScopes {
			t.Errorf("%d scopes", len(c.scopes))
		}
	})
}

// TestCanonical: identifiers of the same resource are equal, others are not.
func TestCanonical(t *testing.T) {
	for pair, want := range map[[2]string]bool{
		{"https://A.example.com:443/mcp/", "https://a.example.com/mcp"}:         true,
		{"HTTPS://a.example.com", "https://a.example.com/"}:                     true,
		{"https://a.example.com/mcp", "https://a.example.com/MCP"}:              false,
		{"https://a.example.com/mcp", "http://a.example.com/mcp"}:               false,
		{"https://a.example.com/mcp", "https://a.example.com/mcp/x"}:            false,
		{"https://a.example.com/mcp", "https://a.example.com.evil.example/mcp"}: false,
		{"https://a.example.com/mcp#x", "https://a.example.com/mcp#x"}:          false,
		{"", ""}: false,
	} {
		if sameResource(pair[0], pair[1]) != want {
			t.Errorf("%q: want %t", pair, want)
		}
	}
}
