package clients

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// wayOf returns how one client gets in.
func wayOf(t *testing.T, server Server, client string) Entry {
	t.Helper()
	entries := Entries(server)
	at := slices.IndexFunc(entries, func(w Entry) bool { return strings.HasPrefix(w.Client, client) })
	if at < 0 || len(entries) != len(SignIns) {
		t.Fatalf("%s is not among %d clients", client, len(entries))
	}
	return entries[at]
}

func TestWays(t *testing.T) {
	no := func(text string) error { return errors.New(text) }
	nothing := Server{Document: func(string) error { return no("no documents") },
		Register: func([]string) error { return no("no registration") }, Known: func([]string) string { return "" }}
	documents, registers, ours, known := nothing, nothing, nothing, nothing
	documents.Document = func(string) error { return nil }
	registers.Register = func([]string) error { return nil }
	ours.Ours = true
	some, all := ours, ours
	all.Register = func([]string) error { return nil }
	some.Register = func(redirects []string) error {
		if len(redirects) > 0 {
			return no("no such host")
		}
		return nil
	}
	known.Known = func(redirects []string) string {
		if slices.Contains(redirects, "http://localhost:8787/callback") {
			return "the-cursor"
		}
		return ""
	}
	public := documents
	public.Public, public.NamesItself = true, true
	for _, tt := range []struct {
		name, client string
		server       Server
		in           bool
		want         string
	}{
		{"nothing", "Cursor", nothing, false,
			"its users type in an id: make a client at the issuer, with http://localhost:8787/callback and https://www.cursor.com/agents/mcp/oauth/callback and cursor://anysphere.cursor-mcp/oauth/callback"},
		{"nothing", "JetBrains", nothing, false,
			"its users type in an id: make a client at the issuer, with the redirect URI that it shows"},
		{"nothing", "n8n", nothing, false,
			"its users type in an id: make a client at the issuer, with https://{its host}/rest/oauth2-credential/callback"},
		{"registers", "n8n", registers, true, "registers itself"},
		{"ours, some hosts", "n8n", some, false, "registers itself: " + elsewhere},
		{"ours, some hosts", "LibreChat", some, false, "registers itself: " + elsewhere},
		{"ours, some hosts", "JetBrains", some, false, "registers itself: " + elsewhere},
		{"ours, all hosts", "n8n", all, true, "registers itself"},
		{"nothing", "Zed", nothing, false, "not at all: the issuer would have to let it register, or auth.server to be on"},
		{"registers", "Cursor", registers, true, "registers itself"},
		{"registers", "Zed", registers, true, "registers itself"},
		{"documents", "Zed", documents, true, "by its document, https://zed.dev/oauth/client-metadata.json"},
		{"documents without none", "claude.ai", documents, false,
			"its users type in an id: make a client at the issuer, with https://claude.ai/api/mcp/auth_callback"},
		{"documents without iss", "ChatGPT", documents, true, "by its document, another one for each connection"},
		{"documents with none", "claude.ai", public, true,
			"by its document, https://claude.ai/oauth/mcp-oauth-client-metadata"},
		{"documents with iss", "ChatGPT", public, true, "by its document, https://chatgpt.com/oauth/client.json"},
		{"documents with none", "Cursor", public, false,
			"its users type in an id: make a client at the issuer, with http://localhost:8787/callback and https://www.cursor.com/agents/mcp/oauth/callback and cursor://anysphere.cursor-mcp/oauth/callback"},
		{"ours", "Zed", ours, false, "not at all: no documents; or no registration"},
		{"ours", "Le Chat", ours, false,
			"not at all: no registration; or name it in auth.server.clients, with https://callback.mistral.ai/v1/integrations_auth/oauth2_callback, and have its users type in the id"},
		{"known", "Cursor", known, true, "its users type in the id the-cursor"},
	} {
		if entry := wayOf(t, tt.server, tt.client); entry.In != tt.in || entry.String() != entry.Client+": "+tt.want {
			t.Errorf("%s: %s: %t, %q", tt.name, tt.client, entry.In, entry)
		}
	}
}

// TestSignInsAreDocumented: docs/clients.md has the same clients.
func TestSignInsAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "clients.md"))
	if err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	for _, s := range SignIns {
		var entries []string
		if s.Document != "" {
			entries = append(entries, "CIMD")
		}
		if s.Registers {
			entries = append(entries, "DCR")
		}
		if s.Typed {
			entries = append(entries, "fixed")
		}
		code := func(texts ...string) string {
			if texts = slices.DeleteFunc(texts, func(s string) bool { return s == "" }); len(texts) == 0 {
				return "not known"
			}
			return "`" + strings.Join(texts, "`, `") + "`"
		}
		document := code(s.Document)
		if s.Document == "" {
			document = "none"
		}
		redirects := code(slices.Clone(s.Redirects)...)
		if s.Path != "" {
			redirects = code("https://{its host}" + s.Path)
		}
		fmt.Fprintf(&rows, "| %s | %s | %s | %s |\n", s.Client, strings.Join(entries, ", "), document, redirects)
	}
	_, table, _ := strings.Cut(string(page),
		"| client | registration | URL of its document | redirects to |\n|---|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	if table+"\n" != rows.String() {
		t.Errorf("docs/clients.md has\n%s\nwant\n%s", table, rows.String())
	}
}
