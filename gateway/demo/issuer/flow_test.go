package issuer

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// protected is a third-party MCP server that accepts the issuer's tokens for its own URL
// and says who calls.
func protected(t *testing.T, listener *httptest.Server, s *server) {
	t.Helper()
	endpoint := "http://" + listener.Listener.Addr().String() + "/mcp"
	provider, err := oidc.NewProvider(oidc.ClientContext(t.Context(), http.DefaultClient), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	verifier := provider.Verifier(&oidc.Config{ClientID: endpoint})
	verify := func(ctx context.Context, raw string, _ *http.Request) (*auth.TokenInfo, error) {
		token, err := verifier.Verify(ctx, raw)
		if err != nil {
			return nil, auth.ErrInvalidToken
		}
		return &auth.TokenInfo{UserID: token.Subject, Expiration: token.Expiry, Scopes: []string{"mcp"}}, nil
	}
	mcp := sdk.NewServer(&sdk.Implementation{Name: "protected", Version: "1"}, nil)
	sdk.AddTool(mcp, &sdk.Tool{Name: "whoami"}, func(_ context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: r.Extra.TokenInfo.UserID}}}, nil, nil
	})
	const metadata = "/.well-known/oauth-protected-resource/mcp"
	mux := http.NewServeMux()
	mux.Handle(metadata, auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource: endpoint, AuthorizationServers: []string{s.URL()}, ScopesSupported: []string{"mcp"},
	}))
	mux.Handle("/mcp", auth.RequireBearerToken(verify, &auth.RequireBearerTokenOptions{
		ResourceMetadataURL: "http://" + listener.Listener.Addr().String() + metadata, Scopes: []string{"mcp"},
	})(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return mcp }, &sdk.StreamableHTTPOptions{Stateless: true})))
	listener.Config.Handler = mux
	listener.Start()
	t.Cleanup(listener.Close)
}

// TestSignInByTheGoSDK runs a whole sign-in with a third-party client: from the 401 through
// both metadata documents, registration and the page to a call, and then by refresh.
func TestSignInByTheGoSDK(t *testing.T) {
	listener := httptest.NewUnstartedServer(nil)
	endpoint := "http://" + listener.Listener.Addr().String() + "/mcp"
	h := httptest.NewUnstartedServer(nil)
	cfg := testConfig("http://" + h.Listener.Addr().String())
	cfg.Resources = []string{endpoint}
	cfg.Lifetime = 5 * time.Second // x/oauth2 refreshes ten seconds before the end, so each call refreshes
	issuer, err := New(cfg, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	h.Config.Handler = issuer
	h.Start()
	t.Cleanup(h.Close)
	s := &server{Issuer: issuer, http: h, client: browserClient(t, h.Client())}
	protected(t, listener, s)

	signIns := 0
	handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "Go SDK", RedirectURIs: []string{callback}, GrantTypes: []string{grantCode, grantRefresh},
		}},
		AuthorizationCodeFetcher: func(_ context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			signIns++
			u, err := url.Parse(args.URL)
			if err != nil {
				return nil, err
			}
			got := s.signIn(t, "bob", u.Query())
			return &auth.AuthorizationResult{Code: got.Get("code"), State: got.Get("state"), Iss: got.Get("iss")}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
		&sdk.StreamableClientTransport{Endpoint: endpoint, OAuthHandler: handler, DisableStandaloneSSE: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for range 3 {
		result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "whoami"})
		if err != nil || result.IsError || result.Content[0].(*sdk.TextContent).Text != "bob" {
			t.Fatalf("%+v, %v", result, err)
		}
	}
	source, err := handler.TokenSource(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first, err := source.Token()
	if err != nil {
		t.Fatal(err)
	}
	second, err := source.Token()
	if err != nil || first.RefreshToken == second.RefreshToken || signIns != 1 {
		t.Errorf("refreshed: %t, %v; %d sign-ins, want 1", first.RefreshToken != second.RefreshToken, err, signIns)
	}
}
