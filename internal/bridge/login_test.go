package bridge_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/bridge"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// newAccounts starts a server where users sign in, with its own inner server.
func newAccounts(t *testing.T, inner http.Handler) *mcptest.Accounts {
	a := mcptest.NewAccounts(inner)
	t.Cleanup(a.Close)
	return a
}

// browser opens pages as a user who signs in at once, and counts them.
type browser struct {
	t      *testing.T
	opened atomic.Int32
	pages  chan string // what the user sees at the end
}

func newBrowser(t *testing.T) *browser { return &browser{t: t, pages: make(chan string, 100)} }

func (b *browser) open(page string) {
	b.opened.Add(1)
	go func() { // as a browser, which the bridge does not wait for
		client := mcptest.NewBrowser("alice")
		defer client.CloseIdleConnections()
		resp, err := client.Get(page)
		if err != nil {
			b.t.Error(err)
			return
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		b.pages <- string(text)
	}()
}

// TestSignIn: one sign-in in the browser is that of all requests, of bridges at the same time, and of those after.
// What is kept cannot be read.
func TestSignIn(t *testing.T) {
	inner := fake.NewUnstarted(true, nil)
	a := newAccounts(t, inner)
	dir, b := filepath.Join(t.TempDir(), "state"), newBrowser(t)
	cfg := bridge.Config{URL: a.URL, Directory: dir, Open: b.open}
	hosts := []*host{begin(t, cfg), begin(t, cfg), begin(t, cfg)}
	for _, h := range hosts {
		h.say(hello)
	}
	for _, h := range hosts {
		h.want(`"protocolVersion":"2025-11-25"`)
	}
	if page := <-b.pages; !strings.Contains(page, "You are signed in") {
		t.Errorf("the user saw %s", page)
	}
	for _, h := range hosts {
		if err := h.end(); err != nil {
			t.Error(err)
		}
	}
	last := begin(t, cfg)
	last.open()
	if n, forms := b.opened.Load(), a.Forms(); n != 1 || len(forms) != 1 || len(a.Registered()) != 1 {
		t.Errorf("%d pages were opened, %d tokens fetched, %d clients registered", n, len(forms), len(a.Registered()))
	}
	asked := a.Authorized()[0]
	back, err := url.Parse(asked.Get("redirect_uri"))
	if err != nil || back.Hostname() != "127.0.0.1" || back.Path != "/callback" ||
		asked.Get("code_challenge_method") != "S256" || asked.Get("resource") != a.URL || asked.Get("scope") != "read" ||
		asked.Get("state") == "" {
		t.Errorf("it was asked for %v", asked)
	}
	if doc := a.Registered()[0]; doc["application_type"] != "native" {
		t.Errorf("registered as %v", doc)
	}
	for _, s := range inner.Requests("") {
		if s.Header.Get("Authorization") != "Bearer account-2" {
			t.Errorf("%s %s has %v", s.Verb, s.Method, s.Header["Authorization"])
		}
	}
	for name, want := range map[string]os.FileMode{"": 0o700, "bridge.db": 0o600, "bridge.key": 0o600} {
		file := filepath.Join(dir, name)
		info, err := os.Stat(file)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v %v", name, info.Mode(), err)
		}
		text, _ := os.ReadFile(file)
		if strings.Contains(string(text), "account-2") || strings.Contains(string(text), "registered-1") {
			t.Errorf("%s can be read", name)
		}
	}
}

