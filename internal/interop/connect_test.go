//go:build interop

package interop

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
)

// TestConnect: clients that have made their own files read what gatehouse connect writes into them, and get them back
// byte for byte.
func TestConnect(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), installLimit)
	defer cancel()
	checkout, err := rig.FindCheckout()
	if err != nil {
		t.Fatal(err)
	}
	hosts, err := checkout.InstallNode(ctx, "hosts", checkout.Path("internal", "interop", "hosts"))
	if err != nil {
		t.Fatal(err)
	}
	gatehouse, err := checkout.Build(ctx, "./cmd/gatehouse")
	if err != nil {
		t.Fatal(err)
	}
	gateway, err := rig.StartGateway(ctx, rig.GatewayConfig{Binary: gatehouse, Dir: t.TempDir(),
		Sections: fmt.Sprintf("upstreams: [{name: handbook, command: [%q, demo-handbook]}]\n", gatehouse)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := gateway.Stop(); err != nil {
			t.Error(err)
		}
	})
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, ".config"), 0o700); err != nil {
		t.Fatal(err)
	}
	// The packages' install scripts, which put the first of these programs in place, do not run.
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	native := map[string]string{
		"claude":   hosts.Module("@anthropic-ai", "claude-code-linux-"+arch, "claude"),
		"cline":    hosts.Module("@cline", "cli-linux-x64", "bin", "cline"),
		"copilot":  hosts.Module("@github", "copilot-linux-x64", "copilot"),
		"opencode": hosts.Module("opencode-linux-x64", "bin", "opencode"),
	}
	run := func(program string, args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
		defer cancel()
		switch {
		case program == "gemini" || program == "codex":
			args = append([]string{hosts.Module(".bin", program)}, args...)
			program = hosts.Binary
		case native[program] != "":
			program = native[program]
		}
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Dir = home
		cmd.Env = []string{"HOME=" + home, "PATH=/usr/bin:/bin", "DISABLE_AUTOUPDATER=1",
			"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "GEMINI_CLI_TRUST_WORKSPACE=true"}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", program, args, err, out)
		}
		return string(out)
	}
	const other = "http://127.0.0.1:1/mcp"
	run("claude", "mcp", "add", "--transport", "http", "--scope", "user", "other", other)
	run("gemini", "mcp", "add", "--transport", "http", "--scope", "user", "other", other)
	run("codex", "mcp", "add", "other", "--url", other)
	files := map[string]string{".claude.json": "", ".gemini/settings.json": "", ".codex/config.toml": ""}
	const clineFile = ".cline/data/settings/cline_mcp_settings.json"
	if arch == "x64" { // the only one for which all of these are in package.json
		run("cline", "mcp", "add", "other", other, "--transport", "http", "--yes")
		run("copilot", "mcp", "add", "--transport", "http", "other", other)
		run("opencode", "mcp", "add", "other", "--url", other)
		files[clineFile], files[".copilot/mcp-config.json"], files[".config/opencode/opencode.jsonc"] = "", "", ""
	}
	for name := range files {
		files[name] = contentsOf(t, filepath.Join(home, name))
	}

	run(gatehouse, "connect", gateway.URL, "--yes", "--client", "claude-desktop")
	run(gatehouse, "connect", gateway.URL, "--yes")
	run(gatehouse, "connect", gateway.URL, "--undo", "--yes")
	for name, before := range files {
		if got := contentsOf(t, filepath.Join(home, name)); got != before {
			t.Errorf("%s is not as before:\n%s\nwas\n%s", name, got, before)
		}
	}
	desktop := filepath.Join(home, ".config", "Claude", "claude_desktop_config.json")
	if _, err := os.Stat(desktop); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file of Claude Desktop is still there: %v", err)
	}

	run(gatehouse, "connect", gateway.URL, "--yes")
	run("claude", "mcp", "add", "--scope", "user", "bridged", "--", gatehouse, "connect", "--stdio", gateway.URL)
	type listed struct {
		list string
		want []string
	}
	lists := []listed{
		{run("claude", "mcp", "list"), []string{"gatehouse: " + gateway.URL + " (HTTP) - ✔ Connected", "other: " + other,
			"bridged: " + gatehouse + " connect --stdio " + gateway.URL + " - ✔ Connected"}},
		{run("gemini", "mcp", "list"), []string{"gatehouse: " + gateway.URL + " (http) - Connected", "other: " + other}},
		{run("codex", "mcp", "list"), []string{gateway.URL, other}},
	}
	if arch == "x64" {
		run("cline", "mcp", "add", "third", other, "--transport", "http", "--yes") // it reads and writes all again
		lists = append(lists, listed{contentsOf(t, filepath.Join(home, clineFile)), []string{gateway.URL, `"third"`}},
			listed{run("copilot", "mcp", "get", "gatehouse"), []string{"Status: Enabled", "URL: " + gateway.URL}},
			listed{run("opencode", "mcp", "list"), []string{"✓ gatehouse", "✗ other"}})
	}
	for _, tt := range lists {
		for _, want := range tt.want {
			if !strings.Contains(tt.list, want) {
				t.Errorf("no %q in\n%s", want, tt.list)
			}
		}
	}
}

func contentsOf(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
