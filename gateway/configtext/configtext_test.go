package configtext

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

type server struct {
	Name    string                `yaml:"name"`
	URL     string                `yaml:"url" secret:"path"`
	Command []string              `yaml:"command"`
	Env     map[string]mcp.Secret `yaml:"env"`
	Token   mcp.Secret            `yaml:"token"`
	When    string                `yaml:"when"`
	Timeout struct {
		Call time.Duration `yaml:"call"`
	} `yaml:"timeout"`
	Limits struct {
		ResultBytes int64 `yaml:"result_bytes"`
	} `yaml:"limits"`
}

type shape struct {
	Listen  string     `yaml:"listen"`
	Key     mcp.Secret `yaml:"key"`
	KeyFile string     `yaml:"key_file"`
	Servers []server   `yaml:"servers"`
	Shared  *bool      `yaml:"shared"`
	Redis   mcp.Secret `yaml:"redis" secret:"user"`
	Issuer  string     `yaml:"issuer"`
}

func TestMasked(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"plain", "listen: 127.0.0.1:1\nkey_file: /etc/key\n", ""},
		{"references", "key: ${env:KEY}\nservers:\n- token: \"Bearer ${file:/run/token}\"\n", ""},
		{"a secret", "key: hunter2 # of old\nlisten: a\n", "key: <secret> # of old\nlisten: a\n"},
		{"repeated in a comment", "# was hunter2\nkey: hunter2\n", "# was <secret>\nkey: <secret>\n"},
		{"in quotes", "key: \"a\\\"b\"\nservers: [{token: 'it''s', name: b}]\n",
			"key: <secret>\nservers: [{token: <secret>, name: b}]\n"},
		{"on lines", "key: |\n  one\n  two\n\nlisten: a\n", "key: <secret>\n\nlisten: a\n"},
		{"behind letters", "servers: [{name: \"é→\", token: abc}]\n", "servers: [{name: \"é→\", token: <secret>}]\n"},
		{"named values", "servers:\n" +
			"- env:\n" +
			"    LOG_LEVEL: info # public\n" +
			"    PORT: 8080\n" +
			"    NOTE: abc\n" +
			"    API_KEY: abc\n" +
			"    DB: postgres://u:pw@db/x\n",
			"servers:\n" +
				"- env:\n" +
				"    LOG_LEVEL: info # public\n" +
				"    PORT: 8080\n" +
				"    NOTE: <secret>\n" +
				"    API_KEY: <secret>\n" +
				"    DB: <secret>\n"},
		{"arguments", "servers:\n- command: [run, --token, abc, --verbose, --key=abcdef, x]\n",
			"servers:\n- command: [run, --token, <secret>, --verbose, <secret>, x]\n"},
		{"arguments behind flags", "servers:\n" +
			"- command: [npx, -y, \"@a/b\", --workspace, hunter2, --port, 80, --dir=/srv, --org=acme]\n",
			"servers:\n" +
				"- command: [npx, -y, \"@a/b\", --workspace, <secret>, --port, 80, --dir=/srv, <secret>]\n"},
		{"arguments that are public", "servers:\n" +
			"- command: [run, --org, acme, --token, abc] # public\n",
			"servers:\n" +
				"- command: [run, --org, acme, --token, <secret>] # public\n"},
		{"names of variables", "servers:\n" +
			"- command: [docker, run, -i, --rm, -e, API_KEY, -e, A=b, ghcr.io/a/b]\n",
			"servers:\n" +
				"- command: [docker, run, -i, --rm, -e, API_KEY, -e, <secret>, ghcr.io/a/b]\n"},
		{"paths of URLs", "servers:\n" +
			"- url: https://a.example/s/3f2b8c1e-5d6a-4b7c-8d9e-0f1a2b3c4d5e/mcp\n" +
			"- url: https://a.example/s/x7k2m9q4w1z8/mcp\n" +
			"- url: https://a.example/my-org/v2/mcp?view=all\n" +
			"- url: https://a.example/mcp?p=x7k2m9q4w1z8\n" +
			"- url: https://a.example/orgs/x7k2m9q4/mcp # public\n",
			"servers:\n" +
				"- url: <secret>\n" +
				"- url: <secret>\n" +
				"- url: https://a.example/my-org/v2/mcp?view=all\n" +
				"- url: <secret>\n" +
				"- url: https://a.example/orgs/x7k2m9q4/mcp # public\n"},
		{"references in URLs", "servers:\n- url: https://a.example/s/${env:KEY}/mcp?key=${env:K}\n", ""},
		{"a tenant", "issuer: https://login.example.com/3f2b8c1e-5d6a-4b7c-8d9e-0f1a2b3c4d5e/v2.0\n", ""},
		{"an address without a password", "redis: rediss://gate@redis.example:6380/0\n", ""},
		{"a password by reference", "redis: \"redis://:${env:REDIS_PASSWORD}@redis.example/0\"\n", ""},
		{"a password", "redis: redis://:hunter2@redis.example/0\n", "redis: <secret>\n"},
		{"a URL", "servers: [{url: \"https://a.example/mcp?api_key=abc\"}, {url: \"https://a.example/mcp?tools=all\"}]\n",
			"servers: [{url: <secret>}, {url: \"https://a.example/mcp?tools=all\"}]\n"},
		{"an unknown key", "tokn: x\nclient_secret: abc\nshred: true\nlisen: ${env:L}\n",
			"tokn: <secret>\nclient_secret: <secret>\nshred: true\nlisen: ${env:L}\n"},
		{"an unknown section", "servrs: [{name: crm, tokn: x, token: y}]\n",
			"servrs: [{name: crm, tokn: x, token: <secret>}]\n"},
		{"a known form", "listen: ghp_0123456789abcdefghijABCDEFGHIJ\n", "listen: <secret>\n"},
		{"a key that is commented out", "# token: abc123def456\n# the token: required here\nlisten: a\n",
			"# token: <secret>\n# the token: required here\nlisten: a\n"},
		{"a condition", "servers: [{when: \"args.token == caller.user\"}]\n", ""},
		{"only comments", "# nothing\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := tt.want
			if want == "" {
				want = tt.text
			}
			got, err := Masked([]byte(tt.text), reflect.TypeFor[shape]())
			if err != nil || got != want {
				t.Errorf("%v\n%s\nwant\n%s", err, got, want)
			}
		})
	}
	for _, text := range []string{"key: [", "key: \"abc", "key: folded\n  over lines\n", "\tkey: x"} {
		if got, err := Masked([]byte(text), reflect.TypeFor[shape]()); !errors.Is(err, ErrNotShown) || got != "" {
			t.Errorf("%q: %q %v", text, got, err)
		}
	}
}

