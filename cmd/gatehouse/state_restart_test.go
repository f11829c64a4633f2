package main

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

// alone is a gateway alone with an authorization server, and with a server where users have accounts.
type alone struct {
	*replica
	issuer *mcptest.Issuer
	remote *mcptest.Accounts
	origin string
	home   string // the directory of the configuration
}

// aloneConfig has places for the address, the issuer, the server, and the store.
const aloneConfig = `listen: %[1]s
public_url: http://%[1]s/mcp
admin: {listen: 127.0.0.1:0}
%[4]s
auth:
  mode: oauth
  issuers: [{url: %[2]q}]
  server:
    enabled: true
    client_id: gatehouse
    registration: {dcr: {enabled: true, redirects: ["*"]}}
policy: {default: allow}
upstreams: [{name: up, url: %[3]q, auth: {type: user_oauth}}]
`

func newAlone(t *testing.T) *alone {
	t.Helper()
	return newKeeping(t, "", "state: {directory: state}")
}

// newShared has everything in Redis, with the program of another version.
func newShared(t *testing.T, program string) *alone {
	t.Helper()
	return newKeeping(t, program, fmt.Sprintf(`sessions: {store: redis, key: 0123456789abcdef0123456789abcdef, redis: {url: %q}}
replicas: {listen: "127.0.0.1:0"}
vault: {keys: [{id: new, key: fedcba9876543210fedcba9876543210}]}`, redistest.Start(t).URL()))
}

// newKeeping starts a gateway that keeps its state in a store.
func newKeeping(t *testing.T, program, store string) *alone {
	t.Helper()
	s := mcptest.NewServer(wire.Stateless())
	t.Cleanup(s.Close)
	s.Tools("a")
	s.On("tools/call", func(c *mcptest.Call) { c.Text("done as " + c.Header.Get("Authorization")[:14]) })
	g := &alone{issuer: mcptest.NewIssuer(mcptest.IssuerOptions{}), remote: mcptest.NewAccounts(s), home: t.TempDir()}
	t.Cleanup(g.issuer.Close)
	t.Cleanup(g.remote.Close)
	at, err := mcptest.FreeAddress("127.0.0.81")
	if err != nil {
		t.Fatal(err)
	}
	g.origin, g.issuer.Audience = "http://"+at, "http://"+at+"/mcp"
	g.issuer.LetSignIn(nil)
	g.replica = &replica{program: program, config: filepath.Join(g.home, "gatehouse.yaml")}
	g.write(t, fmt.Sprintf(aloneConfig, at, g.issuer.URL, g.remote.URL, store))
	t.Cleanup(g.end)
	g.start(t)
	return g
}

