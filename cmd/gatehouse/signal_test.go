package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/internal/faultproxy"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

// TestSecondSignal: a running call delays the end; a second signal does not wait for
// it. A SIGHUP before that reloads the configuration.
func TestSecondSignal(t *testing.T) {
	called, done := make(chan struct{}), make(chan struct{})
	server := sdk.NewServer(&sdk.Implementation{Name: "peer", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "wait"}, func(context.Context, *sdk.CallToolRequest,
		struct{}) (*sdk.CallToolResult, any, error) {
		close(called)
		<-done
		return &sdk.CallToolResult{}, nil, nil
	})
	peer := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
		&sdk.StreamableHTTPOptions{Stateless: true}))
	defer peer.Close()
	defer close(done)

	config := filepath.Join(t.TempDir(), "gatehouse.yaml")
	text := fmt.Sprintf("listen: 127.0.0.1:0\nupstreams: [{name: a, url: %q}]\nshutdown_timeout: 1h\n", peer.URL)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Args = []string{"gatehouse", "serve", "--config", config} // TestMain runs it as the program
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	await := func(what string) string {
		t.Helper()
		for lines.Scan() {
			t.Log(lines.Text())
			if strings.Contains(lines.Text(), what) {
				return lines.Text()
			}
		}
		t.Fatalf("the log ended without %q", what)
		return ""
	}
	url := regexp.MustCompile(`url=(\S+)`).FindStringSubmatch(await("msg=serving"))[1]
	client, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).
		Connect(ctx, &sdk.StreamableClientTransport{Endpoint: url}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for { // a call waits only for a while for an upstream that is not known yet
		tools, err := client.ListTools(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(tools.Tools) > 0 {
			break
		}
	}
	answer := make(chan error, 1)
	go func() {
		_, err := client.CallTool(ctx, &sdk.CallToolParams{Name: "a__wait"})
		answer <- err
	}()
	<-called
	// The upstream stays the same, so the call continues.
	if err := os.WriteFile(config, []byte(text+"no_such_key: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	await(`unknown key`)
	if err := os.WriteFile(config, []byte(text+"limits: [{name: l, rate: 9/s}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	await(`"configuration reloaded" changed=limits`)
	for _, wait := range []string{"msg=stopping", ""} {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if wait != "" {
			await(wait)
		}
	}
	told := false
	for lines.Scan() { // until the process has ended
		t.Log(lines.Text())
		told = told || strings.Contains(lines.Text(), "a second signal came")
	}
	if !told {
		t.Error("nothing says why it ended at once")
	}
	cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != exitProblem {
		t.Errorf("exit code %d, want %d", got, exitProblem)
	}
	if err := <-answer; err == nil {
		t.Error("the call that was cut off has an answer")
	}
}

// TestSignalEndsAll: SIGTERM ends the gateway with exit code 0, and ends the processes
// that it started.
func TestSignalEndsAll(t *testing.T) {
	mcptest.Long(t)
	dir := t.TempDir()
	config, pid := filepath.Join(dir, "gatehouse.yaml"), filepath.Join(dir, "pid")
	// The script writes nothing and ends when its input does.
	script := fmt.Sprintf("echo $$ > %s.part; mv %s.part %s; exec cat > /dev/null", pid, pid, pid)
	text := fmt.Sprintf("listen: 127.0.0.1:0\nupstreams: [{name: a, command: [sh, -c, %q]}]\n", script)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Args = []string{"gatehouse", "serve", "--config", config}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	for lines.Scan() && !strings.Contains(lines.Text(), "msg=serving") {
		t.Log(lines.Text())
	}
	var process int
	for process == 0 {
		if _, err := fmt.Sscan(readFile(pid), &process); err != nil && ctx.Err() != nil {
			t.Fatal("the upstream was not started")
		}
		<-time.After(10 * time.Millisecond)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
		t.Log(lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v, want exit code 0", err)
	}
	program, err := os.FindProcess(process)
	if err == nil {
		err = program.Signal(syscall.Signal(0))
	}
	if !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("the process of the upstream: %v, want that there is none", err)
	}
}

// stubborn is a server that answers no call, and heeds neither the end of its input nor SIGTERM.
const stubborn = `
trap '' TERM
echo $$ >"$PID"
while read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
  *'"server/discover"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}\n' "$id" ;;
  *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}\n' "$id" ;;
  *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"hang","inputSchema":{"type":"object"}}]}}\n' "$id" ;;
  *'"tools/call"'*) echo $$ >"$CALLED" ;;
  esac
done
while :; do sleep 1; done
`

// TestStopIsBounded: a stop ends within ten seconds after shutdown_timeout, as docs/operations.md
// says, even if a call hangs in a process that heeds nothing, Redis does not answer, and another
// replica does not either. The process does not outlive the gateway.
func TestStopIsBounded(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	redis := redistest.Start(t)
	store, err := faultproxy.Start(redis.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	dir := t.TempDir()
	config, called := filepath.Join(dir, "gatehouse.yaml"), filepath.Join(dir, "called")
	const timeout = time.Second
	text := fmt.Sprintf(`
listen: 127.0.0.1:0
sessions: {store: redis, redis: {url: "redis://%s"}, key: 0123456789abcdef0123456789abcdef}
replicas: {listen: "127.0.0.1:0"}
upstreams: [{name: a, command: [sh, -c, "${env:SCRIPT}"], env: {PID: %q, CALLED: %q}}]
shutdown_timeout: %s
`, store.Addr(), filepath.Join(dir, "pid"), called, timeout)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx := deadline(t)
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Args = []string{"gatehouse", "serve", "--config", config}
	cmd.Env = append(os.Environ(), "SCRIPT="+stubborn,
		"GORACE=atexit_sleep_ms=0") // else it takes a second to end, with the race detector
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines, url := bufio.NewScanner(stderr), ""
	for url == "" && lines.Scan() {
		if found := regexp.MustCompile(`msg=serving url=(\S+)`).FindStringSubmatch(lines.Text()); found != nil {
			url = found[1]
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines.Scan() {
			t.Log(lines.Text())
		}
	}()

	var clients []*mcptest.Client
	for range 20 { // their sessions would be given up in Redis
		c := mcptest.NewClient(url, wire.Lookup(clientRev))
		if err := c.Open(ctx); err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.Call(ctx, "tools/list", "{}"); err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
	}
	answer := make(chan error, 1)
	go func() {
		_, _, err := clients[0].Call(ctx, "tools/call", `{"name":"a__hang","arguments":{}}`)
		answer <- err
	}()
	var process int
	eventually(t, "the call", func() bool { _, err := fmt.Sscan(readFile(called), &process); return err == nil })
	store.BlackHole()
	begun := time.Now()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-ended
	_ = cmd.Wait()                                                          // calls were cut off
	wantWithin(t, "the stop", timeout+10*time.Second+10*time.Second, begun) // a busy machine needs a while
	if cmd.ProcessState.ExitCode() != exitProblem {
		t.Errorf("it ended with %s", cmd.ProcessState)
	}
	t.Log("it took", time.Since(begun))
	<-answer
	program, err := os.FindProcess(process)
	if err == nil {
		err = program.Signal(syscall.Signal(0))
	}
	if !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("the process of the upstream: %v, want that there is none", err)
	}
}

func readFile(path string) string {
	data, _ := os.ReadFile(path) // the file may not exist yet
	return string(data)
}
