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
)

// TestH238_SecondSignal: a running call delays the end; a second signal does not wait for
// it. A SIGHUP before that reloads the configuration.
func TestH238_SecondSignal(t *testing.T) {
	called, done := make(chan struct{}), make(chan struct{})
	server := sdk.NewServer(&sdk.Implementation{Name: "peer", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "wait"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
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
		t.Error("H/238 nothing says why it ended at once")
	}
	cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != exitProblem {
		t.Errorf("exit code %d, want %d", got, exitProblem)
	}
	if err := <-answer; err == nil {
		t.Error("the call that was cut off has an answer")
	}
}

// TestH237_SignalEndsAll: SIGTERM ends the gateway with exit code 0, and ends the processes
// that it started.
func TestH237_SignalEndsAll(t *testing.T) {
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

func readFile(path string) string {
	data, _ := os.ReadFile(path) // the file may not exist yet
	return string(data)
}
