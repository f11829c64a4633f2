package mcptest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway/demo/issuer"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// TestOAuthApp: an app signs its user in at the issuer for development, by pages and forms, and a
// no is told.
func TestOAuthApp(t *testing.T) {
	t.Parallel()
	var at http.Handler
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { at.ServeHTTP(w, r) }))
	t.Cleanup(s.Close)
	var signIn *issuer.Issuer
	resource := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		url := "http://" + r.Host + "/mcp"
		if r.URL.Path == "/.well-known/oauth-protected-resource/mcp" {
			fmt.Fprintf(w, `{"resource":%q,"authorization_servers":[%q]}`, url, s.URL)
			return
		}
		if _, err := signIn.Verify(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), url); err != nil {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="http://`+r.Host+`/.well-known/oauth-protected-resource/mcp", scope="mcp"`)
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(resource.Close)
	signIn, err := issuer.New(issuer.Config{
		URL: s.URL, Resources: []string{resource.URL + "/mcp"}, Scopes: []issuer.Scope{{Name: "mcp", Means: "everything"}},
		Users: []issuer.User{{Subject: "alice", Name: "Alice", About: "signs in"}},
	}, issuer.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	at = signIn
	app := &mcptest.OAuthApp{
		Endpoint: resource.URL + "/mcp", Redirect: "http://127.0.0.1:4711/callback",
		Registration: `{"client_name":"App","redirect_uris":["http://127.0.0.1/callback"],"token_endpoint_auth_method":"none","grant_types":["authorization_code","refresh_token"]}`,
	}
	b := mcptest.NewTab(t, "alice")
	tokens := app.SignIn(t.Context(), t, b, func(p *mcptest.Page) string {
		if !strings.Contains(p.Text, "App wants to use the gateway") {
			t.Errorf("%s", p)
		}
		return "alice"
	})
	if again := app.Renew(t.Context(), tokens.Refresh); again.Access == "" || again.Refresh == tokens.Refresh {
		t.Errorf("renewed: %+v", again)
	}
	if again := app.Renew(t.Context(), tokens.Refresh); again.Error != "invalid_grant" {
		t.Errorf("renewed again: %+v", again)
	}
	page := b.Press(t.Context(), b.Open(t.Context(), app.AuthorizationURL(), app.Redirect), "Cancel", app.Redirect)
	if page.Status != 0 || page.URL.Query().Get("error") != "access_denied" {
		t.Errorf("%s", page)
	}
}
