package upstream_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/auth/outbound"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"gopkg.in/yaml.v3"
)

func TestValidate(t *testing.T) {
	for _, tt := range []struct {
		name string
		yaml string
		want []string // parts of the error; none: valid
	}{
		{"https", `{name: crm, url: "https://mcp.example.com/mcp?x=1"}`, nil},
		{"loopback", `{name: a-b2, url: "http://127.0.0.1:1/mcp"}`, nil},
		{"loopback name", `{name: a, url: "http://localhost/mcp"}`, nil},
		{"loopback v6", `{name: a, url: "http://[::1]:80/mcp"}`, nil},
		{"plaintext", `{name: a, url: "http://10.0.0.1/mcp"}`, []string{"allow_plaintext"}},
		{"http_client", `{name: a, url: "https://a.example", http_client: standard}`, nil},
		{"results", `{name: a, url: "https://a.example", results: {inline: 100}}`,
			[]string{"results: inline: 100 bytes are too few"}},
		{"results of skills", `{name: a, skills: dir, results: {inline: 4KiB}}`, []string{"results: is for a server"}},
		{"unknown http_client", `{name: a, url: "https://a.example", http_client: curl}`, []string{"http_client"}},
		{"http_client of a command", `{name: a, command: [x], http_client: own}`, []string{"http_client"}},
		{"plaintext allowed", `{name: a, url: "http://10.0.0.1/mcp", allow_plaintext: true}`, nil},
		{"command", `{name: a, command: [npx, -y, x], env: {A: b}, dir: /, shared: true}`, nil},
		{"all set", `{name: a, url: "https://x", transport: streamable, revision: "2025-06-18", headers: {Authorization: Bearer x},
			prefix: "", enabled: false, timeout: {connect: 1s, call: 1m, total: 1h, ask: 1m, idle: 1m},
			limits: {result_bytes: 1, items: 100000, concurrent: 1, sessions: 1, asks_per_user: 1, questions_per_minute: 100000}}`, nil},
		{"nothing", `{}`, []string{"name:", "url, command or skills"}},
		{"both", `{name: a, url: "https://x", command: [x]}`, []string{"only one"}},
		{"the gateway's own name", `{name: Gatehouse, url: "https://x"}`, []string{"name:", "the gateway's own"}},
		{"names", `{name: a__b, url: "https://x"}`, []string{"name:"}},
		{"name with double dash", `{name: a--b, url: "https://x"}`, []string{"name:"}},
		{"name with a digit first", `{name: 1a, url: "https://x"}`, []string{"name:"}},
		{"credentials", `{name: a, url: "https://user:hunter2@x/mcp"}`, []string{"user and password"}},
		{"scheme", `{name: a, url: "ftp://x"}`, []string{"scheme"}},
		{"relative", `{name: a, url: "/mcp"}`, []string{"absolute"}},
		{"revision", `{name: a, url: "https://x", revision: "2025-01-01"}`, []string{"revision:", "2026-07-28"}},
		{"transport", `{name: a, url: "https://x", transport: carrier-pigeon}`, []string{"transport:", "stdio, streamable"}},
		{"stdio with url", `{name: a, url: "https://x", transport: stdio}`, []string{"needs a command"}},
		{"sse", `{name: a, url: "https://x/sse", transport: sse, revision: "2024-11-05"}`, nil},
		{"sse with a command", `{name: a, command: [x], transport: sse}`, []string{"sse needs a url"}},
		{"sse of a stateless revision", `{name: a, url: "https://x", transport: sse, revision: "2026-07-28"}`,
			[]string{"revision:", "sse"}},
		{"own headers", `{name: a, url: "https://x", headers: {mcp-session-id: x, Content-Type: y}}`,
			[]string{"mcp-session-id", "Content-Type"}},
		{"a header that has calls made twice", `{name: a, url: "https://x", headers: {idempotency-key: x}}`,
			[]string{"idempotency-key", "not the same call"}},
		{"header injection", `{name: a, url: "https://x", headers: {X: "a\r\nY: b"}}`, []string{"control characters"}},
		{"header name", `{name: a, url: "https://x", headers: {"a b": x}}`, []string{"not a header name"}},
		{"url with a command's keys", `{name: a, url: "https://x", shared: true}`, []string{"shared"}},
		{"command with a url's keys", `{name: a, command: [x], headers: {A: b}}`, []string{"headers"}},
		{"env", `{name: a, command: [x], env: {"A=B": x}}`, []string{"env:"}},
		{"questions", `{name: a, url: "https://x", limits: {questions_per_minute: 100001}}`,
			[]string{"questions_per_minute:"}},
		{"negative", `{name: a, url: "https://x", timeout: {call: -1s}, limits: {concurrent: -1}}`,
			[]string{"call:", "concurrent:"}},
		{"too large", `{name: a, url: "https://x", limits: {result_bytes: 9223372036854775807}}`, []string{"result_bytes:"}},
		{"too many items", `{name: a, url: "https://x", limits: {items: 100001}}`, []string{"limits: items:"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var cfg upstream.Config
			decoder := yaml.NewDecoder(strings.NewReader(tt.yaml))
			decoder.KnownFields(true)
			if err := decoder.Decode(&cfg); err != nil {
				t.Fatal(err)
			}
			err := cfg.Validate()
			if (err == nil) != (len(tt.want) == 0) {
				t.Fatalf("error %v", err)
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %v does not say %q", err, part)
				}
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error %v shows a secret", err)
			}
		})
	}
}

