package e2e

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/accounts"
	"github.com/gatehouse-mcp/gatehouse/auth/outbound"
	"github.com/gatehouse-mcp/gatehouse/auth/signin"
	"github.com/gatehouse-mcp/gatehouse/auth/vault"
	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// personal are replicas of a gateway whose server "up" lets only those in who have an account there.
type personal struct {
	urls   []string // of the endpoints; browsers come to the first
	issuer *mcptest.Issuer
	remote *mcptest.Accounts
}

func newPersonal(t *testing.T, server string, replicas int) *personal {
	t.Helper()
	s := scripted(t, server)
	s.Tools("a")
	s.On("tools/call", func(c *mcptest.Call) { c.Text("done as " + c.Header.Get("Authorization")[:14]) })
	p := &personal{issuer: newIssuer(t), remote: mcptest.NewAccounts(s)}
	t.Cleanup(p.remote.Close)
	p.issuer.LetSignIn(nil)
	cfg := gateway.Config{
		Auth:      auth.Config{Mode: auth.ModeOAuth, Issuers: []auth.Issuer{{URL: p.issuer.URL}}},
		Accounts:  accounts.Config{SignIn: signin.Config{ClientID: "pages"}},
		Policy:    policy.Config{Default: policy.DefaultAllow},
		Upstreams: []upstream.Config{{Name: "up", URL: p.remote.URL, Auth: outbound.Config{Type: outbound.TypeUserOAuth}}},
	}
	if replicas > 1 {
		cfg.Sessions.Store, cfg.Sessions.Key, cfg.Replicas.Listen = "redis", "0123456789abcdef0123456789abcdef", "127.0.0.1:0"
		cfg.Sessions.Redis.URL = mcp.Secret(redistest.Start(t).URL())
		cfg.Vault = vault.Config{Keys: []vault.Key{{ID: "1", Key: "fedcba9876543210fedcba9876543210"}}}
	}
	for range replicas {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		p.urls = append(p.urls, "http://"+listener.Addr().String()+"/mcp")
		cfg.Listen, cfg.PublicURL, p.issuer.Audience = listener.Addr().String(), p.urls[0], p.urls[0]
		g, err := gateway.New(gateway.Options{Config: cfg, Version: "test", Listener: listener,
			Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			listener.Close()
			t.Fatal(err)
		}
		untilTheEnd(t, g)
	}
	return p
}

// client is alice's.
func (p *personal) client(t *testing.T, at, revision, caps string) *mcptest.Client {
	t.Helper()
	c := unopened(t, at, revision)
	c.Caps = caps
	present(c, p.issuer.Token(claims{"sub": "alice"}))
	if err := c.Open(deadline(t)); err != nil {
		t.Fatal(err)
	}
	return c
}

// signIn plays the browser of a user with the link that they were given.
func (p *personal) signIn(t *testing.T, user, link string) (status int, page string) {
	t.Helper()
	browser := mcptest.NewBrowser(user)
	defer browser.CloseIdleConnections()
	if !strings.HasPrefix(link, strings.TrimSuffix(p.urls[0], "/mcp")+"/account/sign-in/") {
		t.Fatalf("the link is %q", link)
	}
	status, page = visited(t, browser, link, nil)
	if found := regexp.MustCompile(`class="button main" href="([^"]*)"`).FindStringSubmatch(page); found != nil {
		return visited(t, browser, html.UnescapeString(found[1]), nil)
	}
	return status, page
}

// visited opens a page, or sends a form there.
func visited(t *testing.T, browser *http.Client, at string, form url.Values) (status int, page string) {
	t.Helper()
	method, body := http.MethodGet, io.Reader(nil)
	if form != nil {
		method, body = http.MethodPost, strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(deadline(t), method, at, body)
	if err != nil {
		t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	answer, err := browser.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// signOut signs alice out of the server on the page of her accounts.
func (p *personal) signOut(t *testing.T) {
	t.Helper()
	browser := mcptest.NewBrowser("alice")
	defer browser.CloseIdleConnections()
	home := strings.TrimSuffix(p.urls[0], "/mcp") + accounts.Root
	_, page := visited(t, browser, home, nil)
	proof := regexp.MustCompile(`name="proof" value="([^"]*)"`).FindStringSubmatch(page)
	if proof == nil {
		t.Fatalf("there is no form: %s", page)
	}
	if status, page := visited(t, browser, home+"/sign-out",
		url.Values{"proof": {html.UnescapeString(proof[1])}, "server": {"up"}}); status != http.StatusOK ||
		!strings.Contains(page, "You are signed out.") {
		t.Fatalf("%d %s", status, page)
	}
}

// wantSignedIn signs alice in.
func (p *personal) wantSignedIn(t *testing.T, link string) {
	t.Helper()
	if status, page := p.signIn(t, "alice", link); status != http.StatusOK ||
		!strings.Contains(page, "You are signed in at up") {
		t.Fatalf("%d %s", status, page)
	}
}

const (
	callA = `{"name":"up__a","arguments":{}}`
	done  = "done as Bearer account"
	opens = `{"elicitation":{"url":{}}}`
)

// wantTool requests the list of tools until it has the server's tool, or lacks it.
func wantTool(t *testing.T, c *mcptest.Client, want bool) {
	t.Helper()
	ctx := deadline(t)
	for {
		m, _, err := c.Call(ctx, "tools/list", `{}`)
		if err != nil || m.Error != nil {
			t.Fatalf("%s %v", m.Text, err)
		}
		if strings.Contains(m.Text, "up__a") == want {
			return
		}
	}
}

// TestAccountAskedStateless: a call of a client of 2026-07-28 asks its user to sign in, and the
// request that comes back goes on.
func TestAccountAskedStateless(t *testing.T) {
	t.Parallel()
	p := newPersonal(t, stateless, 1)
	c := p.client(t, p.urls[0], stateless, opens)
	wantTool(t, c, false)
	m, _, err := c.Call(deadline(t), "server/discover", `{}`)
	var instructions string
	if err != nil || !m.Value("instructions", &instructions) ||
		!strings.Contains(instructions, strings.TrimSuffix(p.urls[0], "/mcp")+"/account in a browser") {
		t.Errorf("instructions %q %v", instructions, err)
	}
	m, _, err = c.Call(deadline(t), "tools/call", callA)
	var state string
	var asked map[string]struct {
		Method string
		Params struct{ Mode, URL, Message string }
	}
	if err != nil || !m.Value("requestState", &state) || !m.Value("inputRequests", &asked) || len(asked) != 1 {
		t.Fatalf("asked %s %v", m.Text, err)
	}
	answers := map[string]json.RawMessage{}
	for key, q := range asked {
		if q.Method != "elicitation/create" || q.Params.Mode != "url" ||
			!strings.Contains(q.Params.Message, "Sign in at up") || strings.Contains(m.Text, "elicitationId") {
			t.Errorf("asked %s", m.Text)
		}
		if status, page := p.signIn(t, "mallory", q.Params.URL); status != http.StatusForbidden ||
			strings.Contains(page, "alice") {
			t.Errorf("another user: %d %s", status, page)
		}
		p.wantSignedIn(t, q.Params.URL)
		answers[key] = json.RawMessage(`{"action":"accept"}`)
	}
	text, err := json.Marshal(answers)
	if err != nil {
		t.Fatal(err)
	}
	m, _, err = c.Call(deadline(t), "tools/call",
		fmt.Sprintf(`{"name":"up__a","arguments":{},"inputResponses":%s,"requestState":%q}`, text, state))
	if err != nil || !strings.Contains(m.Text, done) {
		t.Errorf("went on with %s %v", m.Text, err)
	}
	wantTool(t, c, true)
}

// TestAccountAskedStateful: a call of a client of 2025-11-25 asks its user on its stream and goes on
// by itself, at another replica than the one that the browser came to.
func TestAccountAskedStateful(t *testing.T) {
	t.Parallel()
	p := newPersonal(t, statefulServer, 2)
	c := p.client(t, p.urls[1], statefulClient, opens)
	x, err := c.Send(deadline(t), "tools/call", callA)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	q, err := x.Until("elicitation/create")
	var mode, link, id string
	if err != nil || !q.Param("mode", &mode) || mode != "url" || !q.Param("url", &link) || !q.Param("elicitationId", &id) {
		t.Fatalf("asked %s %v", q.Text, err)
	}
	if err := c.Answer(deadline(t), q.ID, `{"action":"accept"}`); err != nil {
		t.Fatal(err)
	}
	p.wantSignedIn(t, link)
	var told string
	if m, err := x.Until("notifications/elicitation/complete"); err != nil ||
		!m.Param("elicitationId", &told) || told != id {
		t.Errorf("told %s %v, want %s", m.Text, err, id)
	}
	if m, err := x.Response(); err != nil || !strings.Contains(m.Text, done) {
		t.Errorf("went on with %s %v", m.Text, err)
	}
	wantTool(t, c, true)
}

// TestAccountAskedByText: a client that cannot send its user to a page gets a text with the link, and
// its user's next call goes through. A client that is not listened to gets the page with an error.
func TestAccountAskedByText(t *testing.T) {
	t.Parallel()
	p := newPersonal(t, stateless, 1)
	c := p.client(t, p.urls[0], statefulClient, opens)
	c.Header.Set("Accept", "application/json")
	if m, _, err := c.Call(deadline(t), "tools/call", callA); err != nil || m.Error == nil ||
		m.Error.Code != mcp.CodeURLElicitation || !strings.Contains(string(m.Error.Data), "/account/sign-in/") {
		t.Errorf("JSON only: %s %v", m.Text, err)
	}
	for _, revision := range []string{"2024-11-05", statefulClient, stateless} {
		m, _, err := p.client(t, p.urls[0], revision, `{}`).Call(deadline(t), "tools/call", callA)
		link := regexp.MustCompile(`http://[^ "]+/account/sign-in/[^ "]+`).FindString(m.Text)
		if err != nil || !strings.Contains(m.Text, `"isError":true`) || link == "" {
			t.Fatalf("%s: %s %v", revision, m.Text, err)
		}
		if revision == stateless {
			p.wantSignedIn(t, link)
		}
	}
	old := p.client(t, p.urls[0], "2024-11-05", `{}`)
	if m, _, err := old.Call(deadline(t), "tools/call", callA); err != nil || !strings.Contains(m.Text, done) {
		t.Errorf("after the sign-in: %s %v", m.Text, err)
	}
	wantTool(t, old, true)
}

// TestReplicasHearOfAccounts: sessions of a user at every replica hear that the lists have changed when
// the user signs in at a server at one of them, or out of it. When the page says that they are signed
// out, no replica uses the token any more, although it would still be good.
func TestReplicasHearOfAccounts(t *testing.T) {
	t.Parallel()
	p := newPersonal(t, stateless, 2)
	p.remote.SetMetadata("revocation_endpoint", nil)
	var clients []*mcptest.Client
	var listening []*mcptest.Exchange
	for _, at := range p.urls {
		for _, revision := range eras {
			c := p.client(t, at, revision, `{}`)
			wantTool(t, c, false)
			clients, listening = append(clients, c), append(listening, hearing(t, c))
		}
	}
	hear := func(of string) {
		t.Helper()
		for i, x := range listening {
			if _, err := x.Until("notifications/tools/list_changed"); err != nil {
				t.Errorf("client %d did not hear of the %s: %v", i, of, err)
			}
		}
	}
	m := mustCall(t, clients[0], "tools/call", callA)
	p.wantSignedIn(t, regexp.MustCompile(`http://[^ "]+/account/sign-in/[^ "]+`).FindString(m.Text))
	hear("sign-in")
	for _, c := range clients {
		wantTool(t, c, true)
		if m := mustCall(t, c, "tools/call", callA); !strings.Contains(m.Text, done) {
			t.Errorf("after the sign-in: %s", m.Text)
		}
	}
	p.signOut(t)
	for _, c := range clients {
		if m := mustCall(t, c, "tools/call", callA); strings.Contains(m.Text, done) ||
			!strings.Contains(m.Text, "/account/sign-in/") {
			t.Errorf("after the sign-out: %s", m.Text)
		}
	}
	hear("sign-out")
	for _, c := range clients {
		wantTool(t, c, false)
	}
}
