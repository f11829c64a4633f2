package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

// stateRun runs a command of gatehouse state.
func stateRun(args ...string) (out string, code int) {
	var text bytes.Buffer
	code = run(append([]string{"state"}, args...), strings.NewReader(""), &text, &text)
	return text.String(), code
}

// TestStateMoves: what is in the file of a gateway alone moves to Redis, from running replicas back to a file,
// and neither the users nor the clients notice.
func TestStateMoves(t *testing.T) {
	t.Parallel()
	g, ctx := newAlone(t), t.Context()
	app := g.app()
	tokens := app.SignIn(ctx, t, mcptest.NewTab(t, "alice"), func(*mcptest.Page) string { return "allow" })
	g.connect(t, g.call(t, tokens.Access))
	goesOn := func(where string) {
		t.Helper()
		if got := g.call(t, tokens.Access); !strings.Contains(got, "done as Bearer account") {
			t.Errorf("%s: %s", where, got)
		}
		if tokens = app.Renew(ctx, tokens.Refresh); tokens.Status != 200 {
			t.Fatalf("%s: %+v", where, tokens)
		}
	}
	stop := func() {
		t.Helper()
		g.signal(t, syscall.SIGTERM)
		if code := g.wait(t); code != 0 {
			t.Fatalf("exit code %d", code)
		}
	}
	saved := filepath.Join(g.home, "saved.jsonl")
	if out, code := stateRun("export", "-c", g.config, saved); code != 1 || !strings.Contains(out,
		"in use by another process") {
		t.Errorf("of a gateway that runs: %d %s", code, out)
	}
	stop()
	out, code := stateRun("export", "-c", g.config, saved)
	if code != 0 || !strings.HasPrefix(out, "saved: ") || strings.Contains(out, "left out") {
		t.Fatalf("%d %s", code, out)
	}
	for _, part := range []string{"1 accounts", "1 oauth-codes", "1 oauth-consents", "1 oauth-grants", "1 oauth-keys"} {
		if !strings.Contains(out, part) {
			t.Errorf("there is not %s: %s", part, out)
		}
	}
	if info, err := os.Stat(saved); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	text, err := os.ReadFile(saved)
	if err != nil || bytes.Contains(text, []byte("alice")) || bytes.Contains(text, []byte(g.remote.URL)) {
		t.Errorf("the export can be read: %v", err)
	}

	// To Redis, with keys that are kept elsewhere; the key of the directory opens what it has sealed.
	inFile, err := os.ReadFile(g.config)
	if err != nil {
		t.Fatal(err)
	}
	redis, key := redistest.Start(t), filepath.Join(g.home, "state", "state.key")
	inRedis := strings.Replace(string(inFile), "state: {directory: state}", fmt.Sprintf(`sessions:
  store: redis
  key: 0123456789abcdef0123456789abcdef
  previous_keys: ["${file:%[1]s}"]
  redis: {url: %[2]q}
replicas: {listen: "127.0.0.1:0"}
vault: {keys: [{id: new, key: fedcba9876543210fedcba9876543210}, {id: state.key,
	key: "${file:%[1]s}"}]}`, key, redis.URL()), 1)
	g.write(t, inRedis)
	if out, code := stateRun("import", "-c", g.config, saved); code != 0 || !strings.HasPrefix(out, "restored: ") {
		t.Fatalf("%d %s", code, out)
	}
	if out, code := stateRun("import", "-c", g.config, saved); code != 1 || !strings.Contains(out, "write --replace") {
		t.Errorf("into what is there: %d %s", code, out)
	}
	g.start(t)
	goesOn("from the file to Redis")

	// From replicas that run, to a file with a key of its own.
	if out, code := stateRun("export", "-c", g.config, saved); code != 0 {
		t.Fatalf("%d %s", code, out)
	}
	stop()
	backInFile := strings.Replace(string(inFile), "state: {directory: state}", fmt.Sprintf(`state: {directory: other}
sessions: {key: 00112233445566778899aabbccddeeff, previous_keys: [0123456789abcdef0123456789abcdef, "${file:%[1]s}"]}
vault: {keys: [{id: new, key: fedcba9876543210fedcba9876543210}]}`, key), 1)
	g.write(t, backInFile)
	if out, code := stateRun("import", "-c", g.config, saved); code != 0 {
		t.Fatalf("%d %s", code, out)
	}
	g.start(t)
	goesOn("from Redis to a file")
	stop()
	if _, err := os.Stat(filepath.Join(g.home, "other", "state.key")); err == nil {
		t.Error("a key was made where all keys are named")
	}
	// A second import in place of what is there now has what the export has: the older refresh token is good again.
	if out, code := stateRun("import", "-c", g.config, "--replace", saved); code != 0 {
		t.Fatalf("%d %s", code, out)
	}
}

