//go:build browser

package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	neturl "net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

const usersConfig = `
listen: 127.0.0.1:0
public_url: %[1]s
auth:
  mode: oauth
  issuers: [{url: %[2]s}]
  required_scopes: [mcp]
  server: {enabled: true, client_id: gatehouse, registration: {dcr: {enabled: true, redirects: [client.example]}}}
policy: {default: allow}
upstreams:
  - {name: crm, url: %[3]s, auth: {type: user_oauth}}
  - {name: odd, url: %[4]s, auth: {type: user_oauth}}
`

// TestUsers opens the pages for users: consent, and their accounts at servers.
func TestUsers(t *testing.T) {
	endpoint, client := listen(t), listen(t)
	resource := url(endpoint) + "/mcp"
	issuer := newIssuer(t, resource, map[string]any{"scope": "mcp", "email": hostile})
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
	file := filepath.Join(t.TempDir(), "gatehouse.yaml")
	text := fmt.Appendf(nil, usersConfig, resource, issuer.URL, crm.URL, odd.URL)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, gateway.Options{ConfigFile: file, Version: "test", Listener: endpoint, Log: slog.New(slog.DiscardHandler)})

	ask := func(redirect string) string { return authorize(t, url(endpoint), hostile, redirect) }
	look(t, "users.mjs", map[string]any{
		"base": url(endpoint), "issuer": issuer.URL,
		"local": ask(url(client) + "/callback"), "far": ask("https://client.example/callback"),
		"odd": url(endpoint) + "/oauth/authorize?client_id=nobody", "statuses": []int{http.StatusBadGateway},
		"others": []string{url(client), origin(t, crm.URL), origin(t, odd.URL), "https://client.example/"},
	})
}

// authorize returns where a client, which registers itself, sends its user.
func authorize(t *testing.T, gateway, name, redirect string) string {
	t.Helper()
	id := register(t, gateway+"/oauth/register", name, redirect)
	return gateway + "/oauth/authorize?" + neturl.Values{
		"response_type": {"code"}, "client_id": {id}, "redirect_uri": {redirect},
		"resource": {gateway + "/mcp"}, "scope": {"mcp"}, "state": {"s"},
		"code_challenge": {"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}, "code_challenge_method": {"S256"},
	}.Encode()
}

// register registers a client.
func register(t *testing.T, at, name string, redirect string) (id string) {
	t.Helper()
	body, _ := json.Marshal(map[string]any{
		"client_name": name, "redirect_uris": []string{redirect}, "token_endpoint_auth_method": "none",
	})
	r, err := http.Post(at, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var answer struct {
		ID  string `json:"client_id"`
		Why string `json:"error_description"`
	}
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil || answer.ID == "" {
		t.Fatalf("registering: %d %s %v", r.StatusCode, answer.Why, err)
	}
	return answer.ID
}

func origin(t *testing.T, at string) string {
	t.Helper()
	u, err := neturl.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	return u.Scheme + "://" + u.Host
}
