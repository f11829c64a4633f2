package grants_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/clientele"
	"github.com/gatehouse-mcp/gatehouse/auth/grants"
	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

func TestMain(m *testing.M) { mcptest.VerifyMain(m) }

const (
	gateway  = "https://gateway.example/mcp"
	sales    = "https://gateway.example/mcp/sales"
	web      = "https://app.example/cb"
	loopback = "http://127.0.0.1:4711/cb"
	verifier = "0123456789012345678901234567890123456789abc"
)

// world is a provider, and the gateway's authorization server in front of it.
type world struct {
	*grants.Server
	auth   *auth.Auth
	state  *grants.State
	issuer *mcptest.Issuer
	cfg    auth.Config
	deps   grants.Deps
	events []grants.Event

	mu       sync.Mutex // guards the fields below
	user     string     // who signs in at the provider
	disabled bool       // the provider lets nobody go on
	away     bool       // it answers no requests for tokens
	claims   map[string]any
	forms    []url.Values // of requests for tokens
	asked    func()       // runs while the provider is asked
}

func newWorld(t *testing.T, change func(*auth.Config)) *world {
	t.Helper()
	w := &world{issuer: mcptest.NewIssuer(mcptest.IssuerOptions{}), user: "alice", claims: map[string]any{}}
	t.Cleanup(w.issuer.Close)
	w.issuer.SetMetadata("authorization_response_iss_parameter_supported", true)
	w.issuer.SetMetadata("scopes_supported", []string{"mcp", "offline_access"})
	w.issuer.Handle("/token", w.token)
	w.cfg = auth.Config{
		Mode: auth.ModeOAuth, Issuers: []auth.Issuer{{URL: w.issuer.URL}}, RequiredScopes: []string{"mcp"},
		Server: auth.ServerConfig{Enabled: true, ClientID: "gatehouse", ClientSecret: "s3cret", Clients: []clientele.Fixed{
			{ID: "web", Name: "Web App", RedirectURIs: []string{web}},
			{ID: "desk", Name: "Desk", RedirectURIs: []string{"http://127.0.0.1/cb"}},
			{ID: "evil", Name: "Evil", RedirectURIs: []string{"https://evil.example/cb"}},
			{ID: "server", Name: "Server", RedirectURIs: []string{web}, Secret: "a secret of this client"},
		}},
	}
	w.issuer.Audience = gateway
	if change != nil {
		change(&w.cfg)
	}
	state, err := grants.NewState(expiring.Base{}, seal.NewRandom)
	if err != nil {
		t.Fatal(err)
	}
	w.open(t, state)
	return w
}

// open makes the server, as one more replica or after a reload.
func (w *world) open(t *testing.T, state *grants.State) {
	t.Helper()
	keys, err := state.NewKeys(w.cfg.Server)
	if err != nil {
		t.Fatal(err)
	}
	views := map[string]string{"sales": sales}
	w.auth, err = auth.New(w.cfg, auth.Deps{PublicURL: gateway, Views: views, Local: keys})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func(a *auth.Auth) func() { return func() { _ = a.Run(ctx) } }(w.auth)) // which a reload replaces
	t.Cleanup(func() { stop(); running.Wait() })
	clients, err := clientele.New(w.cfg.Server.Clientele(), clientele.Deps{Issuer: gateway, Key: state.ClientsKey()})
	if err != nil {
		t.Fatal(err)
	}
	w.state = state
	w.deps = grants.Deps{
		PublicURL: gateway, Views: views, Auth: w.auth, Clients: clients, State: state, Keys: keys,
		Recorded: func(_ context.Context, e grants.Event) { w.events = append(w.events, e) },
	}
	if w.Server, err = grants.New(w.cfg, w.deps); err != nil {
		t.Fatal(err)
	}
}

// token is the provider's token endpoint. Its codes are not checked: they are the names of users.
func (w *world) token(rw http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forms = append(w.forms, r.PostForm)
	if w.asked != nil {
		w.asked()
	}
	rw.Header().Set("Content-Type", "application/json")
	switch {
	case w.away:
		rw.WriteHeader(http.StatusServiceUnavailable)
		return
	case r.PostForm.Get("grant_type") == "refresh_token" && w.disabled:
		rw.WriteHeader(http.StatusBadRequest)
		_, _ = rw.Write([]byte(`{"error":"invalid_grant"}`))
		return
	}
	claims := map[string]any{"sub": w.user, "scope": "mcp files offline_access", "groups": []string{"sales"},
		"department": "emea"}
	for name, value := range w.claims {
		claims[name] = value
	}
	_ = json.NewEncoder(rw).Encode(map[string]any{
		"access_token": w.issuer.Token(claims), "token_type": "Bearer", "expires_in": 300,
		"refresh_token": fmt.Sprint("at-the-provider-", len(w.forms)),
	})
}

func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// browser is a browser with its cookies.
type browser struct {
	w       *world
	cookies map[string]string
}

func (w *world) browser() *browser { return &browser{w, map[string]string{}} }

// do sends a request of a browser.
func (b *browser) do(r *http.Request) *http.Response {
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	resp := b.w.do(r)
	for _, c := range resp.Cookies() {
		if c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		} else {
			b.cookies[c.Name] = c.Value
		}
	}
	return resp
}

