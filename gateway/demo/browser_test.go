package demo_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// TestSignInByBrowser: a client that registers itself signs its user in, who picks who they are and allows
// the client; or not.
func TestSignInByBrowser(t *testing.T) {
	url, _ := startGateway(t)
	app := &mcptest.OAuthApp{
		Endpoint: url, Redirect: "http://127.0.0.1:4711/callback",
		Registration: `{"client_name":"App","redirect_uris":["http://127.0.0.1/callback"],
			"token_endpoint_auth_method":"none","grant_types":["authorization_code","refresh_token"]}`,
	}
	tab := mcptest.NewTab(t, "somebody")
	var seen []string
	decide := func(p *mcptest.Page) string {
		seen = append(seen, p.Text)
		if strings.Contains(p.Text, "Who are you today?") {
			return "alice"
		}
		return "allow"
	}
	tokens := app.SignIn(t.Context(), t, tab, decide)
	if len(seen) != 2 || !strings.Contains(seen[0], "no passwords") ||
		!strings.Contains(seen[1], "Let App act for you?") || !strings.Contains(seen[1], "alice@example.com") {
		t.Errorf("the pages: %q", seen)
	}
	tools := connected(t, url, "2026-07-28", tokens.Access, "decline").names(t)
	if !slices.Contains(tools, "ops__deploy") {
		t.Errorf("Alice has %v", tools)
	}
	if again := app.Renew(t.Context(), tokens.Refresh); again.Status != http.StatusOK || again.Access == "" {
		t.Errorf("renewed: %+v", again)
	}
	page := tab.Press(t.Context(), tab.Open(t.Context(), app.AuthorizationURL(), app.Redirect), "Bob", app.Redirect)
	page = tab.Press(t.Context(), page, "Do not allow", app.Redirect)
	if page.Status != 0 || page.URL.Query().Get("error") != "access_denied" {
		t.Errorf("%s", page)
	}
}