// FuzzMasked: nothing of a secret is left, whatever stands around it.
func FuzzMasked(f *testing.F) {
	f.Add("key: ", "\nlisten: a\n")
	f.Add("servers:\n- token: \"", "\" # c\n")
	f.Add("key: |\n  ", "\n")
	f.Add("? ", "0")
	f.Add("!", " ")
	f.Fuzz(func(t *testing.T, before, after string) {
		const secret = "ghp_0123456789abcdefghijABCDEFGHIJ"
		got, err := Masked([]byte(before+secret+after), reflect.TypeFor[shape]())
		if err == nil && strings.Contains(got, secret) &&
			!strings.ContainsAny(before[max(0, len(before)-1):]+after[:min(1, len(after))],
				"_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
			t.Errorf("%q", got)
		}
	})
}

func TestSecretValue(t *testing.T) {
	for text, want := range map[string]bool{
		"info": false, "@modelcontextprotocol/server-filesystem@2026.1.2": false,
		"3f2504e0-4f89-11d3-9a0c-0305e82c3301": false,
		"/home/User1/projects/Some-Long-Path2": false, "https://login.example.com": false, "tools:crm/delete_*": false,
		"Bearer abcdefgh": true, "d41d8cd98f00b204e9800998ecf8427e": true, "q8Jf2mVx0LrT7bYc9ZsA4nWe": true,
		"https://a.example/api/s/NjE4aB3xYz90QmR2dEx1V2c0/mcp":       true,
		"https://dev-1.okta.com/oauth2/aus1a2b3c4D5E6f7G8h9":         false,
		"https://a.example/3f2b8c1e-5d6a-4b7c-8d9e-0f1a2b3c4d5e/mcp": false, "https://u:p@a.example": true,
		"--api-key=abcdef": true, "Server=a;Password=abcdef": true, "--header=X-Key: abcdef": true,
	} {
		if SecretValue(text) != want {
			t.Errorf("%q: want %t", text, want)
		}
	}
}

