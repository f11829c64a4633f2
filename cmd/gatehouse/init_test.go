package main

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// initialise runs the command, as a user whose home is home.
func initialise(t *testing.T, home, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, ".config"))
	t.Chdir(home)
	var out, errs bytes.Buffer
	code = run(append([]string{"init"}, args...), strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

// TestInitSignIn: a server behind mcp-remote, or without a token, gets auth.type user_oauth if it wants its
// user to sign in, and only then.
func TestInitSignIn(t *testing.T) {
	guarded := mcptest.NewAccounts(nil)
	defer guarded.Close()
	free := mcptest.NewServer(wire.Lookup("2025-11-25"))
	free.Tools("a")
	open := httptest.NewServer(free)
	defer open.Close()
	home := t.TempDir()
	file := filepath.Join(home, "mcp.json")
	text := fmt.Sprintf(`{"mcpServers": {"remote": {"command": "npx", "args": ["mcp-remote", %q]}, "plain": {"url": "%s?x"}, "free": {"command": "mcp-remote", "args": [%q]}}}`, guarded.URL, guarded.URL, open.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := initialise(t, home, "", "--from", file)
	cfg, _, err := config.Load("gatehouse.yaml")
	if code != 0 || err != nil || len(cfg.Upstreams) != 3 {
		t.Fatalf("%d %v %s %s", code, err, stdout, stderr)
	}
	for i, want := range []string{"user_oauth", "user_oauth", ""} {
		if got := cfg.Upstreams[i].Auth.Type; got != want {
			t.Errorf("%s: %q, want %q", cfg.Upstreams[i].Name, got, want)
		}
	}
	if !strings.Contains(stdout,
		"remote: you sign in there\n  note: when the gateway runs, open http://127.0.0.1:8080/account") ||
		strings.Contains(stdout, "cannot be used") {
		t.Error(stdout)
	}
}

func TestInit(t *testing.T) {
	home := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(home, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if code, _, stderr := initialise(t, home, ""); code != exitProblem ||
		!strings.Contains(stderr, "no servers were found") {
		t.Errorf("nothing there: %d %s", code, stderr)
	}
	write(".cursor/mcp.json",
		`{"mcpServers": {"crm": {"url": "http://127.0.0.1:1/mcp", "headers": {"Authorization": "Bearer secret-value"}}}}`)
	write(".codeium/windsurf/mcp_config.json", `{"mcpServers": {`)
	write(".config/Code/User/mcp.json", `{"servers": {"files": {"command": "/no/such/program"}}}`)
	code, stdout, stderr := initialise(t, home, "\nn\n")
	if code != 0 {
		t.Fatalf("%d %s %s", code, stdout, stderr)
	}
	for _, want := range []string{
		"Cursor (" + home + "/.cursor/mcp.json): crm\n", "mcp_config.json) was not read: ",
		"): files\n  files runs [\"/no/such/program\"]\n",
		"written: gatehouse.yaml, with 1 server\n", "\ncrm: down\n  error: ",
		"export CRM_TOKEN=...   # crm: header Authorization",
		"Next:\n  gatehouse serve --config gatehouse.yaml\n  gatehouse connect --config gatehouse.yaml ",
		"\nSee what it changes now? [Y]es, [n]o: ",
		"Write the 1 secret to gatehouse.env, for you alone? [Y]es, [n]o: \n",
		"take out what your clients then have twice:\n  " + home + "/.cursor/mcp.json: crm\n",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in %s", want, stdout)
		}
	}
	if n := strings.Count(stdout, "Cursor ("); n != 1 { // in the home directory, it is that of a project, too
		t.Errorf("Cursor's file is offered %d times: %s", n, stdout)
	}
	text, err := os.ReadFile("gatehouse.yaml")
	if err != nil || strings.Contains(string(text)+stdout+stderr, "secret-value") {
		t.Errorf("%v\n%s%s%s", err, text, stdout, stderr)
	}
	t.Setenv("CRM_TOKEN", "x")
	if cfg, warnings, err := config.Load("gatehouse.yaml"); err != nil || len(warnings) > 0 || len(cfg.Upstreams) != 1 {
		t.Errorf("%v %v\n%s", err, warnings, text)
	}
	if info, err := os.Stat("gatehouse.yaml"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v", err)
	}

	if code, _, stderr := initialise(t, home, "", "--no-probe", "https://a.example/mcp"); code != exitProblem ||
		!strings.Contains(stderr, "is there already: --force") {
		t.Errorf("%d %s", code, stderr)
	}
	if code, _, stderr := initialise(t, home, "", "--no-probe", "--force", "https://mcp.a.example/mcp",
		"http://localhost:3000/mcp"); code != 0 {
		t.Errorf("%d %s", code, stderr)
	}
	if text, _ := os.ReadFile("gatehouse.yaml"); !strings.Contains(string(text), "name: a\n") ||
		!strings.Contains(string(text), "name: local-3000\n") || strings.Contains(string(text), "crm") {
		t.Errorf("%s", text)
	}
	if code, stdout, _ := initialise(t, home, `{"mcpServers": {"x": {"command": "y"}}}`, "--no-probe", "-c", "other.yaml",
		"--from", "-"); code != 0 || !strings.Contains(stdout, "written: other.yaml") {
		t.Errorf("%d %s", code, stdout)
	}
	if code, stdout, stderr := initialise(t, home, "", "--no-probe", "-c", "third.yaml", "--yes"); code != 0 ||
		!strings.Contains(stdout, "with 2 servers") {
		t.Errorf("%d %s %s", code, stdout, stderr)
	}
	code, stdout, _ = initialise(t, home, "", "--no-probe", "-c", "fifth.yaml", "--yes", "--env-file", "fifth.env")
	secrets, err := os.ReadFile("fifth.env")
	if code != 0 || err != nil || !strings.Contains(string(secrets), "\nCRM_TOKEN=secret-value\n") ||
		strings.Contains(stdout, "export CRM_TOKEN") ||
		!strings.Contains(stdout, "Next:\n  set -a; . ./fifth.env; set +a\n") || strings.Contains(stdout, "secret-value") {
		t.Errorf("%d %v %s\n%s", code, err, secrets, stdout)
	}
	if info, err := os.Stat("fifth.env"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	code, stdout, _ = initialise(t, home, "\nn\n\n", "--no-probe", "-c", "seventh.yaml")
	secrets, err = os.ReadFile("gatehouse.env")
	if code != 0 || err != nil || !strings.Contains(string(secrets), "\nCRM_TOKEN=secret-value\n") ||
		!strings.Contains(stdout, "Next:\n  set -a; . ./gatehouse.env; set +a\n") {
		t.Errorf("%d %v %s\n%s", code, err, secrets, stdout)
	}
	if code, _, stderr := initialise(t, home, "", "--no-probe", "-c", "sixth.yaml", "--yes", "--env-file",
		"fifth.env"); code != exitProblem || !strings.Contains(stderr, "fifth.env is there already") {
		t.Errorf("%d %s", code, stderr)
	}
	if code, _, stderr := initialise(t, home, "", "--no-probe", "-c", "fourth.yaml", "--from",
		"none.json"); code != exitProblem || !strings.Contains(stderr, "none.json: there is no such file") {
		t.Errorf("%d %s", code, stderr)
	}
}