func TestSecretIsNotShown(t *testing.T) {
	cfg := upstream.Config{Headers: map[string]mcp.Secret{"Authorization": "hunter2"},
		Env: map[string]mcp.Secret{"K": "hunter2"}}
	asJSON, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	asYAML, err := yaml.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", cfg.Headers["Authorization"], "config", cfg)
	for name, text := range map[string]string{
		"%v": fmt.Sprintf("%v", cfg), "%+v": fmt.Sprintf("%+v", cfg), "%#v": fmt.Sprintf("%#v", cfg),
		"%s": fmt.Sprintf("%s", cfg.Headers["Authorization"]), "%q %x": fmt.Sprintf("%q %x", cfg.Env["K"], cfg.Env["K"]),
		"json": string(asJSON), "yaml": string(asYAML), "slog": log.String(),
	} {
		if strings.Contains(text, "hunter2") || strings.Contains(text, "68756e74657232") {
			t.Errorf("%s shows it: %s", name, text)
		}
	}
}

func TestAuthConfig(t *testing.T) {
	bearer := outbound.Config{Type: outbound.TypeBearer, Token: "x"}
	for _, tt := range []struct {
		name string
		cfg  upstream.Config
		want string
	}{
		{"alone", upstream.Config{URL: "https://a.example", Auth: bearer}, ""},
		{"beside another header", upstream.Config{URL: "https://a.example", Auth: bearer,
			Headers: map[string]mcp.Secret{"X-A": "b"}}, ""},
		{"none beside Authorization", upstream.Config{URL: "https://a.example", Auth: outbound.Config{Type: "none"},
			Headers: map[string]mcp.Secret{"Authorization": "b"}}, ""},
		{"twice", upstream.Config{URL: "https://a.example", Auth: bearer,
			Headers: map[string]mcp.Secret{"authorization": "b"}}, "headers[authorization]: auth sets it already"},
		{"a header of the protocol", upstream.Config{URL: "https://a.example",
			Auth: outbound.Config{Type: "header", Header: "mcp-session-id",
				Token: "x"}}, "auth: header: Mcp-Session-Id is set by the gateway itself"},
		{"cookies", upstream.Config{URL: "https://a.example",
			Auth: outbound.Config{Type: "header", Header: "Cookie", Token: "x"}}, "auth: header: Cookie is set"},
		{"a command", upstream.Config{Command: []string{"x"}, Auth: bearer},
			"auth: is for a url; a command gets its credentials by env"},
		{"problems of its own", upstream.Config{URL: "https://a.example", Auth: outbound.Config{Type: "bearer"}},
			"auth: token: is needed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.Name = "a"
			err := tt.cfg.Validate()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	_, err := upstream.New(upstream.Config{Name: "a", URL: "https://a.example", Auth: bearer},
		upstream.Deps{Log: slog.New(slog.DiscardHandler), HTTP: http.DefaultTransport})
	if err == nil {
		t.Error("an upstream is made without the credentials that it is to have")
	}
	if text, err := json.Marshal(upstream.Config{Auth: bearer}); err != nil || strings.Contains(string(text), `"x"`) {
		t.Errorf("a secret is shown: %s %v", text, err)
	}
}
