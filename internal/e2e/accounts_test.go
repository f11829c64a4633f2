package e2e

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/accounts"
	"github.com/gatehouse-mcp/gatehouse/auth/outbound"
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
	p.issuer.LetSignIn()
	cfg := gateway.Config{
		Auth:      auth.Config{Mode: auth.ModeOAuth, Issuers: []auth.Issuer{{URL: p.issuer.URL}}},
		Accounts:  accounts.Config{SignIn: accounts.SignIn{ClientID: "pages"}},
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
		g, err := gateway.New(gateway.Options{Config: cfg, Version: "test", Listener: listener, Log: slog.New(slog.DiscardHandler)})
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
	open := func(at string) (int, string) {
		r, err := http.NewRequestWithContext(deadline(t), http.MethodGet, at, nil)
		if err != nil {
			t.Fatal(err)
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
	status, page = open(link)
	if found := regexp.MustCompile(`class="button main" href="([^"]*)"`).FindStringSubmatch(page); found != nil {
		return open(html.UnescapeString(found[1]))
	}
	return status, page
}

// wantSignedIn signs alice in.
func (p *personal) wantSignedIn(t *testing.T, link string) {
	t.Helper()
	if status, page := p.signIn(t, "alice", link); status != http.StatusOK || !strings.Contains(page, "You are signed in at up") {
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
	if err != nil || !m.Value("instructions", &instructions) || !strings.Contains(instructions, strings.TrimSuffix(p.urls[0], "/mcp")+"/account in a browser") {
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
		if q.Method != "elicitation/create" || q.Params.Mode != "url" || !strings.Contains(q.Params.Message, "Sign in at up") || strings.Contains(m.Text, "elicitationId") {
			t.Errorf("asked %s", m.Text)
		}
		if status, page := p.signIn(t, "mallory", q.Params.URL); status != http.StatusForbidden || strings.Contains(page, "alice") {
			t.Errorf("another user: %d %s", status, page)
		}
		p.wantSignedIn(t, q.Params.URL)
		answers[key] = json.RawMessage(`{"action":"accept"}`)
	}
	text, err := json.Marshal(answers)
	if err != nil {
		t.Fatal(err)
	}
	m, _, err = c.Call(deadline(t), "tools/call", fmt.Sprintf(`{"name":"up__a","arguments":{},"inputResponses":%s,"requestState":%q}`, text, state))
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
	if m, err := x.Until("notifications/elicitation/complete"); err != nil || !m.Param("elicitationId", &told) || told != id {
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
	if m, _, err := c.Call(deadline(t), "tools/call", callA); err != nil || m.Error == nil || m.Error.Code != mcp.CodeURLElicitation || !strings.Contains(string(m.Error.Data), "/account/sign-in/") {
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
