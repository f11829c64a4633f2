package mcptest

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// An OAuthApp is a client that signs its user in, from the URL of an endpoint alone, as the MCP
// specification says: the challenge of a 401, the metadata of the resource and of its first
// authorization server, an id there, a code with PKCE, tokens.
type OAuthApp struct {
	// Endpoint is the URL of the MCP endpoint, which is the resource, too.
	Endpoint string
	// ID is an id that it has, or the URL of its document. Without one it registers itself with
	// Registration, a JSON object.
	ID, Registration string
	// Secret is that of ID.
	Secret string
	// Redirect is the redirect URI that it sends.
	Redirect string
	// Scope is what it asks for. Default: the scope of the challenge.
	Scope string

	t        testing.TB
	http     *http.Client
	resource string
	server   authServer
	method   string // how it proves who it is
	verifier string
	state    string
}

// authServer is what the app reads of an authorization server's metadata (RFC 8414).
type authServer struct {
	Issuer        string   `json:"issuer"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Registration  string   `json:"registration_endpoint"`
	Revocation    string   `json:"revocation_endpoint"`
	Documents     bool     `json:"client_id_metadata_document_supported"`
	Methods       []string `json:"token_endpoint_auth_methods_supported"`
	PKCE          []string `json:"code_challenge_methods_supported"`
	NamesItself   bool     `json:"authorization_response_iss_parameter_supported"`
}

// OAuthTokens is the answer of a token endpoint.
type OAuthTokens struct {
	Status      int    `json:"-"`
	Access      string `json:"access_token"`
	Refresh     string `json:"refresh_token"`
	Type        string `json:"token_type"`
	ExpiresIn   int    `json:"expires_in"`
	Scope       string `json:"scope"`
	Error       string `json:"error"`
	Description string `json:"error_description"`
}

var (
	metadataInChallenge = regexp.MustCompile(`resource_metadata="([^"]+)"`)
	scopeInChallenge    = regexp.MustCompile(`scope="([^"]+)"`)
)

// Discover asks the endpoint without a token, and reads where to get one.
func (a *OAuthApp) Discover(ctx context.Context, t testing.TB) {
	t.Helper()
	if a.http == nil {
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		a.t, a.http = t, &http.Client{Transport: transport}
	}
	resp, _ := a.Call(ctx, "")
	if resp.StatusCode != http.StatusUnauthorized {
		t.Fatalf("without a token: %s", resp.Status)
	}
	challenge := resp.Header.Get("WWW-Authenticate")
	at := metadataInChallenge.FindStringSubmatch(challenge)
	if at == nil {
		t.Fatalf("the challenge has no resource_metadata: %s", challenge)
	}
	if scope := scopeInChallenge.FindStringSubmatch(challenge); scope != nil {
		a.Scope = cmp.Or(a.Scope, scope[1])
	}
	var protected struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
	}
	if !a.read(ctx, at[1], &protected) || protected.Resource != a.Endpoint || len(protected.Servers) == 0 {
		t.Fatalf("the metadata of the resource: %+v", protected)
	}
	a.resource = protected.Resource
	issuer, err := url.Parse(protected.Servers[0])
	if err != nil {
		t.Fatal(err)
	}
	origin, path := issuer.Scheme+"://"+issuer.Host, strings.TrimSuffix(issuer.Path, "/")
	if !a.read(ctx, origin+"/.well-known/oauth-authorization-server"+path, &a.server) &&
		!a.read(ctx, origin+"/.well-known/openid-configuration"+path, &a.server) {
		a.read(ctx, origin+path+"/.well-known/openid-configuration", &a.server)
	}
	if a.server.Issuer != protected.Servers[0] || !strings.Contains(strings.Join(a.server.PKCE, " "), "S256") {
		t.Fatalf("the metadata of %s: %+v", protected.Servers[0], a.server)
	}
}

func (a *OAuthApp) read(ctx context.Context, at string, into any) bool {
	a.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	status, body := a.do(req)
	return status.StatusCode == http.StatusOK && json.Unmarshal(body, into) == nil
}

func (a *OAuthApp) do(req *http.Request) (*http.Response, []byte) {
	a.t.Helper()
	resp, err := a.http.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		a.t.Fatal(err)
	}
	return resp, body
}

