package setup

import (
	"errors"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/internal/strictyaml"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// configuration is as much of it as a draft writes.
type configuration struct {
	Listen string      `yaml:"listen"`
	Auth   auth.Config `yaml:"auth"`
	Admin  struct {
		Listen string `yaml:"listen"`
		API    struct {
			Loopback string `yaml:"loopback"`
		} `yaml:"api"`
		Console struct {
			Loopback string `yaml:"loopback"`
		} `yaml:"console"`
	} `yaml:"admin"`
	Upstreams []upstream.Config `yaml:"upstreams"`
}

// read makes a draft of one text.
func read(text, dir string) (*Draft, error) {
	d := &Draft{}
	return d, d.Read(text, dir)
}

// decoded reads the text of a draft as the gateway does.
func decoded(t *testing.T, d *Draft) (text string, cfg configuration) {
	t.Helper()
	text, err := d.Config()
	if err != nil {
		t.Fatal(err)
	}
	set := func(string) (string, bool) { return "set", true }
	if p := strictyaml.Decode(strictyaml.Source{Data: []byte(text), Env: set}, &cfg).Problems(); len(p) > 0 {
		t.Fatalf("%v\n%s", p, text)
	}
	return text, cfg
}

func TestRead(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       string   // the items, without their indentation
		variables  string   // their names
		notes      []string // parts of them, one each
	}{
		{"Claude Desktop", `{"mcpServers": {"filesystem": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/Users/a b"]},
			"github": {"command": "docker", "args": ["run", "-i", "--rm", "-e", "GITHUB_PERSONAL_ACCESS_TOKEN", "ghcr.io/github/github-mcp-server"], "env": {"GITHUB_PERSONAL_ACCESS_TOKEN": "ghp_secret", "LOG": "debug"}}}}`, `
- name: filesystem
  command: [npx, -y, '@modelcontextprotocol/server-filesystem', /Users/a b]
- name: github
  command: [docker, run, -i, --rm, -e, GITHUB_PERSONAL_ACCESS_TOKEN, ghcr.io/github/github-mcp-server]
  env:
    GITHUB_PERSONAL_ACCESS_TOKEN: "${env:GITHUB_PERSONAL_ACCESS_TOKEN}"
    LOG: debug
`, "GITHUB_PERSONAL_ACCESS_TOKEN", nil},
		{"Claude Code", `{"numStartups": 3, "projects": {"/a": {"mcpServers": {"crm": {"type": "http", "url": "https://crm.example.com/mcp", "headers": {"Authorization": "Bearer abc123", "X-Team": "sales"}}}},
			"/b": {"mcpServers": {}}}, "mcpServers": {"api": {"type": "http", "url": "${API_BASE:-https://x.example}/mcp", "headers": {"Authorization": "Bearer ${API_KEY}"}}, "wiki": {"type": "sse", "url": "https://wiki.example.com/sse"}}}`, `
- name: api
  url: "https://x.example/mcp"
  headers:
    Authorization: "Bearer ${env:API_KEY}"
- name: wiki
  url: "https://wiki.example.com/sse"
- name: crm
  url: "https://crm.example.com/mcp"
  headers:
    Authorization: "Bearer ${env:CRM_TOKEN}"
    X-Team: sales
`, "API_KEY CRM_TOKEN", []string{"the default of API_BASE is used"}},
		{"VS Code", `{
			// what the user is asked
			"inputs": [{"type": "promptString", "id": "gh-key", "description": "Key of GitHub", "password": true,},],
			"servers": {
				"My Server!": {"type": "http", "url": "https://a.example/mcp", "headers": {"Authorization": "Bearer ${input:gh-key}"}},
				"local": {"command": "node", "args": ["${workspaceFolder}/s.js", "--key=${env:KEY}"], "envFile": ".env", /* so */ "cwd": "${userHome}/x"},
			},
		}`, `
- name: My-Server
  url: "https://a.example/mcp"
  headers:
    Authorization: "Bearer ${env:GH_KEY}"
- name: local
  command: [node, "$${workspaceFolder}/s.js", "--key=${env:KEY}"]
  dir: "${env:HOME}/x"
  enabled: false
`, "GH_KEY KEY HOME", []string{"was called My Server!", "envFile is not taken over", "only the client knows", "is not enabled"}},
		{"Cursor, Windsurf, Gemini, disabled", `{"mcpServers": {"a": {"url": "http://localhost:3000/mcp"}, "b": {"serverUrl": "https://b.example/mcp", "disabled": true, "alwaysAllow": ["x"]}, "d": {"url": "${env:D_URL}"}, "c": {"httpUrl": "https://c.example/mcp", "trust": true}}}`, `
- name: a
  url: "http://localhost:3000/mcp"
- name: b
  url: "https://b.example/mcp"
  enabled: false
- name: d
  url: "${env:D_URL}"
- name: c
  url: "https://c.example/mcp"
`, "D_URL", []string{"alwaysAllow is not taken over: policy", "trust is not taken over"}},
		{"Zed, opencode", `{"context_servers": {"a": {"command": {"path": "srv", "args": ["x"], "env": {"K": "v"}}}}, "mcp": {"b": {"type": "local", "command": ["bun", "x", "b-mcp"], "environment": {"B_TOKEN": "{env:B_TOKEN}"}, "enabled": true}, "c": {"type": "remote", "url": "https://c.example/mcp"}}}`, `
- name: a
  command: [srv, x]
  env:
    K: v
- name: b
  command: [bun, x, b-mcp]
  env:
    B_TOKEN: "${env:B_TOKEN}"
- name: c
  url: "https://c.example/mcp"
`, "B_TOKEN", nil},
		{"Cline", `{"mcpServers": {"a": {"transport": {"type": "streamableHttp", "url": "https://a.example/mcp"}},
			"b": {"transport": {"type": "stdio", "command": "srv", "args": ["x"]}, "disabled": true}}}`, `
- name: a
  url: "https://a.example/mcp"
- name: b
  command: [srv, x]
  enabled: false
`, "", nil},
		{"mcp-remote", `{"mcpServers": {"linear": {"command": "cmd", "args": ["/c", "npx", "-y", "mcp-remote@latest", "https://mcp.linear.app/mcp", "--header", "Authorization:${AUTH}", "--allow-http"], "env": {"AUTH": "Bearer xyz123"}}}}`, `
- name: linear
  url: "https://mcp.linear.app/mcp"
  headers:
    Authorization: "Bearer ${env:LINEAR_TOKEN}"
`, "LINEAR_TOKEN", []string{"mcp-remote is not needed", "--allow-http"}},
		{"mcp-remote without a token", `{"mcpServers": {"linear": {"command": "npx", "args": ["-y", "mcp-remote", "https://mcp.linear.app/mcp"]}}}`, `
- name: linear
  url: "https://mcp.linear.app/mcp"
  auth:
    type: user_oauth
`, "", []string{"mcp-remote is not needed"}},
		{"mcp-remote that is registered by hand", `{"mcpServers": {"a": {"command": "mcp-remote", "args": ["https://a.example/mcp", "--static-oauth-client-metadata", "@info.json"]}}}`, `
- name: a
  command: [mcp-remote, "https://a.example/mcp", --static-oauth-client-metadata, "${env:A_STATIC_OAUTH_CLIENT_METADATA}"]
`, "A_STATIC_OAUTH_CLIENT_METADATA", []string{"mcp-remote stays"}},
		{"secrets in arguments and URLs", `{"mcpServers": {"a": {"command": "srv", "args": ["--api-key", "abc", "--token=def", "postgres://u:pw@db/x", "--verbose", "plain"]}, "b": {"url": "https://u:pw@b.example/mcp?api_key=abc&team=sales"}}}`, `
- name: a
  command: [srv, --api-key, "${env:A_API_KEY}", "--token=${env:A_TOKEN}", "${env:A_ARGUMENT}", --verbose, plain]
- name: b
  url: "https://b.example/mcp?api_key=${env:B_API_KEY}&team=sales"
  headers:
    Authorization: "Basic ${env:B_BASIC}"
`, "A_API_KEY A_TOKEN A_ARGUMENT B_BASIC B_API_KEY", nil},
		{"a secret in a path",
			`{"mcpServers": {"zap": {"url": "https://a.example/api/s/NjE4aB3xYz90QmR2dEx1V2c0/mcp?team=sales"}}}`,
			"\n- name: zap\n  url: \"${env:ZAP_URL}\"\n", "ZAP_URL", nil},
		{"one variable, two values, and one that is not known", `{"mcpServers": {
  "a": {"command": "x", "env": {"API_KEY": "1"}}, "b": {"command": "x", "env": {"API_KEY": "2"}},
  "c": {"command": "x", "env": {"API_KEY": "1"}}, "d": {"command": "x", "env": {"API_KEY": "${API_KEY}"}}}}`, `
- name: a
  command: [x]
  env:
    API_KEY: "${env:API_KEY}"
- name: b
  command: [x]
  env:
    API_KEY: "${env:B_API_KEY}"
- name: c
  command: [x]
  env:
    API_KEY: "${env:API_KEY}"
- name: d
  command: [x]
  env:
    API_KEY: "${env:D_API_KEY}"
`, "API_KEY B_API_KEY D_API_KEY", nil},
		{"names", `{"mcpServers": {"1": {"command": "x"}, "A": {"command": "x"}, "a": {"command": "x"}, "日本": {"command": "x"}, "gatehouse": {"url": "http://127.0.0.1:8080/mcp"}, "Gatehouse": {"command": "x"}, "bad": 3, "none": {}}}`, `
- name: s-1
  command: [x]
- name: A
  command: [x]
- name: a-2
  command: [x]
- name: server
  command: [x]
- name: server-2
  command: [x]
`, "", []string{"was called 1", "was called a", "was called", "gatehouse: is this gateway itself", "was called Gatehouse", "bad: is no object", "none: has neither"}},
		{"one server", `{"command": "uvx", "args": ["mcp-server-time"]}`,
			"\n- name: time\n  command: [uvx, mcp-server-time]\n", "", nil},
		{"servers without what is around them", `"time": {"command": "uvx", "args": ["mcp-server-time"]}`,
			"\n- name: time\n  command: [uvx, mcp-server-time]\n", "", nil},
		{"lines", "# mine\nhttps://mcp.notion.com/mcp\nFOO_TOKEN=abc npx -y \"@a/server-b c\"\n$ claude mcp add --transport http --header 'X-Api-Key: abc' crm https://crm.example.com/mcp\nclaude mcp add files -e A=b -- npx -y files /tmp", `
- name: notion
  url: "https://mcp.notion.com/mcp"
- name: b-c
  command: [npx, -y, '@a/server-b c']
  env:
    FOO_TOKEN: "${env:FOO_TOKEN}"
- name: crm
  url: "https://crm.example.com/mcp"
  headers:
    X-Api-Key: "${env:CRM_X_API_KEY}"
- name: files
  command: [npx, -y, files, /tmp]
  env:
    A: b
`, "FOO_TOKEN CRM_X_API_KEY", nil},
		{"Codex", "model = \"gpt-5\"\n[mcp_servers.docs]\ncommand = \"npx\"\nargs = [\"-y\", \"docs\"]\nenv_vars = [\"LANG\"]\nstartup_timeout_sec = 20\n[mcp_servers.docs.env]\nDOCS_TOKEN = \"abc123\"\n" +
			"[mcp_servers.crm]\nurl = \"https://crm.example.com/mcp\"\nbearer_token_env_var = \"CRM\"\nhttp_headers = {X-Team = \"sales\"}\nenv_http_headers = {X-Org = \"ORG\"}\n", `
- name: crm
  url: "https://crm.example.com/mcp"
  headers:
    Authorization: "Bearer ${env:CRM}"
    X-Org: "${env:ORG}"
    X-Team: sales
- name: docs
  command: [npx, -y, docs]
  env:
    DOCS_TOKEN: "${env:DOCS_TOKEN}"
    LANG: "${env:LANG}"
`, "CRM ORG DOCS_TOKEN LANG", []string{"startup_timeout_sec is not taken over"}},
		{"a token without a scheme", `{"url": "https://a.example/mcp", "headers": {"Authorization": "abc123"}}`, `
- name: a
  url: "https://a.example/mcp"
  headers:
    Authorization: "${env:A_TOKEN}"
`, "A_TOKEN", nil},
		{"a comment before", "// ours\n/* all */ {\"servers\": {\"a\": {\"url\": \"https://a.example/mcp\"}}}",
			"\n- name: a\n  url: \"https://a.example/mcp\"\n", "", nil},
		{"a fence", "```json\n{\"servers\": {\"a\": {\"url\": \"https://a.example/mcp\"}}}\n```\nand more",
			"\n- name: a\n  url: \"https://a.example/mcp\"\n", "", nil},
		{"defaults", `{"command": "srv", "args": ["--host", "${HOST:-localhost}", "--token", "${T:-abc123}", "--key=${K:-xyz123}"], "env": {"A_TOKEN": "${A:-abc123}", "LEVEL": "${L:-info}"}}`, `
- name: srv
  command: [srv, --host, localhost, --token, "${env:T}", "--key=${env:K}"]
  env:
    A_TOKEN: "${env:A}"
    LEVEL: info
`, "T K A", []string{"the default of HOST", "the default of L "}},
		{"http elsewhere", "http://192.168.1.5:9/mcp", "\n- name: local-9\n  url: \"http://192.168.1.5:9/mcp\"\n", "",
			[]string{"allow_plaintext: true"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, err := read(tt.text, "")
			if err != nil {
				t.Fatal(err)
			}
			text, cfg := decoded(t, d)
			_, items, _ := strings.Cut(text, "upstreams:\n")
			if got := "\n" + strings.ReplaceAll(strings.TrimPrefix(items, "  "), "\n  ", "\n"); got != tt.want {
				t.Errorf("%s\nwant%s", got, tt.want)
			}
			for _, u := range cfg.Upstreams {
				if err := u.Validate(); err != nil && u.URL != "set" && tt.name != "http elsewhere" {
					t.Errorf("%s: %v", u.Name, err)
				}
			}
			var variables []string
			for _, v := range d.Variables {
				variables = append(variables, v.Name)
			}
			if got := strings.Join(variables, " "); got != tt.variables {
				t.Errorf("variables %s, want %s", got, tt.variables)
			}
			for i, n := range d.Notes {
				if i >= len(tt.notes) || !strings.Contains(n.Text, tt.notes[i]) {
					t.Errorf("note %d: %+v", i, n)
				}
			}
			if len(d.Notes) < len(tt.notes) {
				t.Errorf("notes: %+v", d.Notes)
			}
			for _, secret := range []string{"ghp_secret", "abc123", "xyz123", "pw@"} {
				if strings.Contains(text, secret) {
					t.Errorf("%s is in the text", secret)
				}
			}
		})
	}
}