func TestEffective(t *testing.T) {
	yes := true
	cfg := shape{Listen: "127.0.0.1:8080", Key: "k", Shared: &yes,
		Servers: []server{{Name: "crm", Token: "t", Command: []string{"x"}}}}
	cfg.Servers[0].Timeout.Call = time.Hour
	cfg.Servers[0].Limits.ResultBytes = 16 << 20
	got, err := Effective("# ours\nkey: <secret>\nservers: [{name: crm, token: \"${env:T}\"}]\nnames: [a, b]\n", cfg)
	const want = `key: <secret>
servers:
  - name: crm
    token: "${env:T}"
    command:
      - x # default
    timeout:
      call: 1h # default
    limits:
      result_bytes: 16MiB # default
names: [a, b]
listen: 127.0.0.1:8080 # default
shared: true # default
`
	if err != nil || got != want {
		t.Errorf("%v\n%s", err, got)
	}
}

func TestDiff(t *testing.T) {
	if got := Diff("a\nb\nc\n", "a\nB\nc\n"); got != "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n" {
		t.Errorf("%s", got)
	}
	if got := Diff("a\n", "a\n"); got != "" {
		t.Errorf("%s", got)
	}
	if got := Diff("", strings.Repeat("é\n", 1<<16)); len(got) > mostDiff+100 || !strings.Contains(got, "cut here") {
		t.Errorf("%d bytes", len(got))
	}
}

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "c.yaml"), filepath.Join(dir, "link.yaml")
	for _, err := range []error{os.WriteFile(path, []byte("old"), 0o640), os.Symlink(path, link)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	refused := errors.New("not now")
	if err := Replace(link, []byte("new"), func() error { return refused }); !errors.Is(err, refused) {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(path); string(text) != "old" {
		t.Fatalf("%s", text)
	}
	if err := Replace(link, []byte("new"), func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(path)
	info, err := os.Stat(path)
	if string(text) != "new" || err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%s %v %v", text, info.Mode(), err)
	}
	if to, err := os.Readlink(link); err != nil || to != path {
		t.Errorf("%s %v", to, err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 2 {
		t.Errorf("%v", left)
	}
}

func TestFindMask(t *testing.T) {
	if line, column := FindMask([]byte("a: b\nkey: <secret>\n")); line != 2 || column != 6 {
		t.Errorf("%d:%d", line, column)
	}
	if line, _ := FindMask([]byte("a: b\n")); line != 0 {
		t.Errorf("%d", line)
	}
}

func TestAppend(t *testing.T) {
	const items = "  - name: b\n    url: x\n"
	for _, tt := range []struct{ name, text, want string }{
		{"at the end", "servers:\n- name: a\n  env: {A: b}", "servers:\n- name: a\n  env: {A: b}\n- name: b\n  url: x\n"},
		{"in the middle", "servers:\n  # one\n  - name: a\n    # its end\n\n# next\nlisten: x\n",
			"servers:\n  # one\n  - name: a\n    # its end\n  - name: b\n    url: x\n\n# next\nlisten: x\n"},
		{"in one line", "servers: [{name: a}]\n", ""},
		{"none", "listen: a\n", ""},
		{"no YAML", "servers: [", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, ok := Append(tt.text, "servers", items); got != tt.want || ok != (tt.want != "") {
				t.Errorf("%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestReferences(t *testing.T) {
	text := []byte("servers:\n- {a: x}\n- {b: \"${env:A}-${file:/b}\", c: [\"$${env:C}\"]}\n")
	if got := References(text, "servers", 1); !reflect.DeepEqual(got, []string{"env:A", "file:/b"}) {
		t.Errorf("%v", got)
	}
	if got := References(text, "servers", 0); got != nil {
		t.Errorf("%v", got)
	}
}