func (g *alone) write(t *testing.T, config string) {
	t.Helper()
	if err := os.WriteFile(g.config, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
}

// again kills the gateway, and starts it.
func (g *alone) again(t *testing.T) {
	t.Helper()
	g.signal(t, syscall.SIGKILL)
	g.wait(t)
	g.start(t)
}

// app is a client that registers itself.
func (g *alone) app() *mcptest.OAuthApp {
	return &mcptest.OAuthApp{Endpoint: g.origin + "/mcp", Redirect: "https://app.example/cb",
		Registration: `{"client_name":"App","redirect_uris":["https://app.example/cb"],"token_endpoint_auth_method":"none"}`}
}

// call calls the tool with a token.
func (g *alone) call(t *testing.T, token string) string {
	t.Helper()
	c := mcptest.NewClient(g.origin+"/mcp", wire.Stateless())
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	c.HTTP, c.Header = &http.Client{Transport: transport}, http.Header{"Authorization": {"Bearer " + token}}
	m, _, err := c.Call(deadline(t), "tools/call", `{"name":"up__a","arguments":{}}`)
	if err != nil {
		t.Fatal(err)
	}
	return m.Text
}

var (
	signInLink = regexp.MustCompile(`http://[^ "\\]+/account/sign-in/[^ "\\]+`)
	mainButton = regexp.MustCompile(`class="button main" href="([^"]*)"`)
	proofField = regexp.MustCompile(`name="proof" value="([^"]*)"`)
)

// connect signs alice in at the server, by the link in a refused call.
func (g *alone) connect(t *testing.T, answer string) {
	t.Helper()
	browser := mcptest.NewBrowser("alice")
	defer browser.CloseIdleConnections()
	page := get(t, browser, signInLink.FindString(answer))
	if next := mainButton.FindStringSubmatch(page); next != nil {
		page = get(t, browser, html.UnescapeString(next[1]))
	}
	if !strings.Contains(page, "You are signed in at up") {
		t.Fatalf("signing in at the server: %s", page)
	}
}

// disconnect signs alice out of the server.
func (g *alone) disconnect(t *testing.T) {
	t.Helper()
	browser := mcptest.NewBrowser("alice")
	defer browser.CloseIdleConnections()
	proof := proofField.FindStringSubmatch(get(t, browser, g.origin+"/account"))
	if proof == nil {
		t.Fatal("there is no form to sign out")
	}
	answer, err := browser.PostForm(g.origin+"/account/sign-out",
		url.Values{"proof": {html.UnescapeString(proof[1])}, "server": {"up"}})
	if err != nil {
		t.Fatal(err)
	}
	if answer.Body.Close(); answer.StatusCode != http.StatusOK {
		t.Fatalf("signing out: %s", answer.Status)
	}
}

func get(t *testing.T, browser *http.Client, at string) string {
	t.Helper()
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
	return string(text)
}

// token asks the token endpoint, or that for revocation. It returns the status, 0 for no answer.
func (g *alone) token(ctx context.Context, at string, form url.Values) (status int, refresh string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.origin+at, strings.NewReader(form.Encode()))
	if err != nil {
		return 0, ""
	}
	r.Close = true
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, ""
	}
	defer answer.Body.Close()
	var tokens struct {
		Refresh string `json:"refresh_token"`
	}
	if text, err := io.ReadAll(answer.Body); err != nil || len(text) > 0 && json.Unmarshal(text, &tokens) != nil {
		return 0, ""
	}
	return answer.StatusCode, tokens.Refresh
}

func (g *alone) renew(ctx context.Context, app *mcptest.OAuthApp, refresh string) (status int, next string) {
	return g.token(ctx, "/oauth/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh},
		"client_id": {app.ID}, "resource": {g.origin + "/mcp"}})
}

// TestStateOutlivesTheGateway: after a kill, a gateway alone goes on without a new sign-in: with the client that
// has registered itself, its tokens, the consent of the user, and the account at a server. What was revoked
// before a kill stays revoked.
func TestStateOutlivesTheGateway(t *testing.T) {
	t.Parallel()
	g, ctx := newAlone(t), t.Context()
	asked := 0
	allow := func(*mcptest.Page) string { asked++; return "allow" }
	app := g.app()
	tokens := app.SignIn(ctx, t, mcptest.NewTab(t, "alice"), allow)
	g.connect(t, g.call(t, tokens.Access))
	if got := g.call(t, tokens.Access); !strings.Contains(got, "done as Bearer account") {
		t.Fatalf("with an account: %s", got)
	}
	for name, mode := range map[string]os.FileMode{"": 0o700, "state.db": 0o600, "state.key": 0o600} {
		if info, err := os.Stat(filepath.Join(g.home, "state", name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("state/%s: %v %v", name, info, err)
		}
	}

	g.again(t)
	if got := g.call(t, tokens.Access); !strings.Contains(got, "done as Bearer account") {
		t.Errorf("after a kill: %s", got)
	}
	renewed := app.Renew(ctx, tokens.Refresh)
	if renewed.Status != http.StatusOK {
		t.Fatalf("after a kill: %+v", renewed)
	}
	others := app.SignIn(ctx, t, mcptest.NewTab(t, "alice"), allow)
	if asked != 1 {
		t.Errorf("alice was asked for consent %d times", asked)
	}

	if status, _ := g.token(ctx, "/oauth/revoke",
		url.Values{"token": {renewed.Refresh}, "client_id": {app.ID}}); status != http.StatusOK {
		t.Fatalf("revocation: %d", status)
	}
	g.disconnect(t)
	g.again(t)
	if resp, _ := app.Call(ctx, renewed.Access); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a revoked token lives again: %s", resp.Status)
	}
	if again := app.Renew(ctx, renewed.Refresh); again.Error != "invalid_grant" {
		t.Errorf("a revoked refresh token lives again: %+v", again)
	}
	if got := g.call(t, others.Access); !strings.Contains(got, "/account/sign-in/") {
		t.Errorf("an account that was signed out lives again: %s", got)
	}
	g.connect(t, g.call(t, others.Access))
	if n := len(g.remote.Registered()); n != 1 {
		t.Errorf("the gateway has registered itself %d times", n)
	}

	// A code, or a refresh token, that was used before the kill is one that was stolen.
	app.Discover(ctx, t)
	back := mcptest.NewTab(t, "alice").Open(ctx, app.AuthorizationURL(), app.Redirect)
	third := app.Redeem(ctx, back.URL)
	g.again(t)
	if twice := app.Redeem(ctx, back.URL); twice.Error != "invalid_grant" {
		t.Errorf("a code that was used before the kill: %+v", twice)
	}
	if again := app.Renew(ctx, third.Refresh); again.Error != "invalid_grant" {
		t.Errorf("the grant of a code that was used twice: %+v", again)
	}
}