// TestRefreshOnce: bridges at the same time refresh a token that the server has refused once, in turn.
func TestRefreshOnce(t *testing.T) {
	var refused atomic.Bool
	inner := fake.NewUnstarted(false, func(_ *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		if refused.Load() && r.Header.Get("Authorization") == "Bearer account-2" {
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		return false
	})
	a, b := newAccounts(t, inner), newBrowser(t)
	cfg := bridge.Config{URL: a.URL, Directory: t.TempDir(), Open: b.open}
	var hosts []*host
	for range 3 {
		h := begin(t, cfg)
		h.say(alone(tool(1, "a", `{}`)))
		h.want(`"id":1,"result"`)
		hosts = append(hosts, h)
	}
	refused.Store(true)
	for _, h := range hosts {
		h.say(alone(tool(2, "a", `{}`)))
	}
	for _, h := range hosts {
		h.want(`"id":2,"result"`)
	}
	refreshes := slices.DeleteFunc(a.Forms(),
		func(form url.Values) bool { return form.Get("grant_type") != "refresh_token" })
	if len(refreshes) != 1 || refreshes[0].Get("refresh_token") != "refresh-account-2" ||
		refreshes[0].Get("resource") != a.URL || b.opened.Load() != 1 {
		t.Errorf("%d pages, and refreshed by %v", b.opened.Load(), refreshes)
	}
}

// TestMoreRights: a server that wants more rights for a call gets another sign-in, with those that the user had.
func TestMoreRights(t *testing.T) {
	inner := fake.NewUnstarted(false, func(_ *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		if m.Method == mcp.MethodToolsCall && r.Header.Get("Authorization") == "Bearer account-2" {
			w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="write"`)
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		return false
	})
	a, b := newAccounts(t, inner), newBrowser(t)
	h := begin(t, bridge.Config{URL: a.URL, Directory: t.TempDir(), Open: b.open})
	h.say(alone(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"x":1}}`))
	h.want(`"id":1,"result"`)
	h.say(alone(tool(2, "a", `{}`)))
	h.want(`"id":2,"result"`)
	asked := a.Authorized()
	if len(asked) != 2 || asked[1].Get("scope") != "read write" ||
		asked[0].Get("redirect_uri") != asked[1].Get("redirect_uri") {
		t.Errorf("asked for %v", asked)
	}
}

// TestMoreRightsInVain: a server that goes on refusing opens no page for each call.
func TestMoreRightsInVain(t *testing.T) {
	inner := fake.NewUnstarted(false, func(_ *fake.Server, w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
		if m.Method == mcp.MethodToolsCall {
			w.Header().Set("WWW-Authenticate",
				`Bearer error="insufficient_scope", scope="`+mcp.Raw(m.Params).At("name").Text()+`"`)
			w.WriteHeader(http.StatusForbidden)
		}
		return m.Method == mcp.MethodToolsCall
	})
	a, b := newAccounts(t, inner), newBrowser(t)
	h := begin(t, bridge.Config{URL: a.URL, Directory: t.TempDir(), Open: b.open})
	for id := range 6 { // in turn, for different rights
		h.say(alone(tool(id, []string{"a", "b"}[id%2], `{}`)))
		h.want(fmt.Sprintf(`"id":%d,"error"`, id))
	}
	if n := b.opened.Load(); n != 4 {
		t.Errorf("%d pages were opened for six calls, want four", n)
	}
}

// TestSignInFails: the host learns why, once for all requests, and no page opens for each of them.
func TestSignInFails(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*mcptest.Accounts)
		want   string
		pages  int32
	}{
		"declined": {func(a *mcptest.Accounts) { a.SetAnswer("error", "access_denied") },
			"has refused the sign-in (access_denied)", 1},
		"iss of another": {func(a *mcptest.Accounts) { a.SetAnswer("iss", "https://evil.example") },
			"from another authorization server than the one that was asked", 1},
		"no iss": {func(a *mcptest.Accounts) { a.SetAnswer("iss", "") }, "from another authorization server", 1},
		"no PKCE": {func(a *mcptest.Accounts) { a.SetMetadata("code_challenge_methods_supported", nil) },
			"(PKCE with S256)", 0},
		"another resource": {func(a *mcptest.Accounts) { a.SetResource("resource", "https://other.example/mcp") },
			"describes itself as another server", 0},
		"another issuer": {func(a *mcptest.Accounts) { a.SetMetadata("issuer", "https://other.example") },
			"of another issuer", 0},
		"a private address": {func(a *mcptest.Accounts) {
			a.SetResource("authorization_servers", []string{"https://10.0.0.1"})
		}, "not allowed", 0},
		"no registration": {func(a *mcptest.Accounts) { a.SetMetadata("registration_endpoint", nil) },
			"configure its client id", 0},
	} {
		t.Run(name, func(t *testing.T) {
			inner := fake.NewUnstarted(false, nil)
			a, b := newAccounts(t, inner), newBrowser(t)
			tt.change(a)
			h := begin(t, bridge.Config{URL: a.URL, Directory: t.TempDir(), Open: b.open})
			for range 2 {
				h.say(alone(tool(1, "a", `{}`)))
				h.want(tt.want)
			}
			if len(inner.Requests("")) != 0 || b.opened.Load() != tt.pages {
				t.Errorf("%d requests went through, %d pages opened", len(inner.Requests("")), b.opened.Load())
			}
		})
	}
}

