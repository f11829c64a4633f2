package mcptest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// Accounts is an MCP server for users with accounts there, and its authorization server at the same
// origin: RFC 9728, RFC 8414, RFC 7591, PKCE, resource, iss. Its sign-in page signs a user in at
// once. Close ends it.
type Accounts struct {
	// URL is that of the MCP endpoint, Issuer that of the authorization server; it may be changed to the
	// origin of URL.
	URL, Issuer string
	// Inner answers requests with a good token, nil for 200.
	Inner http.Handler
	http  *httptest.Server

	mu         sync.Mutex     // guards the fields below
	resource   map[string]any // changes of the server's metadata
	metadata   map[string]any // changes of the authorization server's
	challenge  string         // replaces WWW-Authenticate
	answer     map[string]string
	clients    map[string]string // secrets by id
	codes      map[string]accountCode
	tokens     map[string]bool
	authorized []url.Values // requests for authorization
	forms      []url.Values // requests for tokens
	registered []map[string]any
	paths      []string // of all requests
	pages      []string // paths at which there are pages for people
	publicOnly bool     // registers public clients alone
	made       int
}

type accountCode struct{ challenge, client, redirect, resource string }

// NewAccounts starts one on a loopback address.
func NewAccounts(inner http.Handler) *Accounts {
	a := &Accounts{
		Inner: inner, resource: map[string]any{}, metadata: map[string]any{}, answer: map[string]string{},
		clients: map[string]string{"fixed": "s3cret", "public": ""}, codes: map[string]accountCode{},
		tokens: map[string]bool{},
	}
	a.http = httptest.NewServer(a)
	a.URL, a.Issuer = a.http.URL+"/mcp", a.http.URL+"/tenant"
	return a
}

// Close ends it.
func (a *Accounts) Close() { a.http.Close() }

// SetResource changes a member of the server's metadata (RFC 9728); nil removes it.
func (a *Accounts) SetResource(name string, value any) { a.set(a.resource, name, value) }

// SetMetadata changes a member of the authorization server's metadata; nil removes it.
func (a *Accounts) SetMetadata(name string, value any) { a.set(a.metadata, name, value) }

func (a *Accounts) set(in map[string]any, name string, value any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	in[name] = value
}

// SetChallenge replaces the header WWW-Authenticate.
func (a *Accounts) SetChallenge(text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.challenge = text
}

// SetAnswer changes a parameter of its answers to requests for authorization; "" removes it.
func (a *Accounts) SetAnswer(name, value string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer[name] = value
}

// SetPages has the server answer requests for these paths with a page for people.
func (a *Accounts) SetPages(paths ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pages = paths
}

// PublicOnly has the authorization server register public clients alone.
func (a *Accounts) PublicOnly() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.publicOnly = true
}

// Authorized returns the requests for authorization.
func (a *Accounts) Authorized() []url.Values { return copied(a, &a.authorized) }

// Forms returns the requests for tokens.
func (a *Accounts) Forms() []url.Values { return copied(a, &a.forms) }

// Registered returns what clients have registered with.
func (a *Accounts) Registered() []map[string]any { return copied(a, &a.registered) }

// Paths returns the paths of all requests.
func (a *Accounts) Paths() []string { return copied(a, &a.paths) }

func copied[T any](a *Accounts, list *[]T) []T {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(*list)
}

// Forget forgets the clients that have registered.
func (a *Accounts) Forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.clients)
}