// TestStateRefused: an export that is not whole, of a newer version or of other keys changes nothing.
func TestStateRefused(t *testing.T) {
	t.Parallel()
	g := newAlone(t)
	g.app().SignIn(t.Context(), t, mcptest.NewTab(t, "alice"), func(*mcptest.Page) string { return "allow" })
	g.signal(t, syscall.SIGTERM)
	g.wait(t)
	saved := filepath.Join(g.home, "saved.jsonl")
	out, code := stateRun("export", "-c", g.config, "-o", "json", saved)
	if code != 0 || !strings.Contains(out, `"oauth-keys": 1`) {
		t.Fatal(out)
	}
	text, err := os.ReadFile(saved)
	if err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(g.config)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what, export, config, want string) {
		t.Helper()
		g.write(t, config)
		file := filepath.Join(g.home, "changed.jsonl")
		if err := os.WriteFile(file, []byte(export), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, code := stateRun("import", "-c", g.config, "--replace", file); code != 1 || !strings.Contains(out, want) {
			t.Errorf("%s: %d %s", what, code, out)
		}
	}
	lines := strings.SplitAfter(string(text), "\n")
	for n := range len(lines) - 1 {
		refused(fmt.Sprintf("the first %d lines", n), strings.Join(lines[:n], ""), string(config), "")
	}
	refused("cut", string(text[:len(text)-10]), string(config), "is not whole")
	refused("without a line", lines[0]+strings.Join(lines[2:], ""), string(config), "was changed")
	refused("newer", strings.Replace(string(text), `"gatehouse_state":1`, `"gatehouse_state":2`, 1), string(config),
		"has format 2")
	refused("another file", "{}\n", string(config), "is no export")
	other, elsewhere := filepath.Join(g.home, "other"), strings.Replace(string(config), "directory: state",
		"directory: other", 1)
	refused("no key", string(text), elsewhere, "has no state.key")
	if out, code := stateRun("export", "-c", g.config, saved); code != 1 || !strings.Contains(out, "no state to export") {
		t.Errorf("export of nothing: %d %s", code, out)
	}
	if now, err := os.ReadFile(saved); err != nil || string(now) != string(text) {
		t.Errorf("the export before was replaced: %v", err)
	}
	if _, err := os.Stat(other); err == nil {
		t.Error("a command that was refused has made something")
	}
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other, "state.key"), []byte(strings.Repeat("0123456789abcdef", 4)),
		0o600); err != nil {
		t.Fatal(err)
	}
	refused("other keys", string(text), elsewhere, "do not open its values of oauth-")
	g.write(t, string(config))

	// A file that is damaged has to be taken away, and the backup takes its place.
	file := filepath.Join(g.home, "state", "state.db")
	if err := os.Truncate(file, 10_000); err != nil {
		t.Fatal(err)
	}
	refused("a damaged file", string(text), string(config), "take it away")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if out, code := stateRun("import", "-c", g.config, saved); code != 0 {
		t.Errorf("into a file that was taken away: %d %s", code, out)
	}
	again := filepath.Join(g.home, "again.jsonl")
	if out, code := stateRun("export", "-c", g.config, again); code != 0 {
		t.Fatal(out)
	}
	if now, err := os.ReadFile(again); err != nil || strings.Count(string(now), "\n") != len(lines)-1 {
		t.Errorf("a refused import has changed something: %v", err)
	}
}
