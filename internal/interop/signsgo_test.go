//go:build interop

package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	sdkauth "github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// named is a client that the gateway's configuration names.
const named = "desktop"

// byGo runs a client on the Go SDK, in this process. It is the one with this id, or registers itself.
func (e *everybody) byGo(id string) func(*testing.T, func(*mcptest.Tab, string)) []outcome {
	return func(t *testing.T, look func(*mcptest.Tab, string)) []outcome {
		ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
		defer cancel()
		var clock aging
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		web := &http.Client{Transport: transport}
		handler, err := sdkauth.NewAuthorizationCodeHandler(goSignIn(t, id, look, &clock, web))
		if err != nil {
			t.Fatal(err)
		}
		session, err := sdk.NewClient(&sdk.Implementation{Name: "interop", Version: "1"}, nil).
			Connect(ctx, &sdk.StreamableClientTransport{Endpoint: e.front.URL, OAuthHandler: handler, HTTPClient: web}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		tools, err := session.ListTools(ctx, nil)
		all := []outcome{goOutcome(t, tools, err)}
		for range 2 {
			added, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "up__add"})
			all = append(all, goOutcome(t, added, err))
			clock.age(time.Hour)
		}
		return all
	}
}

// goSignIn is how a program on the Go SDK has its user sign in: it opens a browser, and waits at a
// loopback address until that comes back.
func goSignIn(t *testing.T, id string, look func(*mcptest.Tab, string), clock *aging,
	web *http.Client) *sdkauth.AuthorizationCodeHandlerConfig {
	back := make(chan *sdkauth.AuthorizationResult, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		select {
		case back <- &sdkauth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}:
			fmt.Fprint(w, "You can close this page.")
		default:
			http.Error(w, "the browser has come back already", http.StatusConflict)
		}
	}))
	t.Cleanup(server.Close)
	c := &sdkauth.AuthorizationCodeHandlerConfig{
		RedirectURL: server.URL + "/callback", Client: web, RequestRefreshToken: true, NewTokenSource: clock.source,
		AuthorizationCodeFetcher: func(ctx context.Context,
			args *sdkauth.AuthorizationArgs) (*sdkauth.AuthorizationResult, error) {
			look(mcptest.NewTab(t, "ada"), args.URL)
			select {
			case answer := <-back:
				return answer, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
	}
	switch id {
	case registers:
		c.DynamicClientRegistrationConfig = &sdkauth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "interop", RedirectURIs: []string{c.RedirectURL}, TokenEndpointAuthMethod: "none",
			GrantTypes: []string{"authorization_code", "refresh_token"},
		}}
	case document:
		c.ClientIDMetadataDocumentConfig = &sdkauth.ClientIDMetadataDocumentConfig{URL: id}
	default:
		c.PreregisteredClient = &oauthex.ClientCredentials{ClientID: id}
	}
	return c
}

// aging is the clock by which a client sees how old its token is. It is safe for concurrent use.
type aging struct {
	mu     sync.Mutex // guards the fields below
	ctx    context.Context
	client *oauth2.Config
	tokens oauth2.TokenSource
}

// source begins with a token that was got by a code.
func (a *aging) source(ctx context.Context, client *oauth2.Config, token *oauth2.Token) (oauth2.TokenSource, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ctx, a.client, a.tokens = ctx, client, client.TokenSource(ctx, token)
	return a, nil
}

// Token returns the token, or refreshes it.
func (a *aging) Token() (*oauth2.Token, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tokens.Token()
}

// age lets time pass for a token.
func (a *aging) age(by time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	token, err := a.tokens.Token()
	if err != nil {
		return // whoever asks for it next is told
	}
	older := *token
	older.Expiry = token.Expiry.Add(-by)
	a.tokens = a.client.TokenSource(a.ctx, &older)
}

// goOutcome is what a call has returned.
func goOutcome(t *testing.T, result any, err error) (o outcome) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(result)
	if err == nil {
		err = json.Unmarshal(text, &o.Result)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}
