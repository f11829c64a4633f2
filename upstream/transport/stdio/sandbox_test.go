//go:build linux && (amd64 || arm64)

package stdio_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport/stdio"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport/stdio/sandbox"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// TestSandbox: a program in a box serves as any other, has its directory as its home, and leaves nothing.
func TestSandbox(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("HOME", "/home/gatehouse")
	cfg := fake.Command(t, "sound")
	cfg.Sandbox = &sandbox.Config{}
	u := fake.Start(t, cfg)
	_, env := fake.PID(t, u, "s")
	if strings.Contains(env, "/home/gatehouse") || strings.Count(env, os.TempDir()+"/gatehouse-") != 2 {
		t.Errorf("environment %s", env)
	}
	_, err := fake.Do(t, u, fake.Tool("crash"))
	fake.WantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
	fake.WantOK(t, u, fake.Tool("a"))
	fake.Close(t, u)
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("%v are left, %v", left, err)
	}
}

// TestSandboxIsRefused: a box that cannot be made is an upstream that is down, and its operator reads why.
func TestSandboxIsRefused(t *testing.T) {
	cfg := fake.Command(t, "sound")
	cfg.Sandbox = &sandbox.Config{Read: []string{"/nowhere"}}
	u := fake.Start(t, cfg)
	_, err := fake.Do(t, u, fake.Tool("a"))
	e, ok := errors.AsType[*mcp.Error](err)
	if !ok || e.Code != mcp.CodeUpstreamUnreachable ||
		!strings.Contains(e.Cause, "sandbox: read: /nowhere: no such file or directory") {
		t.Errorf("error %v, cause %q", err, e.Cause)
	}
	if u.Status().State != upstream.StateDown {
		t.Errorf("status %+v", u.Status())
	}
}

// TestDescendantInAControlGroup: what has left the process group does not leave the box.
func TestDescendantInAControlGroup(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("control groups are made by root here") // as in CI
	}
	mcptest.Long(t)
	cfg := fake.Command(t, "leaves its group")
	cfg.Sandbox = &sandbox.Config{MemoryBytes: 1 << 30}
	u := fake.Start(t, cfg)
	_, env := fake.PID(t, u, "s")
	_, child, _ := strings.Cut(env, `"CHILD=`)
	child, _, _ = strings.Cut(child, `"`)
	if n, err := strconv.Atoi(child); err != nil || !fake.Lives(t, child) {
		t.Fatalf("child %d, %v", n, err)
	}
	if groups, err := os.ReadFile("/proc/" + child + "/cgroup"); err != nil || !strings.Contains(string(groups), "gatehouse-") {
		t.Skip("no control group can be made here: ", err) // root in CI can
	}
	fake.Close(t, u)
	fake.AwaitEnd(t, child)
}

// TestLifetime: a process ends with its lifetime, but not during a call.
func TestLifetime(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	const lifetime = 2 * time.Second // it begins before the process does
	program := fake.Command(t, "sound")
	log := &mcptest.Log{}
	var running sync.WaitGroup
	env := transport.Env{Name: "a", Log: slog.New(slog.NewTextHandler(log, nil)), Spawn: running.Go, ResultBytes: 1 << 20,
		Garbage: &atomic.Int64{}, Program: &atomic.Pointer[transport.Program]{}}
	conn, err := stdio.New(env, stdio.Config{Command: program.Command, Env: program.Env,
		Sandbox: &sandbox.Config{Lifetime: lifetime}, Patience: time.Minute}).Dial(t.Context(), &transport.Identity{})
	if err != nil {
		t.Fatal(err)
	}
	defer running.Wait()
	start := func(id int64, tool string) (transport.Stream, error) {
		return conn.Start(&transport.Request{
			ID:     id,
			Method: mcp.MethodToolsCall,
			Life:   transport.NewLife(t.Context(), time.Minute, time.Minute),
			Body:   fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q}}`, id, tool),
		})
	}
	began := time.Now()
	call, err := start(1, "hang")
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-conn.Lost():
		t.Error("it has ended during a call")
	case <-time.After(3 * lifetime): // that it does not happen takes time
	}
	call.Close()
	select {
	case <-conn.Lost():
	case <-time.After(fake.Patience):
		t.Fatal("it does not end")
	}
	if _, err := start(2, "a"); !errors.Is(err, transport.ErrSessionGone) {
		t.Errorf("after its end: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), fake.Patience)
	defer cancel()
	if err := conn.Close(ctx); err != nil {
		t.Error(err)
	}
	running.Wait()
	if text := log.String(); !strings.Contains(text, "lifetime") || strings.Contains(text, "level=WARN") {
		t.Errorf("after %s the log is %s", time.Since(began), text)
	}
}
