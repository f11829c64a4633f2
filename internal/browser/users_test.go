//go:build browser

package browser

import (
	"fmt"
	"log/slog"
	"net/http"
	neturl "net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/demo/issuer"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

const usersConfig = `
listen: 127.0.0.1:0
public_url: %[1]s
auth:
  mode: oauth
  issuers: [{url: %[2]s}]
  required_scopes: [mcp]
  server: {enabled: true, client_id: %[3]q, registration: {dcr: {enabled: true, redirects: [client.example]}}}
policy: {default: allow}
upstreams:
  - {name: crm, url: %[4]s, auth: {type: user_oauth}}
  - {name: odd, url: %[5]s, auth: {type: user_oauth}}
`

// TestUsers opens the pages for users: consent, and their accounts at servers.
func TestUsers(t *testing.T) {
	endpoint, login, client := listen(t), listen(t), listen(t)
	resource := url(endpoint) + "/mcp"
	iss, err := issuer.New(issuer.Config{
		URL: url(login), Resources: []string{resource}, Scopes: []issuer.Scope{{Name: "mcp", Means: "use the gateway"}},
		Users: []issuer.User{{Subject: "alice", Name: "Alice", Email: hostile, About: "has accounts"}},
	}, issuer.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	serve(t, login, iss)
	serve(t, client, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		what := r.FormValue("error")
		if r.FormValue("code") != "" {
			what = "a code"
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<!doctype html><link rel=icon href=data:,><main>back at the client: %s</main>", what)
	}))
	crm, odd := mcptest.NewAccounts(nil), mcptest.NewAccounts(nil)
	t.Cleanup(crm.Close)
	t.Cleanup(odd.Close)
	odd.SetAnswer("code", "")
	odd.SetAnswer("error", "access_denied")
	odd.SetAnswer("error_description", hostile)
	us := register(t, url(login), "Gatehouse", url(endpoint)+"/oauth/callback", url(endpoint)+"/account/callback")
	file := filepath.Join(t.TempDir(), "gatehouse.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, usersConfig, resource, url(login), us, crm.URL, odd.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, gateway.Options{ConfigFile: file, Version: "test", Listener: endpoint, Log: slog.New(slog.DiscardHandler)})

	ask := func(redirect string) string {
		id := register(t, url(endpoint)+"/oauth", hostile, redirect)
		return url(endpoint) + "/oauth/authorize?" + neturl.Values{
			"response_type": {"code"}, "client_id": {id}, "redirect_uri": {redirect}, "resource": {resource}, "scope": {"mcp"}, "state": {"s"},
			"code_challenge": {"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}, "code_challenge_method": {"S256"},
		}.Encode()
	}
	look(t, "users.mjs", map[string]any{
		"base": url(endpoint), "issuer": url(login), "user": "Alice", "local": ask(url(client) + "/callback"), "far": ask("https://client.example/callback"),
		"odd": url(endpoint) + "/oauth/authorize?client_id=nobody", "statuses": []int{http.StatusBadGateway}, "others": []string{url(client), origin(t, crm.URL), origin(t, odd.URL), "https://client.example/"},
	})
}

func origin(t *testing.T, at string) string {
	t.Helper()
	u, err := neturl.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	return u.Scheme + "://" + u.Host
}
