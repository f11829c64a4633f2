package gateway

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// TestOriginIsRecorded: records and the log say from which address a request came, and what its
// client calls itself, and so does the record of one without a token.
func TestOriginIsRecorded(t *testing.T) {
	site := newSite(t, true, one("work", saying("x")))
	c, issuer := withIssuer(t)
	records := filepath.Join(t.TempDir(), "audit.jsonl")
	c.write(t, fmt.Sprintf(`upstreams: [{name: up, url: %q}]
public_url: %q
auth: {mode: oauth, issuers: [{url: %q}]}
connections: {proxies: [127.0.0.1]}
policy: {default: allow}
audit: {sinks: [{type: file, path: %q}]}
`, site.url, issuer.Audience, issuer.URL, records))
	c.run(t)
	token := issuer.Token(map[string]any{"sub": "alice"})
	for _, tt := range []struct {
		token, agent, host string
		status             int
	}{{"", "probe/1 (no token)", "", 401}, {"not-a-token", "not-a-token/1", "", 401}, {token, "client/2", "", 200},
		{token, "client/2", "evil.example", 403}} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, issuer.Audience,
			strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"up__work","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Host = tt.host
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "up__work",
			"User-Agent": tt.agent, "X-Forwarded-For": "198.51.100.1, 192.0.2.7",
		} {
			r.Header.Set(name, value)
		}
		if tt.token != "" {
			r.Header.Set("Authorization", "Bearer "+tt.token)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != tt.status {
			t.Errorf("%s: %d, want %d", tt.agent, resp.StatusCode, tt.status)
		}
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	for _, want := range []struct{ kind, event, agent string }{
		{"signin", "no token", "probe/1 (no token)"}, {"signin", "refused", ""}, {"signin", "ok", "client/2"},
		{"call", "", "client/2"}, {"refused", "", "client/2"},
	} {
		n := 0
		for _, r := range recorded(t, records, want.kind) {
			if event, _ := r["event"].(string); event == want.event {
				n++
				if agent, _ := r["user_agent"].(string); agent != want.agent || r["client_address"] != "192.0.2.7" {
					t.Errorf("%v: %v", want, r)
				}
			}
		}
		if n != 1 {
			t.Errorf("%v: %d records", want, n)
		}
	}
	if text := c.log.String(); !strings.Contains(text, "msg=call") ||
		!strings.Contains(text, "client_address=192.0.2.7 user_agent=client/2") {
		t.Error(text)
	}
}

// TestStrangersKeepNoClientOut: those who sign in through a proxy get in as ever while somebody else
// floods the authorization server through it with made-up clients and with registrations.
func TestStrangersKeepNoClientOut(t *testing.T) {
	site := newSite(t, true, one("work", saying("x")))
	c, issuer := withIssuer(t)
	at := strings.TrimSuffix(issuer.Audience, "/mcp")
	c.write(t, fmt.Sprintf(`upstreams: [{name: up, url: %q}]
public_url: %q
auth:
  mode: oauth
  issuers: [{url: %q}]
  server: {enabled: true, client_id: gatehouse, registration: {cimd: {allow: [localhost]}, dcr: {enabled: true}}}
connections: {proxies: [127.0.0.1]}
policy: {default: allow}
`, site.url, issuer.Audience, issuer.URL))
	c.run(t)
	says := func(from, method, path, body string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, at+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Forwarded-For", from)
		r.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, tt := range []struct{ method, path, body, taken, refused string }{
		{http.MethodGet, "/oauth/authorize?client_id=https%%3A%%2F%%2Flocalhost%%2F%d", "", "not public", "too many clients"},
		{
			http.MethodPost, "/oauth/register?%d", `{"redirect_uris":["http://localhost/cb"]}`,
			"client_id", "too many registrations",
		},
	} {
		var last string
		for i := range 100 {
			last = says("198.51.100.1", tt.method, fmt.Sprintf(tt.path, i), tt.body)
		}
		if !strings.Contains(last, tt.refused) {
			t.Errorf("the stranger is told %q, want %q", last, tt.refused)
		}
		if text := says("192.0.2.7", tt.method, fmt.Sprintf(tt.path, 1000), tt.body); !strings.Contains(text, tt.taken) {
			t.Errorf("the neighbour is told %q, want %q", text, tt.taken)
		}
	}
}

func TestAgentOf(t *testing.T) {
	const token = "canary-1234.token"
	for agent, want := range map[string]string{
		"claude-code/2.0.1 (cli)":   "claude-code/2.0.1 (cli)",
		"":                          "",
		"caf\u00e9\u202e\x1b[2J":    "caf???[2J",
		strings.Repeat("ab ", 1000): strings.Repeat("ab ", 86)[:256],
		token:                       "",
		"x/1 (" + token + ")":       "",
		"canary-1234 x":             "",
		"Bearer " + token:           "",
	} {
		r := &http.Request{Header: http.Header{"User-Agent": {agent}, "Authorization": {"Bearer " + token}}}
		if got := agentOf(r); got != want {
			t.Errorf("%q: %q, want %q", agent, got, want)
		}
	}
}
