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

// canonical returns an entry as Get does.
func canonical(t *testing.T, entry string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(entry), &v); err != nil {
		t.Fatal(err)
	}
	return encoded(v)
}

// TestEdit: the entry comes in, everything else stays as it is written, and it goes out again.
func TestEdit(t *testing.T) {
	for _, tt := range []struct{ name, client, before, after string }{
		{"an empty file", "cursor", "", "{\n  \"mcpServers\": {\n    \"gatehouse\": {\"url\":\"URL\"}\n  }\n}\n"},
		{"no servers yet, tabs", "claude-desktop", "{\n\t\"theme\": \"dark\"\n}",
			"{\n\t\"mcpServers\": {\n\t\t\"gatehouse\": {\"args\":[\"connect\",\"--stdio\",\"URL\"]," +
				"\"command\":\"/bin/gatehouse\"}\n\t},\n\t\"theme\": \"dark\"\n}"},
		{"comments and a comma at the end", "vscode",
			"// mine\n{\n    \"inputs\": [], // none\n    \"servers\": {\n        // x\n        \"a\": {}, // y\n    },\n}\n",
			"// mine\n{\n    \"inputs\": [], // none\n    \"servers\": {\n" +
				"        \"gatehouse\": {\"type\":\"http\",\"url\":\"URL\"},\n" +
				"        // x\n        \"a\": {}, // y\n    },\n}\n"},
		{"comments and no servers", "zed", "{\n  \"context_servers\": {\n    // none\n  },\n  \"vim_mode\": true\n}\n",
			"{\n  \"context_servers\": {\n    \"gatehouse\": {\"url\":\"URL\"}\n    // none\n  },\n  \"vim_mode\": true\n}\n"},
		{"a comment beside the brace", "cursor", "{\"mcpServers\": { // mine\n  \"a\": {}\n}}",
			"{\"mcpServers\": {\n  \"gatehouse\": {\"url\":\"URL\"}, // mine\n  \"a\": {}\n}}"},
		{"lines of Windows", "windsurf", "{\r\n\t\"mcpServers\": {\r\n\t\t\"a\": {}\r\n\t}\r\n}\r\n",
			"{\r\n\t\"mcpServers\": {\r\n\t\t\"gatehouse\": {\"serverUrl\":\"URL\"},\r\n\t\t\"a\": {}\r\n\t}\r\n}\r\n"},
		{"lines of Windows, TOML", "codex", "model = \"o\"\r\n",
			"model = \"o\"\r\n\r\n[mcp_servers.gatehouse]\r\nurl = \"URL\"\r\n"},
		{"one line", "opencode", `{"$schema": "s", "mcp": {"a": {"type": "local", "command": ["x"]}}}`,
			"{\"$schema\": \"s\", \"mcp\": {\n    \"gatehouse\": {\"enabled\":true,\"type\":\"remote\",\"url\":\"URL\"}," +
				"\"a\": {\"type\": \"local\", \"command\": [\"x\"]}}}"},
		{"white space", "windsurf", "\n",
			"\n{\n  \"mcpServers\": {\n    \"gatehouse\": {\"serverUrl\":\"URL\"}\n  }\n}\n"},
		{"a comment alone", "zed", "// {",
			"// {\n{\n  \"context_servers\": {\n    \"gatehouse\": {\"url\":\"URL\"}\n  }\n}\n"},
		{"a byte order mark, null", "cursor", "\ufeff{\"mcpServers\": null}",
			"\ufeff{\"mcpServers\": {\n    \"gatehouse\": {\"url\":\"URL\"}\n  }}"},
		{"much text", "claude-code", "{\"history\": \"" + strings.Repeat("{[", mostNested) + "\"}",
			"{\n  \"mcpServers\": {\n    \"gatehouse\": {\"type\":\"http\",\"url\":\"URL\"}\n  },\"history\": \"" +
				strings.Repeat("{[", mostNested) + "\"}"},
		{"TOML", "codex", "model = \"o\"\n\n[mcp_servers.docs]\ncommand = \"x\" # mine\n",
			"model = \"o\"\n\n[mcp_servers.docs]\ncommand = \"x\" # mine\n\n[mcp_servers.gatehouse]\nurl = \"URL\"\n"},
		{"an empty file, TOML", "codex", "", "[mcp_servers.gatehouse]\nurl = \"URL\"\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := client(t, tt.client)
			entry := c.Entry(gatewayURL, "/bin/gatehouse")
			after, err := c.Set(tt.before, "gatehouse", entry)
			if want := strings.ReplaceAll(tt.after, "URL", gatewayURL); err != nil || after != want {
				t.Fatalf("%v\n%s\nwant\n%s", err, after, want)
			}
			if got, err := c.Get(after, "gatehouse"); err != nil || got != canonical(t, entry) {
				t.Errorf("%s %v", got, err)
			}
			if again, err := c.Set(after, "gatehouse", entry); err != nil || again != after {
				t.Errorf("again: %v\n%s", err, again)
			}
			moved := c.Entry("https://b.example/mcp", "/bin/gatehouse")
			if other, err := c.Set(after, "gatehouse", moved); err != nil ||
				other != strings.ReplaceAll(after, gatewayURL, "https://b.example/mcp") {
				t.Errorf("another URL: %v\n%s", err, other)
			}
			back, err := c.Set(after, "gatehouse", "")
			made := !strings.Contains(tt.before, c.Key+`": {`) && !c.inTOML() // braces stay
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
		{"cursor", "{\"mcpServers\": {\"b\": {}, \"gatehouse\": {\"url\": \"x\"},}}", "{\"mcpServers\": {\"b\": {}}}"},
		{"codex", "[mcp_servers.gatehouse]\nurl = \"x\"\n\n# other\n[mcp_servers.b]\nurl = \"y\"\n",
			"\n# other\n[mcp_servers.b]\nurl = \"y\"\n"},
	} {
		if after, err := client(t, tt.client).Set(tt.before, "gatehouse", ""); err != nil || after != tt.after {
			t.Errorf("%s: %v\n%s\nwant\n%s", tt.client, err, after, tt.after)
		}
	}
}

// TestEditBesideText: what only reads like an entry stays.
func TestEditBesideText(t *testing.T) {
	c := client(t, "codex")
	for _, before := range []string{"# [mcp_servers.gatehouse]\n# url = \"x\"\n",
		"a = \"\"\"\n[mcp_servers.gatehouse]\nx\n\"\"\"\n"} {
		after, err := c.Set(before, "gatehouse", c.Entry(gatewayURL, "x"))
		if err != nil || !strings.HasPrefix(after, before) {
			t.Errorf("%v\n%s", err, after)
		}
		if again, err := c.Set(after, "gatehouse", ""); err != nil || strings.TrimRight(again, "\n")+"\n" != before {
			t.Errorf("%v\n%s", err, again)
		}
	}
}

// TestWrote: an entry of a gateway is one whatever its URL and program, and one with anything else is not.
func TestWrote(t *testing.T) {
	for _, c := range (Machine{}).Clients() {
		text, err := c.Set("", "a", c.Entry("https://b.example/\"mcp", "/opt/x y"))
		if err != nil {
			t.Fatal(err)
		}
		entry, err := c.Get(text, "a")
		if err != nil || !c.Wrote(entry) {
			t.Errorf("%s: %v %s", c.ID, err, entry)
		}
		if more := strings.TrimSuffix(entry, "}") + `,"headers":{"A":"b"}}`; c.Wrote(more) || c.Wrote("") {
			t.Errorf("%s: %s", c.ID, more)
		}
	}
}

// TestEditRefuses: a file that no edit of its text can serve is refused, without its content.
func TestEditRefuses(t *testing.T) {
	for _, tt := range []struct{ client, text, want string }{
		{"cursor", "{\n  \"a\": \"secret-value\"\n  \"b\": 1}", "line 3: this is not JSON"},
		{"cursor", strings.Repeat("[", mostNested+1), "this JSON is nested too deep"},
		{"cursor", "[]", "it is no object of JSON"},
		{"cursor", `{"mcpServers": ["secret-value"]}`, "mcpServers is not an object with servers"},
		{"cursor", `{"mcpServers": {}, "mcpServers": null}`, ErrByHand.Error()},
		{"codex", "a = \"secret-value\nb = 1\n", "line 1: this is not TOML"},
		{"codex", "mcp_servers = { a = { url = \"secret-value\" } }\n", ErrByHand.Error()},
		{"codex", "mcp_servers.a.url = \"secret-value\"\n", ErrByHand.Error()},
		{"codex", "[mcp_servers]\ngatehouse = { url = \"secret-value\" }\n", ErrByHand.Error()},
		{"codex", strings.Replace("a = \"\"\"\nTABLE\"\"\"\nTABLE", "TABLE", "[mcp_servers.gatehouse]\nurl = \"x\"\n", 2),
			ErrByHand.Error()},
		{"codex", "[mcp_servers.gatehouse]\nhttp_headers = {A = \"secret-value\"}\n", ErrByHand.Error()},
		{"codex", "mcp_servers.gatehouse.url = \"secret-value\"\n", ErrByHand.Error()},
		{"cursor", "null", "it is no object of JSON"},
		{"cursor", `{"mcpServers": "secret-value", "mcpServers": {}}`, ErrByHand.Error()},
	} {
		c := client(t, tt.client)
		if _, err := c.Set(tt.text, "gatehouse", c.Entry(gatewayURL, "x")); err == nil ||
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
	after, err := c.Set(before, "gatehouse", c.Entry(gatewayURL, ""))
	if err != nil {
		t.Fatal(err)
	}
	if got := Diff(before, after); got != "@@ -1,5 +1,6 @@\n+    \"gatehouse\": {\"url\":\""+gatewayURL+"\"},\n" {
		t.Error(got)
	}
	if got := Diff("", "\"--api-key\",\n\"secret-value\",\n\"b\"\n"); !strings.Contains(got, "+<secret>\n+\"b\"\n") {
		t.Errorf("what follows the secret:\n%s", got)
	}
	for _, one := range []string{`{"headers": {"Authorization": "secret-value"}}`, `'Api-Key' = "secret-value"`,
		`{"args": ["-y", "--api-key", "secret-value"]}`, `{"args": ["--api-key=secret-value"]}`,
		`{"args": ["postgres://u:secret-value@db/x"]}`, "[\"--api-key\",\n\"secret-value\",\n\"b\"]",
		`token = "secret-value"`, `{"A_KEY" : "secret-value"}`} {
		if got := Diff(one+"\n", ""); strings.Contains(got, "secret-value") || !strings.Contains(got, "<secret>\n") {
			t.Errorf("%s:\n%s", one, got)
		}
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
			if !json.Valid([]byte(c.Entry(`https://x.example/"&`, `C:\a\gatehouse.exe`))) {
				t.Errorf("%s", c.Form)
			}
		}
		for id, file := range map[string]map[string]string{
			"linux":   {"zed": "/h/settings/zed/settings.json"},
			"darwin":  {"zed": "/h/.config/zed/settings.json", "opencode": "/h/.config/opencode/opencode.jsonc"},
			"windows": {"zed": "/h/settings/Zed/settings.json"},
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
	f.Fuzz(func(t *testing.T, id, text string) {
		for _, c := range (Machine{Home: "/h", Config: "/c"}).Clients() {
			if c.ID != id {
				continue
			}
			entry := c.Entry(gatewayURL, "x")
			after, err := c.Set(text, "gatehouse", entry)
			if err != nil {
				continue
			}
			if got, err := c.Get(after, "gatehouse"); err != nil || got != canonical(t, entry) {
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
