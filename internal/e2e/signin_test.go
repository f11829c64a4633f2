package e2e

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	sdkauth "github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// authorizer plays an issuer's endpoints for clients: an authorization endpoint whose user
// always agrees, and a token endpoint for codes and refresh tokens, with PKCE (RFC 7636)
// and resource indicators (RFC 8707).
type authorizer struct {
	issuer   *mcptest.Issuer
	resource string
	lifetime int // of tokens, in seconds, as clients are told

	mu      sync.Mutex            // guards the fields below
	codes   map[string]url.Values // authorization requests whose code is not redeemed yet
	refresh map[string]string     // scopes by refresh token
	grants  []string              // the grant types of all valid token requests
	scopes  []string              // scopes that were requested, in order
	bad     []string              // what was wrong with requests
}

func newAuthorizer(g *guarded) *authorizer {
	a := &authorizer{issuer: g.issuer, resource: g.url, lifetime: 300, codes: map[string]url.Values{},
		refresh: map[string]string{}}
	a.issuer.SetMetadata("token_endpoint_auth_methods_supported", []string{"none"})
	a.issuer.SetMetadata("authorization_response_iss_parameter_supported", true)
	a.issuer.Handle("/authorize", a.authorize)
	a.issuer.Handle("/token", a.token)
	return a
}

const redirectURI = "http://127.0.0.1:1/callback"

func (a *authorizer) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	a.mu.Lock()
	defer a.mu.Unlock()
	want := map[string]string{"response_type": "code", "client_id": "client", "redirect_uri": redirectURI,
		"code_challenge_method": "S256", "resource": a.resource}
	for name, value := range want {
		if q.Get(name) != value {
			a.refuse(w, "authorize: %s is %q, want %q", name, q.Get(name), value)
			return
		}
	}
	code := rand.Text()
	a.codes[code] = q
	a.scopes = append(a.scopes, q.Get("scope"))
	back := url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {a.issuer.URL}}
	http.Redirect(w, r, redirectURI+"?"+back.Encode(), http.StatusFound)
}

func (a *authorizer) token(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	scope := ""
	switch grant := r.PostFormValue("grant_type"); grant {
	case "authorization_code":
		asked, known := a.codes[r.PostFormValue("code")]
		delete(a.codes, r.PostFormValue("code"))
		sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
		if !known || part(string(sum[:])) != asked.Get("code_challenge") || r.PostFormValue("resource") != a.resource {
			a.refuse(w, "token: known code %t, resource %q", known, r.PostFormValue("resource"))
			return
		}
		scope = asked.Get("scope")
	case "refresh_token":
		given := r.PostFormValue("refresh_token")
		var known bool
		if scope, known = a.refresh[given]; !known {
			a.refuse(w, "token: an unknown refresh token")
			return
		}
		delete(a.refresh, given)
	default:
		a.refuse(w, "token: grant %q", grant)
		return
	}
	a.grants = append(a.grants, r.PostFormValue("grant_type"))
	next := rand.Text()
	a.refresh[next] = scope
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":%d,"refresh_token":%q,"scope":%q}`,
		a.issuer.Token(claims{"scope": scope}), a.lifetime, next, scope)
}

// refuse refuses a request. The caller holds mu.
func (a *authorizer) refuse(w http.ResponseWriter, format string, args ...any) {
	a.bad = append(a.bad, fmt.Sprintf(format, args...))
	http.Error(w, `{"error":"invalid_request"}`, http.StatusBadRequest)
}

// check returns the grants and scopes so far, and fails the test if any request was wrong.
func (a *authorizer) check(t *testing.T) (grants, scopes []string) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.bad) > 0 {
		t.Errorf("bad requests: %q", a.bad)
	}
	return slices.Clone(a.grants), slices.Clone(a.scopes)
}

// browse plays the user's browser: it follows the URL to where the client takes over.
func browse(ctx context.Context, args *sdkauth.AuthorizationArgs) (*sdkauth.AuthorizationResult, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, args.URL, nil)
	if err != nil {
		return nil, err
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Body.Close()
	back, err := resp.Location()
	if err != nil {
		return nil, fmt.Errorf("the authorization endpoint answered %s", resp.Status)
	}
	q := back.Query()
	return &sdkauth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
}

// signIn returns a go-sdk client that gets its tokens by itself, beginning with first
// unless that is nil.
func (g *guarded) signIn(t *testing.T, revision string, first oauth2.TokenSource) *client {
	t.Helper()
	handler, err := sdkauth.NewAuthorizationCodeHandler(&sdkauth.AuthorizationCodeHandlerConfig{
		PreregisteredClient:      &oauthex.ClientCredentials{ClientID: "client", Issuer: g.issuer.URL},
		RedirectURL:              redirectURI,
		AuthorizationCodeFetcher: browse,
		InitialTokenSource:       first,
	})
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c := newClient(revision)
	c.open(t, &sdk.StreamableClientTransport{Endpoint: g.url, OAuthHandler: handler,
		HTTPClient: &http.Client{Transport: transport}})
	return c
}

// TestSignIn: go-sdk's own sign-in, from the endpoint alone to a call.
func TestSignIn(t *testing.T) {
	t.Parallel()
	s := scripted(t, stateless)
	s.Tools("do")
	s.Tool("do", func(c *mcptest.Call) { c.Text("done") })
	cfg := gateway.Config{
		Auth:      auth.Config{RequiredScopes: []string{"mcp"}},
		Upstreams: []upstream.Config{{Name: "up", URL: s.URL}},
	}
	use := func(t *testing.T, c *client) {
		t.Helper()
		if got := listTools(t, c); !slices.Equal(got, []string{"up__do"}) {
			t.Errorf("tools: %q", got)
		}
		if got := c.text(t, "up__do", nil); got != "done" {
			t.Errorf("the call: %q", got)
		}
	}
	for _, revision := range []string{statefulServer, statefulClient, stateless} {
		t.Run(revision, func(t *testing.T) {
			g := guard(t, cfg)
			a := newAuthorizer(g)
			use(t, g.signIn(t, revision, nil))
			grants, scopes := a.check(t)
			if !slices.Equal(grants, []string{"authorization_code"}) || !slices.Equal(scopes, []string{"mcp"}) {
				t.Errorf("grants %q, scopes %q; want one code, for the scope of the challenge", grants, scopes)
			}
		})
		t.Run("a token without the scope is stepped up, "+revision, func(t *testing.T) {
			g := guard(t, cfg)
			a := newAuthorizer(g)
			use(t, g.signIn(t, revision,
				oauth2.StaticTokenSource(&oauth2.Token{AccessToken: g.issuer.Token(claims{"scope": "files"})})))
			grants, scopes := a.check(t)
			if len(grants) != 1 || len(scopes) != 1 || strings.Join(slices.Sorted(strings.FieldsSeq(scopes[0])),
				" ") != "files mcp" {
				t.Errorf("grants %q, scopes %q; want one code, for what was granted and what is missing", grants, scopes)
			}
		})
		t.Run("every request comes with a refreshed token, "+revision, func(t *testing.T) {
			g := guard(t, cfg)
			a := newAuthorizer(g)
			a.lifetime = 1 // go-sdk treats it as expired at once
			c := g.signIn(t, revision, nil)
			for range 3 {
				use(t, c)
			}
			if grants, scopes := a.check(t); len(grants) < 7 || len(scopes) != 1 {
				t.Errorf("grants %q, scopes %q; want one code and a refresh for each request", grants, scopes)
			}
		})
	}
}
