package setup

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

const gatewayURL = "http://127.0.0.1:8080/mcp"

// client returns a known client of a machine with Linux.
func client(t *testing.T, id string) Client {
	t.Helper()
	for _, c := range (Machine{System: "linux", Home: "/home/ada", Config: "/home/ada/.config"}).Clients() {
		if c.ID == id {
			return c
		}
	}
	t.Fatalf("no client %s", id)
	return Client{}
}

// TestEdit: the entry comes in, everything else stays as it is written, and it goes out again.
func TestEdit(t *testing.T) {
	goose := "  gatehouse:\n    enabled: true\n    type: \"streamable_http\"\n    name: \"gatehouse\"\n" +
		"    description: \"all MCP servers\"\n    uri: \"URL\"\n    timeout: 300\n"
	for _, tt := range []struct{ name, client, before, after string }{
		{"an empty file", "cursor", "",
			"{\n  \"mcpServers\": {\n    \"gatehouse\": {\n      \"url\": \"URL\"\n    }\n  }\n}\n"},
		{"no servers yet, tabs", "claude-desktop", "{\n\t\"theme\": \"dark\"\n}",
			"{\n\t\"mcpServers\": {\n\t\t\"gatehouse\": {\n\t\t\t\"command\": \"/bin/gatehouse\",\n" +
				"\t\t\t\"args\": [\n\t\t\t\t\"connect\",\n\t\t\t\t\"--stdio\",\n\t\t\t\t\"URL\"\n\t\t\t]\n\t\t}\n\t},\n" +
				"\t\"theme\": \"dark\"\n}"},
		{"comments and a comma at the end", "vscode",
			"// mine\n{\n    \"inputs\": [], // none\n    \"servers\": {\n        // x\n        \"a\": {}, // y\n    },\n}\n",
			"// mine\n{\n    \"inputs\": [], // none\n    \"servers\": {\n        \"gatehouse\": {\n" +
				"            \"type\": \"http\",\n            \"url\": \"URL\"\n        },\n" +
				"        // x\n        \"a\": {}, // y\n    },\n}\n"},
		{"comments and no servers", "zed", "{\n  \"context_servers\": {\n    // none\n  },\n  \"vim_mode\": true\n}\n",
			"{\n  \"context_servers\": {\n    \"gatehouse\": {\n      \"url\": \"URL\"\n    }\n    // none\n  },\n" +
				"  \"vim_mode\": true\n}\n"},
		{"lines of Windows", "windsurf", "{\r\n  \"mcpServers\": {\r\n  }\r\n}\r\n",
			"{\r\n  \"mcpServers\": {\r\n    \"gatehouse\": {\r\n      \"serverUrl\": \"URL\"\r\n    }\r\n  }\r\n}\r\n"},
		{"one line", "opencode", `{"$schema": "s", "mcp": {"a": {"type": "local", "command": ["x"]}}}`,
			"{\"$schema\": \"s\", \"mcp\": {\n    \"gatehouse\": {\n      \"type\": \"remote\",\n      \"url\": \"URL\",\n" +
				"      \"enabled\": true\n    },\"a\": {\"type\": \"local\", \"command\": [\"x\"]}}}"},
		{"TOML", "codex", "model = \"o\"\n\n[mcp_servers.docs]\ncommand = \"x\" # mine\n",
			"model = \"o\"\n\n[mcp_servers.docs]\ncommand = \"x\" # mine\n\n[mcp_servers.gatehouse]\nurl = \"URL\"\n"},
		{"an empty file, TOML", "codex", "", "[mcp_servers.gatehouse]\nurl = \"URL\"\n"},
		{"YAML", "goose", "GOOSE_MODEL: m\nextensions:\n  # built in\n  developer:\n    type: builtin\n# end\n",
			"GOOSE_MODEL: m\nextensions:\n" + goose + "  # built in\n  developer:\n    type: builtin\n# end\n"},
		{"YAML without servers", "goose", "GOOSE_MODEL: m\n", "GOOSE_MODEL: m\nextensions:\n" + goose},
		{"an empty file, YAML", "goose", "", "extensions:\n" + goose},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := client(t, tt.client)
			entry := c.Entry("gatehouse", gatewayURL, "/bin/gatehouse")
			after, err := c.Set(tt.before, "gatehouse", entry)
			if want := strings.ReplaceAll(tt.after, "URL", gatewayURL); err != nil || after != want {
				t.Fatalf("%v\n%s\nwant\n%s", err, after, want)
			}
			if got, err := c.Get(after, "gatehouse"); err != nil || got != Canonical(entry) {
				t.Errorf("%s %v", got, err)
			}
			if again, err := c.Set(after, "gatehouse", entry); err != nil || again != after {
				t.Errorf("again: %v\n%s", err, again)
			}
			moved := c.Entry("gatehouse", "https://b.example/mcp", "/bin/gatehouse")
			if other, err := c.Set(after, "gatehouse", moved); err != nil ||
				other != strings.ReplaceAll(after, gatewayURL, "https://b.example/mcp") {
				t.Errorf("another URL: %v\n%s", err, other)
			}
			back, err := c.Set(after, "gatehouse", "")
			made := !strings.Contains(tt.before, c.Key) && strings.HasSuffix(c.File, ".json") // braces stay
			if err != nil || !made && strings.TrimSpace(back) != strings.TrimSpace(tt.before) {
				t.Errorf("%v\n%s\nwant\n%s", err, back, tt.before)
			}
			if got, err := c.Get(back, "gatehouse"); err != nil || got != "" {
				t.Errorf("%s %v", got, err)
			}
		})
	}
}

