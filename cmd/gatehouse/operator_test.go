package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// operated is a gateway for the commands of operators.
type operated struct {
	file, text string
	client     *mcptest.Client
}

const operatorToken = "0123456789abcdefghijklmnopqrstuv"

func startOperated(t *testing.T) *operated {
	t.Helper()
	adminAddress := mcptest.LoopbackAddress(t)
	server := mcptest.NewServer(wire.NewestStateful())
	t.Cleanup(server.Close)
	server.On("tools/list", func(c *mcptest.Call) {
		c.Result(`{"tools":[{"name":"work","inputSchema":{"type":"object"}},{"name":"drop","inputSchema":{"type":"object"}}]}`)
	})
	server.On("tools/call", func(c *mcptest.Call) { c.Result(`{"content":[]}`) })
	o := &operated{file: filepath.Join(t.TempDir(), "gatehouse.yaml")}
	o.text = fmt.Sprintf(`listen: 127.0.0.1:0
admin:
  listen: %q
  api:
    loopback: viewer
    tokens: [{name: ops, role: operator, token: %s}]
upstreams: [{name: up, url: %q, pinning: {mode: warn}}, {name: gone, url: "http://127.0.0.1:1/mcp"}]
policy:
  default: allow
  rules: [{name: keep, deny: ["tools:up/drop"]}]
`, adminAddress, operatorToken, server.URL)
	o.write(t, o.text)
	if err := os.WriteFile(filepath.Join(filepath.Dir(o.file), "gatehouse.lock"), []byte(`{"version":1,"upstreams":{}}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	g := startFrom(t, o.file)
	o.client = mcptest.NewClient(g.URL(), wire.NewestStateful())
	if err := o.client.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.call(t, "work")
	o.call(t, "drop")
	o.call(t, "no\x1b[31msuch")
	return o
}

// startFrom runs the gateway of a configuration file until the test ends.
func startFrom(t *testing.T, file string) *gateway.Gateway {
	t.Helper()
	g, err := gateway.New(gateway.Options{ConfigFile: file, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	g.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := g.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	if err := g.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return g
}

func (o *operated) write(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(o.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (o *operated) call(t *testing.T, tool string) {
	t.Helper()
	name, _ := json.Marshal("up__" + tool)
	if _, _, err := o.client.Call(t.Context(), "tools/call", fmt.Sprintf(`{"name":%s,"arguments":{}}`, name)); err != nil {
		t.Fatal(err)
	}
}

// run runs a command.
func (o *operated) run(args ...string) (stdout, stderr string, code int) {
	var out, problems bytes.Buffer
	code = run(append(args, "--config", o.file), strings.NewReader(""), &out, &problems)
	return out.String(), problems.String(), code
}

// TestOperators: the commands with which an operator looks after a gateway.
func TestOperators(t *testing.T) {
	o := startOperated(t)
	out, _, _ := o.run("calls", "--json", "--denied", "--tool", "up/drop")
	var denied admin.Decision
	if err := json.Unmarshal([]byte(out), &denied); err != nil || denied.Rule != "keep" {
		t.Fatalf("%v: %s", err, out)
	}
	out, _, _ = o.run("sessions", "--json")
	var all struct{ Sessions []admin.Session }
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all.Sessions) != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	session := all.Sessions[0].Session
	for _, tt := range []struct {
		args   []string
		code   int
		stdout string // patterns
		stderr string
	}{
		{[]string{"calls"}, 0,
			`(?m)^TIME +ID +USER +RESULT +MS +CALL\n(.*\n)*\S+  \S+  -  +ok +\d+  up__work\n\S+  \S+  -  +denied +\d+  up__drop  rule keep\n\S+  \S+  -  +unknown +\d+  up__no.\[31msuch\n$`, `^$`},
		{[]string{"calls", "--denied", "-n", "1"}, 0, `^TIME.*\n.*unknown.*\n$`, `^$`},
		{[]string{"calls", "--user", "nobody"}, 0, `^$`, `^no such calls\n$`},
		{[]string{"calls", "--since", "soon"}, 2, `^$`, `--since "soon": want a time`},
		{[]string{"calls", "-n", "0"}, 1, `^$`, `limit: "0": want 1 to 1000 \(GH-ADMIN-REQUEST\)`},
		{[]string{"why", denied.ID}, 0, `(?m)^call ` + denied.ID +
			`\nresult +denied\n(.*\n)*policy +deny, rule keep, at \S+:10\n(.*\n)*more +docs/errors.md#gh-not-found\n\npolicy would decide now: deny\n`, `^$`},
		{[]string{"why", "x/y"}, 1, `^$`, `no call "x/y" is kept.*\(GH-ADMIN-NOT-FOUND\)`},
		{[]string{"why"}, 2, `^$`, `is missing: gatehouse `},
		{[]string{"upstreams"}, 0,
			`(?m)^up +ready +\S+ +streamable +2025-11-25 +2 +0\ngone +down +\S+ +streamable +- +0 +0\n  connect, \S+ ago: .*127.0.0.1:1.*\(GH-UPSTREAM-DOWN\)\n$`, `^$`},
		{[]string{"status"}, 1,
			`(?m)^critical  The server gone is down.\n +It could not be reached: .*\n +next: Start the server, .*\n(.*\n)*warning +up offers 2 things`, `^$`},
		{[]string{"status", "--json"}, 1, `^\{"replica":.*"kind":"server","subject":"gone"`, `^$`},
		{[]string{"sessions"}, 0, `(?m)^SESSION +USER +REVISION +STARTED +USED +CLIENT\n` + session[:12] +
			` +- +2025-11-25 +\S+ +\S+ +mcptest 1\n$`, `^$`},
		{[]string{"lock", "--running"}, 1, `^up: 2 definitions, 2 differences\n\n  new: tools drop\n(.*\n)+$`,
			`2 differences are not approved`},
		{[]string{"lock", "--running", "--yes"}, 0, `(?m)^written: \S+gatehouse.lock$`, `^$`},
		{[]string{"upstreams", "up"}, 0,
			`(?m)^up +ready for \S+\n(.*\n)*credential +none, of nobody: none\n(.*\n)*SINCE +STATE +WHY\n(.*\n)*\S+ +connecting +\n\nPROBE.*\nserver/discover +2026-07-28 +streamable +\d+ms +\S.*\ninitialize +2025-11-25 +streamable +\d+ms +it speaks 2025-11-25\n\nTOKENS +SHORT +TOOL\n\d+ +\d+ +up__drop\n\d+ +\d+ +up__work\n$`, `^$`},
		{[]string{"upstreams", "none"}, 1, `^$`, `no such server.*\(GH-ADMIN-NOT-FOUND\)`},
		{[]string{"upstreams", "disable", "up"}, 0, `^disabled up\n$`, `^$`},
		{[]string{"upstreams", "disable", "up"}, 0, `^up was disabled before\n$`, `^$`},
		{[]string{"upstreams", "reconnect", "up"}, 1, `^$`, `enable it first \(GH-ADMIN-REQUEST\)`},
		{[]string{"upstreams"}, 0, `(?m)^up +disabled +`, `^$`},
		{[]string{"upstreams", "enable", "up"}, 0, `^enabled up\n$`, `^$`},
		{[]string{"upstreams", "reconnect", "up"}, 0, `(?m)^up: .*\n\nPROBE(.*\n)*initialize`, `^$`},
		{[]string{"upstreams", "probe", "gone"}, 1, `^gone: .*\n\nPROBE.*\nserver/discover .*\(GH-UPSTREAM-DOWN\)\n$`,
			`127.0.0.1:1.*\(GH-UPSTREAM-DOWN\)`},
		{[]string{"upstreams", "enable"}, 2, `^$`, `is missing: gatehouse `},
		{[]string{"sessions", "end", "zz"}, 1, `^$`, `no session zz`},
		{[]string{"sessions", "end", session[:12]}, 0, `^ended ` + session + `\n$`, `^$`},
		{[]string{"sessions"}, 0, `^$`, `^no sessions\n$`},
		{[]string{"reload"}, 0, `^reloaded: revision [0-9a-f]{12} is in force\n$`, `^$`},
		{[]string{"calls", "--admin", "http://127.0.0.1:1"}, 2, `^$`, `--config FILE or --admin URL`},
	} {
		stdout, stderr, code := o.run(tt.args...)
		if code != tt.code || !regexp.MustCompile(tt.stdout).MatchString(stdout) ||
			!regexp.MustCompile(tt.stderr).MatchString(stderr) || strings.Contains(stdout, "\x1b") {
			t.Errorf("%q: exit code %d\n%s%s\nwant %d\n%s\n%s", tt.args, code, stdout, stderr, tt.code, tt.stdout, tt.stderr)
		}
	}
	missing := "sessions: {key: \"${env:NOT_SET_HERE}\"}\n" // of another section
	o.write(t, o.text+missing)
	if stdout, stderr, code := o.run("upstreams"); code != 0 {
		t.Errorf("secrets that the command does not need are missing: %d %s%s", code, stdout, stderr)
	}
	o.write(t, strings.Replace(o.text, operatorToken, "\"${env:NOT_SET_HERE}\"", 1)+missing)
	if _, stderr, code := o.run("reload"); code != 1 || !strings.Contains(stderr, "admin.api.tokens[0]") ||
		strings.Contains(stderr, "sessions") {
		t.Errorf("its own token is missing: %d %s", code, stderr)
	}
	o.write(t, o.text+"none: 1\n")
	var out2, problems bytes.Buffer
	url := regexp.MustCompile(`listen: "(.*)"`).FindStringSubmatch(o.text)[1]
	t.Setenv(tokenVariable, operatorToken)
	if code := run([]string{"reload", "--admin", "http://" + url}, strings.NewReader(""), &out2, &problems); code != 1 ||
		!strings.Contains(problems.String(), "gatehouse.yaml:11: unknown key") ||
		!strings.Contains(problems.String(), "not reloaded") {
		t.Errorf("a bad file: %d %s%s", code, out2.String(), problems.String())
	}
	t.Setenv(tokenVariable, "another one")
	problems.Reset()
	if code := run([]string{"calls", "--admin", "http://" + url}, strings.NewReader(""), io.Discard,
		&problems); code != 1 || !strings.Contains(problems.String(), "GH-ADMIN-TOKEN-INVALID") {
		t.Errorf("a bad token: %d %s", code, problems.String())
	}
}

// lineWriter hands on what is written, and tells whoever waits.
type lineWriter struct{ lines chan string }

func (w lineWriter) Write(b []byte) (int, error) {
	w.lines <- string(b)
	return len(b), nil
}

// TestFollow: calls are shown as they are made, until the user has enough.
func TestFollow(t *testing.T) {
	o := startOperated(t)
	cmd := newRoot()
	w := lineWriter{make(chan string, 100)}
	cmd.SetOut(w)
	cmd.SetErr(w)
	cmd.SetArgs([]string{"calls", "--follow", "-n", "1", "--denied", "--config", o.file})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- cmd.ExecuteContext(ctx) }()
	if head := <-w.lines; !strings.HasPrefix(head, "TIME") {
		t.Errorf("got %q", head)
	}
	if last := <-w.lines; !strings.Contains(last, "such") { // now the stream has begun
		t.Errorf("got %q", last)
	}
	o.call(t, "work")
	o.call(t, "drop")
	if line := <-w.lines; !strings.Contains(line, "denied") || strings.Contains(line, "up__work") {
		t.Errorf("got %q", line)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
