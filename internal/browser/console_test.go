//go:build browser

package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// hostile is what a server may call a tool, or say of it.
const hostile = "\"><script>alert(1)</script><img src=x onerror=alert(2)>\u202egnp.exe\u200b\x1b[31m' onmouseover=alert(3) {{.}}"

const config = `
listen: 127.0.0.1:0
public_url: %[1]s
auth: {mode: oauth, issuers: [{url: %[2]s}], required_scopes: [mcp]}
policy:
  default: deny
  rules:
    - {name: everybody-uses-the-crm, allow: ["*:crm/*", "*:odd/*"], record: {arguments: [full]}}
    - {name: nobody-drops, deny: ["tools:crm/drop"]}
    - {name: closing-takes-two, ask: ["tools:crm/close"], approvers: {who: {groups: [engineering]}}}
pinning: {mode: warn, file: %[3]s}
upstreams:
  - {name: crm, url: %[4]s}
  - {name: odd, url: %[5]s}
  - {name: gone, url: "http://127.0.0.1:1/mcp"}
admin:
  listen: %[6]s
  rules:
    - {who: {users: [alice]}, role: operator}
    - {who: {users: [alice]}, role: auditor}
  console:
    sign_in: {client_id: console}
    save: true
`

// serve serves a handler on a loopback port until the test ends.
func serve(t *testing.T, at net.Listener, h http.Handler) {
	t.Helper()
	s := &httptest.Server{Listener: at, Config: &http.Server{Handler: h}}
	s.Start()
	t.Cleanup(s.Close)
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func url(l net.Listener) string { return "http://" + l.Addr().String() }

// newServer runs an MCP server with these tools. It returns its URL.
func newServer(t *testing.T, tools map[string]string) string {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: "server", Version: "1"}, nil)
	for name, description := range tools {
		sdk.AddTool(server, &sdk.Tool{Name: name, Description: description},
			func(_ context.Context, _ *sdk.CallToolRequest, args map[string]any) (*sdk.CallToolResult, any, error) {
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: hostile}}}, nil, nil
			})
	}
	l := listen(t)
	serve(t, l, sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	return url(l) + "/mcp"
}

// newIssuer runs an issuer that signs the browser in as alice, with these claims.
func newIssuer(t *testing.T, audience string, claims map[string]any) *mcptest.Issuer {
	t.Helper()
	issuer := mcptest.NewIssuer(mcptest.IssuerOptions{Audience: audience})
	t.Cleanup(issuer.Close)
	issuer.LetSignIn(claims)
	return issuer
}