// TestEditOfOneOfSeveral: the other entries and their comments stay.
func TestEditOfOneOfSeveral(t *testing.T) {
	for _, tt := range []struct{ client, before, after string }{
		{"cursor", "{\"mcpServers\": {\n  // first\n  \"gatehouse\": {\"url\": \"x\"},\n  // second\n  \"b\": {},\n}}",
			"{\"mcpServers\": {\n  // first\n  // second\n  \"b\": {},\n}}"},
		{"cursor", "{\"mcpServers\": {\"b\": {} /* kept */, \"gatehouse\": {\"url\": \"x\"}}}",
			"{\"mcpServers\": {\"b\": {} /* kept */}}"},
		{"cursor", "{\"mcpServers\": {\"b\": {}, \"gatehouse\": {\"url\": \"x\"},}}", "{\"mcpServers\": {\"b\": {},}}"},
		{"codex", "[mcp_servers.gatehouse]\nurl = \"x\"\n[mcp_servers.gatehouse.http_headers]\nA = \"b\"\n\n# other\n" +
			"[mcp_servers.b]\nurl = \"y\"\n",
			"\n# other\n[mcp_servers.b]\nurl = \"y\"\n"},
		{"goose", "extensions:\n    a: {type: builtin}\n    gatehouse:\n        uri: x\n        envs:\n            A: b\n\n" +
			"    c:\n        type: builtin\nx: 1\n",
			"extensions:\n    a: {type: builtin}\n\n    c:\n        type: builtin\nx: 1\n"},
		{"goose", "extensions:\n  gatehouse: {uri: x}\nx: 1\n", "x: 1\n"},
		{"goose", "a: 1\n", "a: 1\n"},
	} {
		if after, err := client(t, tt.client).Set(tt.before, "gatehouse", ""); err != nil || after != tt.after {
			t.Errorf("%s: %v\n%s\nwant\n%s", tt.client, err, after, tt.after)
		}
	}
}

// TestEditRefuses: a file that no edit of its text can serve is refused, without its content.
func TestEditRefuses(t *testing.T) {
	for _, tt := range []struct{ client, text, want string }{
		{"cursor", "{\n  \"a\": \"secret-value\"\n  \"b\": 1}", "line 3: this is not JSON"},
		{"cursor", "[]", "cannot unmarshal array"},
		{"cursor", `{"mcpServers": ["secret-value"]}`, "mcpServers is not an object with servers"},
		{"cursor", `{"mcpServers": {}, "mcpServers": null}`, ErrByHand.Error()},
		{"codex", "a = \"secret-value\nb = 1\n", "line 1 is not TOML"},
		{"codex", "mcp_servers = { a = { url = \"secret-value\" } }\n", ErrByHand.Error()},
		{"codex", "mcp_servers.a.url = \"secret-value\"\n", ErrByHand.Error()},
		{"codex", "[mcp_servers]\ngatehouse = { url = \"secret-value\" }\n", ErrByHand.Error()},
		{"codex", "a = \"\"\"\n[mcp_servers.gatehouse]\nsecret-value\n\"\"\"\n", ErrByHand.Error()},
		{"goose", "a: [secret-value\n", "yaml: "},
		{"goose", "extensions: {a: {type: builtin}}\n", ErrByHand.Error()},
		{"goose", "extensions: [secret-value]\n", "extensions is not an object with servers"},
	} {
		c := client(t, tt.client)
		if _, err := c.Set(tt.text, "gatehouse", c.Entry("gatehouse", gatewayURL, "x")); err == nil ||
			!strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret-value") {
			t.Errorf("%s: %v, want %s", tt.text, err, tt.want)
		}
	}
}

