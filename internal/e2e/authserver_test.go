package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	sdkauth "github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/clientele"
	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/session"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// provide makes an issuer one that has no client registration, and at which alice of the group sales
// signs in by herself.
func provide(issuer *mcptest.Issuer) {
	issuer.SetMetadata("authorization_response_iss_parameter_supported", true)
	issuer.Handle("/authorize", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("client_id") != "gatehouse" || !strings.HasSuffix(q.Get("redirect_uri"), "/oauth/callback") {
			http.Error(w, "an unknown client", http.StatusBadRequest)
			return
		}
		back := url.Values{"code": {"code-of-the-issuer"}, "state": {q.Get("state")}, "iss": {issuer.URL}}
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
	})
	issuer.Handle("/token", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":300,"refresh_token":"r"}`,
			issuer.Token(claims{"scope": "mcp", "groups": []string{"sales"}}))
	})
}

// authServed is a configuration with an authorization server, where sales may use everything and nobody
// else anything.
func authServed(s *mcptest.Server, issuer *mcptest.Issuer) gateway.Config {
	return gateway.Config{
		Auth: auth.Config{
			Mode: auth.ModeOAuth, Issuers: []auth.Issuer{{URL: issuer.URL}}, RequiredScopes: []string{"mcp"},
			Server: auth.ServerConfig{
				Enabled: true, ClientID: "gatehouse", ClientSecret: "s3cret",
				Registration: clientele.Registration{DCR: clientele.DCR{Enabled: true}},
			},
		},
		Policy: policy.Config{Default: policy.DefaultDeny,
			Rules: []policy.Rule{{Name: "sales", Who: policy.Who{Groups: []string{"sales"}}, Allow: []string{"tools:*"}}}},
		Upstreams: []upstream.Config{{Name: "up", URL: s.URL}},
	}
}

var consentID = regexp.MustCompile(`name="id" value="([^"]+)"`)

// consents plays a browser whose user signs in and allows the client.
func consents(t *testing.T) sdkauth.AuthorizationCodeFetcher {
	return func(ctx context.Context, args *sdkauth.AuthorizationArgs) (*sdkauth.AuthorizationResult, error) {
		jar, err := cookiejar.New(nil)
		if err != nil {
			return nil, err
		}
		browser := ownClient(t)
		browser.Jar = jar
		browser.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
			if strings.HasPrefix(r.URL.String(), redirectURI) {
				return http.ErrUseLastResponse
			}
			return nil
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, args.URL, nil)
		if err != nil {
			return nil, err
		}
		resp, err := browser.Do(req)
		if err != nil {
			return nil, err
		}
		page, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		id := consentID.FindSubmatch(page)
		if err != nil || id == nil {
			return nil, fmt.Errorf("no page that asks for consent, but %s: %s %w", resp.Status, page, err)
		}
		form := url.Values{"id": {string(id[1])}, "decision": {"allow"}}
		req, err = http.NewRequestWithContext(ctx, http.MethodPost,
			resp.Request.URL.ResolveReference(&url.URL{Path: "/oauth/consent"}).String(), strings.NewReader(form.Encode()))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if resp, err = browser.Do(req); err != nil {
			return nil, err
		}
		resp.Body.Close()
		back, err := resp.Location()
		if err != nil {
			return nil, fmt.Errorf("after consent: %s", resp.Status)
		}
		q := back.Query()
		return &sdkauth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
	}
}

// registers is a go-sdk client that knows nothing but the URL: it registers itself and signs in.
func registers(t *testing.T, url, revision string) *client {
	t.Helper()
	handler, err := sdkauth.NewAuthorizationCodeHandler(&sdkauth.AuthorizationCodeHandlerConfig{
		DynamicClientRegistrationConfig: &sdkauth.DynamicClientRegistrationConfig{
			Metadata: &oauthex.ClientRegistrationMetadata{ClientName: "e2e", RedirectURIs: []string{redirectURI},
				TokenEndpointAuthMethod: "none"},
		},
		RedirectURL: redirectURI, AuthorizationCodeFetcher: consents(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c := newClient(revision)
	c.open(t, &sdk.StreamableClientTransport{Endpoint: url, OAuthHandler: handler,
		HTTPClient: &http.Client{Transport: transport}})
	return c
}

// TestAuthServer: where the issuer registers no clients, a client that knows nothing but the
// gateway's URL gets in all the same: it registers here, its user signs in there and consents, and
// policy sees the user of the issuer.
func TestAuthServer(t *testing.T) {
	t.Parallel()
	s, issuer := scripted(t, stateless), newIssuer(t)
	s.Tools("do")
	s.Tool("do", func(c *mcptest.Call) { c.Text("done") })
	provide(issuer)
	g := guardWith(t, issuer, authServed(s, issuer))
	for _, revision := range []string{statefulClient, stateless} {
		c := registers(t, g.url, revision)
		if got := listTools(t, c); !slices.Equal(got, []string{"up__do"}) {
			t.Errorf("%s: tools: %q", revision, got)
		}
		if got := c.text(t, "up__do", nil); got != "done" {
			t.Errorf("%s: %q", revision, got)
		}
	}
	if log := g.log.String(); strings.Contains(log, "s3cret") || strings.Contains(log, "code-of-the-issuer") {
		t.Error("a secret is in the log")
	}
}

// TestReplicasAuthServer: each request of a sign-in may come to another replica.
func TestReplicasAuthServer(t *testing.T) {
	t.Parallel()
	s, issuer, redis := scripted(t, stateless), newIssuer(t), redistest.Start(t)
	s.Tools("do")
	s.Tool("do", func(c *mcptest.Call) { c.Text("done") })
	provide(issuer)
	var replicas []http.Handler // complete before the first request
	var next atomic.Int64
	balancer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		replicas[int(next.Add(1))%len(replicas)].ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		balancer.CloseClientConnections()
		balancer.Close()
	})
	cfg := authServed(s, issuer)
	cfg.PublicURL = balancer.URL + "/mcp"
	issuer.Audience = cfg.PublicURL
	cfg.Sessions = session.Config{Store: session.StoreRedis, Key: "0123456789abcdef0123456789abcdef"}
	cfg.Sessions.Redis.URL = mcp.Secret(redis.URL())
	cfg.Replicas = cluster.Config{Listen: "127.0.0.1:0"}
	for range 2 {
		g, stop, err := run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		target := &url.URL{Scheme: "http", Host: g.Addr().String()}
		replicas = append(replicas, &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
			FlushInterval: -1, Transport: transport})
	}
	c := registers(t, cfg.PublicURL, stateless)
	if got := c.text(t, "up__do", nil); got != "done" {
		t.Error(got)
	}
}
