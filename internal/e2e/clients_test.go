package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/clientele"
	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/clients"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// metadataOf is what a known client says about itself, with this in front of it.
func metadataOf(t *testing.T, s clients.SignIn, front string) string {
	t.Helper()
	uris, err := json.Marshal(append([]string{"http://localhost/own"}, s.Redirects...))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`{%s"client_name":%q,"redirect_uris":%s,"grant_types":["authorization_code","refresh_token"],"token_endpoint_auth_method":"none"}`, front, s.Client, uris)
}

// hosted are the registrations of clients with a host of their own, which ask for scopes that there are not.
var hosted = map[string]string{
	"n8n": `{"client_name":"n8n","client_uri":"https://n8n.io/","response_types":["code"],"token_endpoint_auth_method":"none",
		"grant_types":["authorization_code","refresh_token"],"redirect_uris":["https://chat.example/rest/oauth2-credential/callback"]}`,
	"LibreChat": `{"client_name":"LibreChat MCP Client","response_types":["code"],"token_endpoint_auth_method":"client_secret_basic",
		"grant_types":["authorization_code","refresh_token"],"redirect_uris":["https://chat.example/api/mcp/gatehouse/oauth/callback"]}`,
}

// TestKnownClientsSignIn: each known client signs its user in at the gateway's own authorization
// server, by a document or by registering itself, with a browser and a provider, over real HTTP.
func TestKnownClientsSignIn(t *testing.T) {
	t.Parallel()
	s := scripted(t, stateless)
	server := auth.ServerConfig{Enabled: true, ClientID: "gatehouse",
		Registration: clientele.Registration{DCR: clientele.DCR{Enabled: true, Redirects: []string{"*", "cursor:"}}}}
	dir := t.TempDir()
	for i, one := range clients.SignIns {
		if one.Document == "" {
			continue
		}
		file := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(file, []byte(metadataOf(t, one, fmt.Sprintf(`"client_id":%q,`, one.Document))),
			0o600); err != nil {
			t.Fatal(err)
		}
		server.Clients = append(server.Clients, clientele.Fixed{ID: one.Document, Document: file})
	}
	g := guard(t, gateway.Config{Auth: auth.Config{Server: server},
		Upstreams: []upstream.Config{{Name: "up", URL: s.URL}}})
	g.issuer.LetSignIn(nil)
	signIn := func(app *mcptest.OAuthApp, name string) {
		t.Helper()
		app.Endpoint = g.url
		asked := false
		tokens := app.SignIn(t.Context(), t, mcptest.NewTab(t, "alice"), func(p *mcptest.Page) string {
			asked = true
			place, _ := clientele.Place(app.Redirect)
			if p.Status != http.StatusOK || !strings.Contains(p.Text, name) || !strings.Contains(p.Text, place) {
				t.Errorf("%s: the page says %s", name, p)
			}
			return "allow"
		})
		if again := app.Renew(t.Context(), tokens.Refresh); again.Status != http.StatusOK || again.Access == "" {
			t.Errorf("%s: renewed: %+v", name, again)
		}
		if !asked {
			t.Errorf("%s: nobody was asked", name)
		}
	}
	for _, one := range clients.SignIns {
		redirect := "http://localhost:4711/own"
		if len(one.Redirects) > 0 {
			redirect = strings.Replace(strings.Replace(one.Redirects[0], "http://localhost/", "http://localhost:4711/", 1),
				"http://127.0.0.1/", "http://127.0.0.1:4711/", 1)
		}
		if one.Path != "" {
			redirect = "https://chat.example" + one.Path
			signIn(&mcptest.OAuthApp{Registration: hosted[one.Client], Redirect: redirect, Scope: "openid"}, one.Client)
			continue
		}
		if one.Document != "" {
			signIn(&mcptest.OAuthApp{ID: one.Document, Redirect: redirect}, one.Client)
		}
		if one.Registers {
			signIn(&mcptest.OAuthApp{Registration: metadataOf(t, one, ""), Redirect: redirect}, one.Client)
		}
	}

	// Who is not known gets no further than a page.
	for _, app := range []*mcptest.OAuthApp{
		{ID: "https://evil.example/client.json", Redirect: "https://evil.example/cb"},
		{ID: "dcr_AAAA", Redirect: "https://evil.example/cb"},
		{ID: clients.SignIns[0].Document, Redirect: "https://evil.example/cb"},
	} {
		app.Endpoint = g.url
		app.Discover(t.Context(), t)
		if p := mcptest.NewTab(t, "alice").Open(t.Context(), app.AuthorizationURL(),
			app.Redirect); p.Status != http.StatusBadRequest && p.Status != http.StatusUnauthorized &&
			p.Status != http.StatusForbidden {
			t.Errorf("%s: %s", app, p)
		}
	}
}
