package console

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/signin"
	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

// TestRoleBypass: nobody gets at a form or page of another role, by whichever way.
func TestRoleBypass(t *testing.T) {
	d := newDesk(t, "viewer", map[string]string{"DELETE /sessions/abc": "", "GET /sessions": `{"sessions":[]}`})
	if w := d.post("/sessions/end", "session", "abc"); w.Code != http.StatusForbidden || len(d.api.asked) != 0 {
		t.Errorf("a viewer ended a session: %d %v", w.Code, d.api.asked)
	}
	if w := d.get("/sessions"); strings.Contains(w.Body.String(), "/sessions/end") {
		t.Error("a viewer sees the form")
	}
	// The API decides, too: the console has no rights of its own.
	if d.api.as.May("operator") {
		t.Errorf("the console asked as %v", d.api.as)
	}
	for _, from := range []func(*http.Request){
		func(r *http.Request) { r.RemoteAddr = "192.0.2.1:1" },
		func(r *http.Request) {
			r.RemoteAddr = "192.0.2.1:1"
			r.AddCookie(&http.Cookie{Name: cookieName, Value: "made-up"})
		},
	} {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:9090"+Root+"/sessions", nil)
		from(r)
		w := httptest.NewRecorder()
		if d.ServeHTTP(w, r); w.Code != http.StatusForbidden {
			t.Errorf("%s with %v: %d", r.RemoteAddr, r.Cookies(), w.Code)
		}
	}
}

// TestCrossSite: forms that no page of the console has sent do nothing, and no page can be framed.
func TestCrossSite(t *testing.T) {
	d := newDesk(t, "operator", map[string]string{"DELETE /sessions/abc": ""})
	for name, change := range map[string]func(*http.Request){
		"another site": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"another port": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
		"an older browser": func(r *http.Request) {
			r.Header.Del("Sec-Fetch-Site")
			r.Header.Set("Origin", "https://evil.example.com")
		},
		"a page without origin": func(r *http.Request) { r.Header.Del("Sec-Fetch-Site"); r.Header.Set("Origin", "null") },
	} {
		r := d.form("/sessions/end", "session", "abc")
		change(r)
		w := httptest.NewRecorder()
		if d.ServeHTTP(w, r); w.Code != http.StatusForbidden || len(d.api.asked) != 0 {
			t.Errorf("%s: %d %v", name, w.Code, d.api.asked)
		}
	}
	// A link does nothing either: what changes something is a POST.
	if w := d.get("/sessions/end?session=abc"); w.Code == http.StatusSeeOther || len(d.api.asked) != 0 {
		t.Errorf("a link: %d %v", w.Code, d.api.asked)
	}
	if h := d.get("/sessions").Header(); !strings.Contains(h.Get("Content-Security-Policy"), "frame-ancestors 'none'") ||
		h.Get("X-Frame-Options") != "DENY" {
		t.Errorf("framing: %v", h)
	}
}

// TestSession: the roles of somebody who has signed in are those of the rules that hold now, and
// end with the session, which nobody can choose.
func TestSession(t *testing.T) {
	d := newDesk(t, "", map[string]string{"GET /sessions": `{"sessions":[]}`, "GET /approvals": `{"approvals":[]}`,
		"GET /decisions": `{}`})
	d.cfg.SignIn.ClientID = "console"
	open := func(path, id string, more ...*http.Cookie) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:9090"+Root+path, nil)
		r.AddCookie(&http.Cookie{Name: cookieName, Value: id})
		for _, c := range more {
			r.AddCookie(c)
		}
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		return w
	}
	begin := func(who mcp.Caller) string {
		id, err := d.guard.people.Begin(t.Context(), who)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	alice := begin(mcp.Caller{Issuer: "https://i", Subject: "alice", Groups: []string{"operator", "auditor"}})
	if w := open("/sessions", alice); w.Code != http.StatusOK ||
		!strings.Contains(w.Body.String(), "alice · operator, auditor") {
		t.Errorf("alice: %d %s", w.Code, w.Body)
	}
	if w := open("/sessions", begin(mcp.Caller{Subject: "nobody"})); w.Code != http.StatusForbidden {
		t.Errorf("somebody without a role: %d", w.Code)
	}
	approver := begin(mcp.Caller{Subject: "approver"})
	if w := open("/sessions", approver); w.Code != http.StatusForbidden {
		t.Errorf("an approver sees sessions: %d", w.Code)
	}
	if w := open("/approvals", approver); w.Code != http.StatusOK {
		t.Errorf("an approver: %d %s", w.Code, w.Body)
	}
	for name, w := range map[string]*httptest.ResponseRecorder{
		"an issuer where nobody signs in any more": open("/sessions",
			begin(mcp.Caller{Issuer: "https://former", Subject: "alice", Groups: []string{"operator"}})),
		"a session that somebody chose (session fixation)": open("/sessions", "chosen-by-somebody"),
		"two cookies of the name": open("/sessions", alice,
			&http.Cookie{Name: cookieName, Value: "other"}),
	} {
		if w.Code != http.StatusSeeOther || !strings.HasPrefix(w.Header().Get("Location"), Root+"/sign-in?to=") {
			t.Errorf("%s: %d %v", name, w.Code, w.Header())
		}
	}
	r := d.form("/sign-out")
	r.AddCookie(&http.Cookie{Name: cookieName, Value: alice})
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	if c := w.Result().Cookies(); len(c) != 1 || c[0].MaxAge >= 0 {
		t.Errorf("signing out: %v", c)
	}
	if w := open("/sessions", alice); w.Code != http.StatusSeeOther {
		t.Errorf("after signing out: %d", w.Code)
	}
}