// Register gets an id, unless the app has one. It returns the answer.
func (a *OAuthApp) Register(ctx context.Context) (status int, answer map[string]any) {
	a.t.Helper()
	a.method = "none"
	if a.ID != "" {
		if a.Secret != "" {
			a.method = "client_secret_basic"
		}
		if strings.HasPrefix(a.ID, "https:") && !a.server.Documents {
			a.t.Fatal("the server accepts no documents of clients")
		}
		return 0, nil
	}
	if a.server.Registration == "" {
		a.t.Fatal("the server registers nobody")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.server.Registration, strings.NewReader(a.Registration))
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, body := a.do(req)
	if err := json.Unmarshal(body, &answer); err != nil {
		a.t.Fatalf("registration: %s %s", resp.Status, body)
	}
	text := func(name string) string { s, _ := answer[name].(string); return s }
	a.ID, a.Secret, a.method = text("client_id"), text("client_secret"),
		cmp.Or(text("token_endpoint_auth_method"), "client_secret_basic")
	return resp.StatusCode, answer
}

// AuthorizationURL is where the app sends its user. Each call begins a new sign-in.
func (a *OAuthApp) AuthorizationURL() string {
	a.verifier, a.state = rand.Text()+rand.Text(), rand.Text()
	sum := sha256.Sum256([]byte(a.verifier))
	query := url.Values{
		"response_type": {"code"}, "client_id": {a.ID}, "redirect_uri": {a.Redirect}, "state": {a.state},
		"resource":       {a.resource},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}
	if a.Scope != "" {
		query.Set("scope", a.Scope)
	}
	return a.server.Authorization + "?" + query.Encode()
}

// Redeem takes the answer that the browser brought, and gets tokens for its code.
func (a *OAuthApp) Redeem(ctx context.Context, back *url.URL) OAuthTokens {
	a.t.Helper()
	answer := back.Query()
	if answer.Get("state") != a.state || a.server.NamesItself && answer.Get("iss") != a.server.Issuer {
		a.t.Fatalf("the answer is not for this app: %s", back)
	}
	if answer.Get("code") == "" {
		a.t.Fatalf("no code: %s", back)
	}
	return a.ask(ctx, a.server.Token, url.Values{
		"grant_type": {"authorization_code"}, "code": {answer.Get("code")}, "redirect_uri": {a.Redirect},
		"code_verifier": {a.verifier}, "resource": {a.resource},
	})
}

// Renew gets tokens for a refresh token.
func (a *OAuthApp) Renew(ctx context.Context, refresh string) OAuthTokens {
	a.t.Helper()
	return a.ask(ctx, a.server.Token, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh},
		"resource": {a.resource}})
}

func (a *OAuthApp) ask(ctx context.Context, at string, form url.Values) (tokens OAuthTokens) {
	a.t.Helper()
	if a.method != "client_secret_basic" {
		form.Set("client_id", a.ID)
	}
	if a.method == "client_secret_post" {
		form.Set("client_secret", a.Secret)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader(form.Encode()))
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if a.method == "client_secret_basic" {
		req.SetBasicAuth(url.QueryEscape(a.ID), url.QueryEscape(a.Secret))
	}
	resp, body := a.do(req)
	if err := json.Unmarshal(body, &tokens); err != nil {
		a.t.Fatalf("tokens: %s %s", resp.Status, body)
	}
	tokens.Status = resp.StatusCode
	return tokens
}

// Call sends an initialize to the endpoint with a token, "" for none.
func (a *OAuthApp) Call(ctx context.Context, token string) (*http.Response, []byte) {
	a.t.Helper()
	const body = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"app","version":"1"}}}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.Endpoint, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return a.do(req)
}

// SignIn runs a whole sign-in. decide gets the first page that the browser shows and returns the
// button to press, until the browser comes back to the app.
func (a *OAuthApp) SignIn(ctx context.Context, t testing.TB, b *Tab, decide func(*Page) string) OAuthTokens {
	t.Helper()
	a.Discover(ctx, t)
	if status, answer := a.Register(ctx); a.ID == "" {
		t.Fatalf("registration: %d %v", status, answer)
	}
	page := b.Open(ctx, a.AuthorizationURL(), a.Redirect)
	for range 5 {
		if page.Status == 0 {
			break
		}
		page = b.Press(ctx, page, decide(page), a.Redirect)
	}
	tokens := a.Redeem(ctx, page.URL)
	if tokens.Status != http.StatusOK || tokens.Access == "" || !strings.EqualFold(tokens.Type, "Bearer") {
		t.Fatalf("tokens: %+v", tokens)
	}
	if resp, body := a.Call(ctx, tokens.Access); resp.StatusCode != http.StatusOK {
		t.Fatalf("with the token: %s %s", resp.Status, body)
	}
	return tokens
}

// String names the app in failures.
func (a *OAuthApp) String() string { return fmt.Sprintf("%.60s at %s", a.ID, a.Endpoint) }