// ServeHTTP answers a request.
func (a *Accounts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.paths = append(a.paths, r.URL.Path)
	page := slices.Contains(a.pages, r.URL.Path)
	a.mu.Unlock()
	if page {
		_, _ = io.WriteString(w, "<!doctype html><title>Welcome</title>")
		return
	}
	switch strings.Replace(r.URL.Path, "/tenant", "", 1) {
	case "/mcp":
		a.serveMCP(w, r)
	case "/.well-known/oauth-protected-resource/mcp":
		a.describe(w, map[string]any{"resource": a.URL, "authorization_servers": []string{a.Issuer},
			"scopes_supported": []string{"read", "write"}}, a.resource)
	case "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration":
		a.describe(w, map[string]any{
			"issuer": a.Issuer, "authorization_endpoint": a.Issuer + "/authorize", "token_endpoint": a.Issuer + "/token",
			"registration_endpoint": a.Issuer + "/register",
			"revocation_endpoint":   a.Issuer + "/revoke", "code_challenge_methods_supported": []string{"S256"},
			"authorization_response_iss_parameter_supported": true,
			"token_endpoint_auth_methods_supported":          []string{"none", "client_secret_basic"},
		}, a.metadata)
	case "/authorize":
		a.authorize(w, r)
	case "/token":
		a.token(w, r)
	case "/register":
		a.register(w, r)
	case "/revoke":
		_ = r.ParseForm()
		a.mu.Lock()
		delete(a.tokens, r.PostForm.Get("token"))
		a.mu.Unlock()
	default:
		http.NotFound(w, r)
	}
}

func (a *Accounts) serveMCP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	good, challenge := a.tokens[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")], a.challenge
	a.mu.Unlock()
	if good {
		if a.Inner != nil {
			a.Inner.ServeHTTP(w, r)
		}
		return
	}
	if challenge == "" {
		challenge = `Bearer resource_metadata="` + a.http.URL + `/.well-known/oauth-protected-resource/mcp", scope="read"`
	}
	w.Header().Set("WWW-Authenticate", challenge)
	w.WriteHeader(http.StatusUnauthorized)
}

func (a *Accounts) describe(w http.ResponseWriter, doc, changes map[string]any) {
	a.mu.Lock()
	maps.Copy(doc, changes)
	a.mu.Unlock()
	maps.DeleteFunc(doc, func(_ string, v any) bool { return v == nil })
	writeJSON(w, doc)
}

func (a *Accounts) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	a.mu.Lock()
	a.authorized = append(a.authorized, q)
	a.made++
	answer := url.Values{"code": {fmt.Sprintf("code-%d", a.made)}, "state": {q.Get("state")}, "iss": {a.Issuer}}
	a.codes[answer.Get("code")] = accountCode{q.Get("code_challenge"), q.Get("client_id"), q.Get("redirect_uri"),
		q.Get("resource")}
	for name, value := range a.answer {
		answer.Set(name, value)
		if value == "" {
			answer.Del(name)
		}
	}
	a.mu.Unlock()
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+answer.Encode(), http.StatusSeeOther)
}

func (a *Accounts) token(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	form := r.PostForm
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = form.Get("client_id"), form.Get("client_secret")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forms = append(a.forms, form)
	want, known := a.clients[id]
	refuse := func(code string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":%q,"error_description":"canary-in-an-error"}`, code)
	}
	if (!known || want != secret) && !strings.HasSuffix(id, "/client.json") {
		refuse("invalid_client")
		return
	}
	if form.Get("grant_type") == "authorization_code" {
		code, there := a.codes[form.Get("code")]
		delete(a.codes, form.Get("code"))
		sum := sha256.Sum256([]byte(form.Get("code_verifier")))
		if !there || base64.RawURLEncoding.EncodeToString(sum[:]) != code.challenge || code.client != id ||
			code.redirect != form.Get("redirect_uri") || code.resource != form.Get("resource") {
			refuse("invalid_grant")
			return
		}
	}
	a.made++
	token := fmt.Sprintf("account-%d", a.made)
	a.tokens[token] = true
	writeJSON(w, map[string]any{"access_token": token, "refresh_token": "refresh-" + token, "token_type": "Bearer",
		"expires_in": 3600})
}

func (a *Accounts) register(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	var doc map[string]any
	_ = json.Unmarshal(text, &doc)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.registered = append(a.registered, doc)
	if a.publicOnly && doc["token_endpoint_auth_method"] != "none" {
		http.Error(w, `{"error":"invalid_client_metadata"}`, http.StatusBadRequest)
		return
	}
	id := fmt.Sprintf("registered-%d", len(a.registered))
	a.clients[id] = ""
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"client_id":%q,"token_endpoint_auth_method":"none"}`, id)
}