// TestKillInTheMiddleOfWrites: what a client was told before a kill is there after it.
func TestKillInTheMiddleOfWrites(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	g := newAlone(t)
	type one struct {
		app  *mcptest.OAuthApp
		last string // the newest refresh token
	}
	var all []*one
	for i := range 6 {
		app := g.app()
		tokens := app.SignIn(t.Context(), t, mcptest.NewTab(t, fmt.Sprint("user-", i)),
			func(*mcptest.Page) string { return "allow" })
		all = append(all, &one{app, tokens.Refresh})
	}
	for round := range 5 {
		var renewals atomic.Int64
		var clients sync.WaitGroup
		for _, o := range all {
			clients.Go(func() {
				for {
					status, next := g.renew(t.Context(), o.app, o.last)
					if status != http.StatusOK {
						if status != 0 {
							t.Errorf("a refresh: status %d", status)
						}
						return
					}
					o.last = next
					renewals.Add(1)
				}
			})
		}
		eventually(t, "clients refresh", func() bool { return renewals.Load() > 40+int64(round) || t.Failed() })
		g.signal(t, syscall.SIGKILL)
		clients.Wait()
		g.wait(t)
		g.start(t)
		for i, o := range all {
			status, next := g.renew(t.Context(), o.app, o.last)
			if status != http.StatusOK {
				t.Fatalf("round %d: what client %d was told is not there: status %d", round, i, status)
			}
			o.last = next
		}
	}
}

// TestStateIsOfOneGateway: another process on the same file, and a file that is damaged, end with a reason.
func TestStateIsOfOneGateway(t *testing.T) {
	t.Parallel()
	g := newAlone(t)
	text, err := os.ReadFile(g.config)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(want ...string) {
		t.Helper()
		config := filepath.Join(g.home, "other.yaml")
		changed := strings.ReplaceAll(string(text), "127.0.0.81", "127.0.0.82")
		if err := os.WriteFile(config, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(os.Args[0])
		cmd.Args = []string{"gatehouse", "serve", "-c", config} // TestMain runs it as the program
		text, err := cmd.CombinedOutput()
		out := string(text)
		if err == nil || slices.ContainsFunc(want, func(part string) bool { return !strings.Contains(out, part) }) {
			t.Errorf("%v: %s", err, out)
		}
	}
	refused("state.db is in use by another process")
	g.end()
	file := filepath.Join(g.home, "state", "state.db")
	if err := os.Truncate(file, 5000); err != nil {
		t.Fatal(err)
	}
	refused("state.db is damaged", "gatehouse state import")
	if err := os.Remove(filepath.Join(g.home, "state", "state.key")); err != nil {
		t.Fatal(err)
	}
	refused("state.key, the key of it")
}