// TestSessionsAway: while Redis does not answer, nobody is told that they may not look.
func TestSessionsAway(t *testing.T) {
	d := newDesk(t, "", nil)
	d.cfg.SignIn.ClientID = "console"
	db, err := redisdb.Open(redisdb.Config{URL: "redis://127.0.0.1:1"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	key, err := seal.NewRandom("test")
	if err != nil {
		t.Fatal(err)
	}
	d.guard.people = signin.NewSessions(expiring.Base{Redis: db}, key)
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:9090"+Root+"/sessions", nil)
	r.AddCookie(&http.Cookie{Name: cookieName, Value: "of-before"})
	w := httptest.NewRecorder()
	if d.ServeHTTP(w, r); w.Code != http.StatusServiceUnavailable ||
		!strings.Contains(w.Body.String(), "Redis does not answer") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestLostRole: a page that somebody has open is not made again once they have lost their role.
func TestLostRole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, "viewer", map[string]string{"GET /sessions": `{"sessions":[]}`})
		asked := 0
		d.guard.staff = crew(func() Config {
			if asked++; asked > 2 {
				return Config{}
			}
			return d.cfg
		})
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:9090"+Root+"/sessions", nil)
		r.RemoteAddr = "127.0.0.1:1234"
		r.Header.Set("Accept", "text/event-stream")
		w, began := httptest.NewRecorder(), time.Now()
		d.ServeHTTP(w, r)
		if took := time.Since(began); took > 2*lookAgain || strings.Count(w.Body.String(), "event: part") != 1 {
			t.Errorf("after %s: %s", took, w.Body)
		}
	})
}

// TestAlias: a sign-in that begins at another name of this machine goes on at the console's own URL,
// where the cookie is that ends it.
func TestAlias(t *testing.T) {
	d := newDesk(t, "", nil)
	d.deps.Flow = func() *signin.Flow { return &signin.Flow{Issuer: "https://i.example.com"} }
	for host, want := range map[string]string{
		"localhost:9090": "http://127.0.0.1:9090/console/sign-in/start?to=%2Fconsole%2Fcalls", "evil.example.com": "",
	} {
		r := httptest.NewRequest(http.MethodGet, "http://"+host+startPath+"?to=/console/calls", nil)
		w := httptest.NewRecorder()
		if d.ServeHTTP(w, r); w.Header().Get("Location") != want || len(w.Result().Cookies()) != 0 {
			t.Errorf("%s: %d %v", host, w.Code, w.Header())
		}
	}
}

// TestWithin: after the sign-in, the browser goes to a page of the console only.
func TestWithin(t *testing.T) {
	for to, want := range map[string]string{
		"/console/calls?user=a": "/console/calls?user=a", "": "/console/", "//evil.example.com/console/": "/console/",
		"https://evil.example.com/console/": "/console/",
		`/console/\evil`:                    "/console/", "/console/../metrics": "/console/", "/console/sign-in": "/console/",
		"/other": "/console/", "/console/%2e%2e/x": "/console/",
	} {
		if got := within(to); got != want {
			t.Errorf("%q: %q", to, got)
		}
	}
}

// TestNoSessionWithoutRole: a user without a role gets no session, and takes no room of operators.
func TestNoSessionWithoutRole(t *testing.T) {
	issuer := mcptest.NewIssuer(mcptest.IssuerOptions{})
	t.Cleanup(issuer.Close)
	issuer.SetMetadata("authorization_endpoint", issuer.URL+"/authorize")
	issuer.SetMetadata("token_endpoint", issuer.URL+"/token")
	var groups []string
	issuer.Handle("/token", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		token := issuer.Token(map[string]any{"groups": groups})
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": token, "token_type": "Bearer"})
	})
	cfg := auth.Config{Mode: auth.ModeOAuth, Issuers: []auth.Issuer{{URL: issuer.URL}}}
	a, err := auth.New(cfg, auth.Deps{PublicURL: issuer.Audience})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = a.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	key, err := seal.NewRandom("test")
	if err != nil {
		t.Fatal(err)
	}
	d := newDesk(t, "", nil)
	d.cfg.SignIn.ClientID = "console"
	flow := &signin.Flow{
		Issuer: issuer.URL, ClientID: "console", Scopes: []string{"mcp"}, Resource: issuer.Audience,
		Redirect: d.guard.url + CallbackPath, Cookie: "flow", Path: CallbackPath,
		Key: key, Ended: signin.NewEnded(expiring.Base{}), Issuers: a,
	}
	d.deps.Flow = func() *signin.Flow { return flow }
	for role, status := range map[string]int{"viewer": http.StatusSeeOther, "": http.StatusForbidden} {
		groups = strings.Fields(role)
		w := httptest.NewRecorder()
		at, err := flow.Begin(w, httptest.NewRequest(http.MethodGet, startPath, nil), Root+"/calls")
		if err != nil {
			t.Fatal(err)
		}
		to, _ := url.Parse(at)
		answer := url.Values{"code": {"good"}, "state": {to.Query().Get("state")}, "iss": {issuer.URL}}
		r := httptest.NewRequest(http.MethodGet, d.guard.url+CallbackPath+"?"+answer.Encode(), nil)
		r.AddCookie(w.Result().Cookies()[0])
		w = httptest.NewRecorder()
		d.ServeHTTP(w, r)
		began := slices.ContainsFunc(w.Result().Cookies(), func(c *http.Cookie) bool { return c.Name == cookieName })
		if w.Code != status || began != (role != "") {
			t.Errorf("the role %q: %d, a session: %t: %s", role, w.Code, began, w.Body)
		}
	}
}