// TestDiff: what others have in the file is shown without its secrets.
func TestDiff(t *testing.T) {
	c := client(t, "cursor")
	before := "{\n  \"mcpServers\": {\n    \"a\": {\"url\": \"https://a.example/mcp\", " +
		"\"headers\": {\"Authorization\": \"Bearer secret-value\"}}\n  }\n}\n"
	after, err := c.Set(before, "gatehouse", c.Entry("gatehouse", gatewayURL, ""))
	if err != nil {
		t.Fatal(err)
	}
	if got := Diff(before, after); strings.Contains(got, "secret-value") ||
		!strings.Contains(got, "+    \"gatehouse\": {\n") || !strings.Contains(got, "https://a.example/mcp") ||
		!strings.Contains(got, "\"Authorization\": <secret>\n") {
		t.Error(got)
	}
	goose := "extensions:\n  a:\n    headers:\n      Authorization: Bearer secret-value\n"
	if got := Diff(goose, goose+"b: 1\n"); strings.Contains(got, "secret-value") || !strings.Contains(got, "+b: 1\n") {
		t.Error(got)
	}
}

// TestClients: on each system all files have another place, and flags and texts are complete.
func TestClients(t *testing.T) {
	for _, system := range []string{"linux", "darwin", "windows"} {
		ids, files := map[string]bool{}, map[string]bool{}
		for _, c := range (Machine{System: system, Home: "/h", Config: "/h/settings"}).Clients() {
			if ids[c.ID] || files[c.File] || c.Name == "" || c.Next == "" || c.Key == "" || !strings.HasPrefix(c.Mark, "/h/") ||
				!strings.HasPrefix(c.File, "/h/") {
				t.Errorf("%s: %+v", system, c)
			}
			ids[c.ID], files[c.File] = true, true
			if !json.Valid([]byte(c.Entry("gatehouse", `https://x.example/"&`, `C:\a\gatehouse.exe`))) {
				t.Errorf("%s", c.Form)
			}
		}
		for id, file := range map[string]map[string]string{
			"linux":   {"zed": "/h/settings/zed/settings.json", "goose": "/h/settings/goose/config.yaml"},
			"darwin":  {"zed": "/h/.config/zed/settings.json", "opencode": "/h/.config/opencode/opencode.json"},
			"windows": {"zed": "/h/settings/Zed/settings.json", "goose": "/h/settings/Block/goose/config/config.yaml"},
		}[system] {
			if !files[file] {
				t.Errorf("%s: %s is not at %s", system, id, file)
			}
		}
	}
	env := func(name string) string {
		return map[string]string{"CODEX_HOME": "/c", "CLAUDE_CONFIG_DIR": "/d"}[name]
	}
	for _, c := range (Machine{Home: "/h", Config: "/h/settings", Env: env}).Clients() {
		want := map[string]string{"codex": "/c/config.toml", "claude-code": "/d/.claude.json"}[c.ID]
		if want != "" && c.File != want {
			t.Errorf("%s: %s", c.ID, c.File)
		}
	}
}

// FuzzEdit: whatever the file is, the entry is in it afterwards and all else is as before, or the file is refused.
func FuzzEdit(f *testing.F) {
	f.Add("cursor", "{\"mcpServers\": {\"a\": {} /* x */, // y\n},}")
	f.Add("codex", "[mcp_servers.gatehouse]\nurl = \"x\"\n# y\n[a]\nb = '''\n[c]\n'''\n")
	f.Add("goose", "a: |\n  extensions:\n   b\nextensions:\n  gatehouse:\n    x: 1\n  c: {}\n")
	f.Fuzz(func(t *testing.T, id, text string) {
		for _, c := range (Machine{Home: "/h", Config: "/c"}).Clients() {
			if c.ID != id {
				continue
			}
			entry := c.Entry("gatehouse", gatewayURL, "x")
			after, err := c.Set(text, "gatehouse", entry)
			if err != nil {
				continue
			}
			if got, err := c.Get(after, "gatehouse"); err != nil || got != Canonical(entry) {
				t.Fatalf("%v %s\n%s", err, got, after)
			}
			back, err := c.Set(after, "gatehouse", "")
			if err != nil && !errors.Is(err, ErrByHand) {
				t.Fatal(err)
			}
			if got, _ := c.Get(back, "gatehouse"); got != "" {
				t.Fatalf("%s is left in\n%s", got, back)
			}
			if was, _ := c.Get(text, "gatehouse"); was == "" && err == nil && strings.Contains(text, "//") {
				if strings.Count(back, "//") != strings.Count(text, "//") {
					t.Fatalf("a comment is lost:\n%s\nwas\n%s", back, text)
				}
			}
			Diff(text, after)
		}
	})
}
