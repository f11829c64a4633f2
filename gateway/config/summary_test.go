package config

import (
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestPackageRunners: the summary names the package of a program that fetches what it runs,
// and says that fetching takes time. Other arguments of programs may be secret.
func TestPackageRunners(t *testing.T) {
	for _, tt := range []struct {
		command []string
		target  string
		hint    bool
	}{
		{[]string{"npx", "-y", "@example/server", "--token", "hunter2"}, "npx @example/server", true},
		{[]string{"/usr/bin/uvx", "server-git"}, "/usr/bin/uvx server-git", true},
		{[]string{"npx", "-y"}, "npx", false},
		{[]string{"server", "hunter2"}, "server", false},
	} {
		u := upstream.Config{Name: "a", Command: tt.command}
		if got := (Config{}).Target(u); got != tt.target {
			t.Errorf("%q is shown as %q, want %q", tt.command, got, tt.target)
		}
		if got := Late(u); strings.Contains(got, "fetching") != tt.hint {
			t.Errorf("%q is late: %q", tt.command, got)
		}
	}
}

// TestTarget: what is shown of where a server is has no secret.
func TestTarget(t *testing.T) {
	for at, want := range map[string]string{
		"https://a.example/mcp?key=x":                                  "https://a.example/mcp",
		"https://a.example/api/s/NjE4aB3xYz90QmR2dEx1V2c0/mcp":         "https://a.example/…",
		"https://a.example/s/3f2b8c1e-5d6a-4b7c-8d9e-0f1a2b3c4d5e/mcp": "https://a.example/…",
		"https://a.example/s/x7k2m9q4w1z8/mcp":                         "https://a.example/…",
		"https://a.example:8443/my-org/v2/mcp":                         "https://a.example:8443/my-org/v2/mcp",
	} {
		if got := (Config{}).Target(upstream.Config{URL: at}); got != want {
			t.Errorf("%s: %s", at, got)
		}
	}
}

// TestTargetOfReferences: what references stand for is not shown, whatever it looks like.
func TestTargetOfReferences(t *testing.T) {
	const text = `
upstreams:
  - {name: a, url: "https://a.example/s/${env:SECRET}/mcp"}
  - {name: b, url: "${env:URL}"}
  - {name: c, command: [npx, -y, "${env:SECRET}"]}
  - {name: d, url: "https://a.example/s/x7k2m9q4w1z8/${env:SECRET}"}
`
	env := func(name string) (string, bool) {
		return map[string]string{"SECRET": "hunter", "URL": "https://b.example/hunter"}[name], true
	}
	l, err := ReadText("c.yaml", []byte(text), nil, env)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"https://a.example/s/${env:SECRET}/mcp", "${env:URL}", "npx ${env:SECRET}", "https://a.example/…"}
	for i, s := range l.Config.Summary().Servers {
		if s.Target != want[i] {
			t.Errorf("%s, want %s", s.Target, want[i])
		}
	}
}