// run runs a gateway until the test ends.
func run(t *testing.T, options gateway.Options) {
	t.Helper()
	g, err := gateway.New(options)
	if err != nil {
		t.Fatal(err)
	}
	g.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := g.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	if err := g.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// look runs a script that looks at pages in Chromium.
func look(t *testing.T, script string, order map[string]any) {
	t.Helper()
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal(err, ": make browser installs it")
	}
	cache, err := filepath.Abs("../../.cache")
	if err != nil {
		t.Fatal(err)
	}
	order["chromium"], order["modules"], order["out"] = chromium, filepath.Join(cache, "browser"),
		filepath.Join(cache, "console")
	text, err := json.Marshal(order)
	if err != nil {
		t.Fatal(err)
	}
	orders := filepath.Join(t.TempDir(), "look.json")
	if err := os.WriteFile(orders, text, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "node", script, orders).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestConsole: see the comment of the package.
func TestConsole(t *testing.T) {
	endpoint, desk := listen(t), listen(t)
	resource := url(endpoint) + "/mcp"
	issuer := newIssuer(t, resource, map[string]any{"scope": "mcp", "groups": "engineering"})
	crm := newServer(t, map[string]string{"find": "Finds customers.", "drop": "Drops a customer.",
		"close": "Closes an account."})
	odd := newServer(t, map[string]string{"odd": strings.Repeat(hostile, 1<<20/len(hostile)), "plain": "A plain tool."})
	dir := t.TempDir()
	lock := filepath.Join(dir, "gatehouse.lock")
	file := filepath.Join(dir, "gatehouse.yaml")
	text := fmt.Sprintf(config, resource, issuer.URL, lock, crm, odd, desk.Addr())
	if err := os.WriteFile(lock, []byte("{\"version\": 1, \"upstreams\": {}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, gateway.Options{ConfigFile: file, Version: "test", Listener: endpoint, Admin: desk,
		Log: slog.New(slog.DiscardHandler)})
	bob := issuer.Token(map[string]any{
		"sub": "bob", "scope": "mcp", "groups": "support", "exp": time.Now().Add(time.Hour).Unix(),
	})
	traffic(t, resource, bob)
	// What a page says comes from the traffic and the configuration of this test, but for replay.
	pages := []map[string]string{
		{"name": "now", "path": "/console/", "says": "gone"},
		{"name": "calls", "path": "/console/calls", "says": "crm__find"},
		{"name": "calls-denied", "path": "/console/calls?decision=deny", "says": "crm__drop"},
		{"name": "calls-none", "path": "/console/calls?user=nobody", "says": "Nothing fits"},
		{"name": "policy", "path": "/console/policy", "says": "nobody-drops"},
		{"name": "replay", "path": "/console/policy/replay", "says": "Try a draft"},
		{"name": "servers", "path": "/console/servers", "says": "odd"},
		{"name": "server", "path": "/console/servers/odd", "says": "plain"},
		{"name": "server-down", "path": "/console/servers/gone", "says": "refused"},
		{"name": "catalog", "path": "/console/catalog", "says": "crm__find"},
		{"name": "catalog-bob", "path": "/console/catalog?user=bob&groups=support", "says": "nobody-drops"},
		{"name": "tool", "path": "/console/catalog/tool?name=crm__find", "says": "Finds customers."},
		{"name": "sessions", "path": "/console/sessions", "says": "bob"},
		{"name": "approvals", "path": "/console/approvals", "says": "crm__close"},
		{"name": "sign-ins", "path": "/console/sign-ins", "says": "the token is not a JWT"},
		{"name": "configuration", "path": "/console/configuration", "says": "nobody-drops"},
		{"name": "edit", "path": "/console/configuration/edit", "says": "nobody-drops"},
		{"name": "first-run", "path": "/console/first-run", "says": resource},
	}
	look(t, "look.mjs", map[string]any{
		"base": url(desk), "endpoint": resource, "issuer": issuer.URL, "token": bob, "pages": pages,
	})
}

// traffic makes calls that work, are refused, wait for somebody, and mean harm.
func traffic(t *testing.T, endpoint, token string) {
	t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: hostile, Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{
		Endpoint: endpoint, HTTPClient: &http.Client{Transport: withToken(token)}, DisableStandaloneSSE: true,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	for _, name := range []string{"crm__find", "crm__drop", "odd__odd", hostile, "crm__nothing"} {
		_, _ = session.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: map[string]any{"text": hostile}})
	}
	waiting, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { // waits for an approval until the test ends
		defer close(ended)
		_, _ = session.CallTool(waiting, &sdk.CallToolParams{Name: "crm__close",
			Arguments: map[string]any{"account": hostile}})
	}()
	t.Cleanup(func() { stop(); <-ended })
	name, _ := json.Marshal(hostile)
	post(t, endpoint, token, http.StatusOK,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":`+string(name)+`,"version":"1"}}}`)
	post(t, endpoint, "not-a-token", http.StatusUnauthorized, "{}")
}

// post sends a message to the endpoint.
func post(t *testing.T, endpoint, token string, want int, message string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint, strings.NewReader(message))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	answer, err := (&http.Client{Transport: withToken(token)}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	if answer.Body.Close(); answer.StatusCode != want {
		t.Errorf("%s: %d, want %d", message, answer.StatusCode, want)
	}
}

// withToken sends a token with each request.
type withToken string

// RoundTrip sends a request.
func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(w))
	return http.DefaultTransport.RoundTrip(r)
}
