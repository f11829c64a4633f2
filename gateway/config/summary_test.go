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
		if got := TargetOf(u); got != tt.target {
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
		"https://a.example/mcp?key=x": "https://a.example/mcp", "https://a.example/api/s/NjE4aB3xYz90QmR2dEx1V2c0/mcp": "https://a.example/…",
	} {
		if got := TargetOf(upstream.Config{URL: at}); got != want {
			t.Errorf("%s: %s", at, got)
		}
	}
}