// TestForeignCallback: who does not know the state cannot end a sign-in, nor disturb it.
func TestForeignCallback(t *testing.T) {
	a, b := newAccounts(t, fake.NewUnstarted(false, nil)), newBrowser(t)
	open := func(page string) {
		u, err := url.Parse(page)
		if err != nil {
			t.Error(err)
			return
		}
		back := u.Query().Get("redirect_uri")
		for _, query := range []string{"", "?code=1&state=x&iss=" + url.QueryEscape(a.Issuer), "?error=access_denied"} {
			resp, err := http.Get(back + query)
			if err != nil || resp.StatusCode != http.StatusBadRequest {
				t.Errorf("%s: %v %v", query, resp, err)
			}
			if err == nil {
				resp.Body.Close()
			}
		}
		http.DefaultClient.CloseIdleConnections()
		b.open(page)
	}
	h := begin(t, bridge.Config{URL: a.URL, Directory: t.TempDir(), Open: open})
	h.say(alone(tool(1, "a", `{}`)))
	h.want(`"id":1,"result"`)
}

// TestRegistered: a client that is registered at an authorization server is used there, and nowhere else. Its redirect
// URI for a server is the same on all machines.
func TestRegistered(t *testing.T) {
	a, b := newAccounts(t, fake.NewUnstarted(false, nil)), newBrowser(t)
	cfg := bridge.Config{URL: a.URL, Directory: t.TempDir(), Open: b.open, AuthorizationServer: a.Issuer,
		ClientID: "public"}
	h := begin(t, cfg)
	h.say(alone(tool(1, "a", `{}`)))
	h.want(`"id":1,"result"`)
	cfg.Directory = t.TempDir() // as on another machine
	h = begin(t, cfg)
	h.say(alone(tool(1, "a", `{}`)))
	h.want(`"id":1,"result"`)
	asked := a.Authorized()
	if len(asked) != 2 || asked[0].Get("client_id") != "public" || len(a.Registered()) != 0 ||
		asked[0].Get("redirect_uri") != asked[1].Get("redirect_uri") {
		t.Errorf("asked as %v", asked)
	}
	other := newAccounts(t, fake.NewUnstarted(false, nil))
	cfg.URL = other.URL
	h = begin(t, cfg)
	h.say(alone(tool(1, "a", `{}`)))
	h.want("has another authorization server than the one that is configured")
	if len(other.Forms())+len(other.Authorized()) != 0 {
		t.Error("the other one has got the client")
	}
}

// TestTokenStays: a token goes to the server alone: not where it redirects to, nor to another URL at the same host.
func TestTokenStays(t *testing.T) {
	var leaked atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			leaked.Add(1)
		}
	}))
	defer elsewhere.Close()
	a, b := newAccounts(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	})), newBrowser(t)
	dir := t.TempDir()
	h := begin(t, bridge.Config{URL: a.URL, Directory: dir, Open: b.open})
	h.say(alone(tool(1, "a", `{}`)))
	h.want("a redirect to " + elsewhere.URL)
	h = begin(t, bridge.Config{URL: strings.TrimSuffix(a.URL, "/mcp") + "/other", Directory: dir, Open: b.open})
	h.say(alone(tool(1, "a", `{}`)))
	h.want("does not answer as an MCP server")
	if leaked.Load() != 0 {
		t.Error("the token went elsewhere")
	}
}