// do sends a request to the server.
func (w *world) do(r *http.Request) *http.Response {
	rw := httptest.NewRecorder()
	h := w.Handlers()[r.URL.Path]
	if h == nil {
		h = http.NotFoundHandler()
	}
	h.ServeHTTP(rw, r)
	return rw.Result()
}

func get(at string) *http.Request { return httptest.NewRequest(http.MethodGet, at, nil) }

func post(path string, form url.Values) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "https://gateway.example"+path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

// asks is a good request for authorization.
func asks(client, redirect string) url.Values {
	sum := sha256.Sum256([]byte(verifier))
	return url.Values{
		"response_type": {"code"}, "client_id": {client}, "redirect_uri": {redirect}, "state": {"client state"},
		"scope":          {"mcp"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
		"resource": {gateway},
	}
}

// authorize sends the browser to the provider. It returns the URL there, or fails.
func (b *browser) authorize(t *testing.T, ask url.Values) *url.URL {
	t.Helper()
	resp := b.do(get("https://gateway.example/oauth/authorize?" + ask.Encode()))
	u, err := resp.Location()
	if err != nil || resp.StatusCode != http.StatusSeeOther ||
		!strings.HasPrefix(u.String(), b.w.issuer.URL+"/authorize?") {
		t.Fatalf("%d %v %s", resp.StatusCode, u, text(resp))
	}
	return u
}

// signedIn is the provider's answer to a request.
func (b *browser) signedIn(at *url.URL) *http.Response {
	answer := url.Values{"code": {"good"}, "state": {at.Query().Get("state")}, "iss": {b.w.issuer.URL}}
	return b.do(get("https://gateway.example/oauth/callback?" + answer.Encode()))
}

var pageID = regexp.MustCompile(`name="id" value="([^"]+)"`)

// decide sends the form of the page with the question.
func (b *browser) decide(page, decision string) *http.Response {
	id := pageID.FindStringSubmatch(page)
	if id == nil {
		id = []string{"", ""}
	}
	return b.do(post("/oauth/consent", url.Values{"id": {id[1]}, "decision": {decision}}))
}

// code signs in and consents. It returns the answer that the client gets.
func (b *browser) code(t *testing.T, ask url.Values) url.Values {
	t.Helper()
	resp := b.signedIn(b.authorize(t, ask))
	if resp.StatusCode == http.StatusOK {
		resp = b.decide(text(resp), "allow")
	}
	return answered(t, resp, ask.Get("redirect_uri"))
}

// answered is the answer with which a browser is sent back to a client.
func answered(t *testing.T, resp *http.Response, redirect string) url.Values {
	t.Helper()
	at := resp.Header.Get("Location")
	rest, ok := strings.CutPrefix(at, redirect+"?")
	answer, err := url.ParseQuery(rest)
	if !ok || err != nil || resp.StatusCode != http.StatusSeeOther {
		t.Fatalf("%d %q %s", resp.StatusCode, at, text(resp))
	}
	return answer
}

func text(resp *http.Response) string {
	var b strings.Builder
	_, _ = readAll(&b, resp)
	return b.String()
}

// redeem is the form with which a client redeems a code.
func redeem(client string, answer url.Values, redirect string) url.Values {
	return url.Values{
		"grant_type": {"authorization_code"}, "client_id": {client}, "code": {answer.Get("code")}, "redirect_uri": {redirect},
		"code_verifier": {verifier}, "resource": {gateway},
	}
}

func refresh(client, token string) url.Values {
	return url.Values{"grant_type": {"refresh_token"}, "client_id": {client}, "refresh_token": {token}}
}

// answer is what the token endpoint says.
type answer struct {
	Status       int
	AccessToken  string `json:"access_token"`
	RefreshToken string `json:"refresh_token"`
	ExpiresIn    int    `json:"expires_in"`
	Scope        string `json:"scope"`
	Error        string `json:"error"`
	Description  string `json:"error_description"`
}

func (w *world) ask(t *testing.T, path string, form url.Values) answer {
	t.Helper()
	resp := w.do(post(path, form))
	a := answer{Status: resp.StatusCode}
	if body := text(resp); body != "" && json.Unmarshal([]byte(body), &a) != nil {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	return a
}

// tokens goes the whole way.
func (w *world) tokens(t *testing.T) answer {
	t.Helper()
	a := w.ask(t, "/oauth/token", redeem("web", w.browser().code(t, asks("web", web)), web))
	if a.Status != http.StatusOK {
		t.Fatalf("%+v", a)
	}
	return a
}

// whose identifies the caller of a token at the endpoint of a view.
func (w *world) whose(token, view string) (who mcp.Caller, ok bool) {
	at := w.auth.Require
	if view != "" {
		at = func(next http.Handler) http.Handler { return w.auth.RequireAt(view, next) }
	}
	r := httptest.NewRequest(http.MethodPost, gateway, nil)
	r.Header.Set("Authorization", "Bearer "+token)
	at(http.HandlerFunc(func(_ http.ResponseWriter,
		r *http.Request) {
		who, ok = mcp.CallerFrom(r.Context())
	})).ServeHTTP(httptest.NewRecorder(), r)
	return who, ok
}