func TestReadProblems(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "there is no server in it",
		"{}":                             "there is no server in it",
		`{"mcpServers": {}}`:             "there is no server in it",
		"{\n\"a\": }":                    "line 2: this is not JSON",
		"upstreams:\n- name: a":          "configuration of Gatehouse already",
		"[mcp_servers.a\ncommand='x'":    "line 2: this is not TOML",
		"[]":                             "looks like JSON",
		"[{\"command\": \"x\"}]":         "looks like JSON",
		"mcpServers:\n  a:\n    url: x":  "line 1 looks like YAML",
		"- npx a\n- npx b":               "looks like YAML",
		"npx a\n[servers]\nx = 1":        "line 2 looks like",
		"command = 'npx'":                "TOML or INI",
		"<html>":                         "HTML",
		"cd /srv && npx a":               "is for a shell",
		"Add these servers, please.":     "a sentence",
		"npx a\nUse npx for the others:": "line 2 looks like",
		"npx 'a":                         "quotation mark",
		`{"mcpServers": {"a": {}}}`:      "a: has neither a url nor a command",
		strings.Repeat("x", MostBytes+1): "more than",
	} {
		if _, err := read(text, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
}

// TestReadProjects: only the servers of the directory are taken where a file has them for many.
func TestReadProjects(t *testing.T) {
	const text = `{"mcpServers": {"all": {"command": "x"}}, "projects": {"/p": {"mcpServers": {"here": {"command": "y"}}}, "/q": {"mcpServers": {"there": {"command": "z"}}}, "/r": {}}}`
	for dir, want := range map[string]int{"/p": 2, "/p/sub": 2, "/pp": 1, "": 3, "/": 1} {
		d, err := read(text, dir)
		if err != nil || len(d.Servers) != want || (len(d.Notes) == 1) != (dir != "") {
			t.Errorf("%s: %v, %+v", dir, err, d)
		}
	}
}

// TestDefaultsAreTried: a default that is a secret is known where servers are tried.
func TestDefaultsAreTried(t *testing.T) {
	d, err := read(`{"command": "srv", "args": ["--token", "${T:-abc123}"]}`, "")
	if err != nil || d.Values()["T"] != "abc123" {
		t.Errorf("%v %+v", err, d)
	}
}

// TestReadSeveral: a server that is there already is left out, and one of the same name gets another one.
func TestReadSeveral(t *testing.T) {
	d := &Draft{}
	for _, text := range []string{`{"mcpServers": {"a": {"command": "x"}, "b": {"url": "https://b.example"}}}`,
		`{"servers": {"a": {"command": "y", "env": {"TOKEN": "secret-value"}}, "c": {"url": "https://b.example"}}}`,
		"https://b.example"} {
		if err := d.Read(text, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Read("{}", ""); !errors.Is(err, ErrNothing) {
		t.Error(err)
	}
	d.Avoid([]string{"B", "z"})
	if len(d.Servers) != 3 || d.Servers[0].Name != "a" || d.Servers[1].Name != "b-2" || d.Servers[2].Name != "a-2" ||
		d.Values()["TOKEN"] != "secret-value" {
		t.Errorf("%+v", d)
	}
}

// TestReadSeveralVariables: two files have one variable with two values, and each server gets its own.
func TestReadSeveralVariables(t *testing.T) {
	all := &Draft{}
	for _, value := range []string{"first", "it's $econd", "first"} {
		text := `{"mcpServers": {"a": {"command": "x` + value[:2] + `", "env": {"API_KEY": "` + value + `"}}}}`
		if err := all.Read(text, ""); err != nil {
			t.Fatal(err)
		}
	}
	if values := all.Values(); len(all.Servers) != 2 || len(values) != 2 || values["API_KEY"] != "first" ||
		values["A_2_API_KEY"] != "it's $econd" {
		t.Errorf("%+v", all)
	}
	if got := all.Servers[1].Env[0].Value; got != "${env:A_2_API_KEY}" {
		t.Error(got)
	}
	if got := all.Environment(); !strings.HasSuffix(got, "\nAPI_KEY=first\nA_2_API_KEY=\"it's \\$econd\"\n") {
		t.Error(got)
	}
}

func TestSnippets(t *testing.T) {
	for _, s := range Snippets("http://127.0.0.1:8080/mcp?a=1&b=2") {
		if !strings.Contains(s.Text, "http://127.0.0.1:8080/mcp?a=1&b=2") {
			t.Errorf("%+v", s)
		}
		if strings.HasPrefix(s.Text, "{") {
			if d, err := read(s.Text, ""); err == nil {
				t.Errorf("%s: the gateway would be one of its own servers: %+v", s.Client, d.Servers)
			}
		}
	}
}

// FuzzRead: whatever is pasted, the text that comes out is a configuration without problems of its
// form, and nothing that is called a token is in it.
func FuzzRead(f *testing.F) {
	f.Add(`{"mcpServers": {"a": {"command": "npx", "args": ["-y", "x"], "env": {"TOKEN": "v"}, "cwd": "/x"}}}`)
	f.Add(`{"servers": {"a": {"url": "https://u:p@a.example/${x}?k=${input:b}", "headers": {"A": "${env:B}"}}}, "inputs": [{"id": "b"}]} // c`)
	f.Add("claude mcp add a -- npx 'x y'\nhttps://b.example/\n")
	f.Add(`{"mcp": {"a": {"command": ["x", "$${", "\u0000\u202e"]}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := read(text, "")
		if err != nil {
			return
		}
		_, cfg := decoded(t, d)
		if len(cfg.Upstreams) != len(d.Servers) {
			t.Fatalf("%d servers, %d in the text", len(d.Servers), len(cfg.Upstreams))
		}
	})
}
