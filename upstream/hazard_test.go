package upstream_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// playHazard runs a stdio server with the fault that its role names. Otherwise it behaves
// like a stateful server.
func playHazard(role string) {
	say := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	switch role {
	case "crash at start":
		fmt.Fprintln(os.Stderr, "cannot open database")
		os.Exit(1)
	case "deaf":
		if file := os.Getenv("FILE"); file != "" {
			if err := os.WriteFile(file, []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
				panic(err)
			}
		}
		pause()
	case "leaves its group":
		child := exec.Command("sleep", "300")
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		leaveGroup(child)
		if err := child.Start(); err != nil {
			panic(err)
		}
		os.Setenv("CHILD", strconv.Itoa(child.Process.Pid))
	case "says good-bye":
		signal.Ignore(syscall.SIGTERM) // it ends when its input ends, or is killed
	case "ignores SIGTERM":
		signal.Ignore(syscall.SIGTERM)
		child := exec.Command("sleep", "300") // in the same group, and holding our output
		child.Stdout = os.Stdout
		if err := child.Start(); err != nil {
			panic(err)
		}
		os.Setenv("CHILD", strconv.Itoa(child.Process.Pid))
	case "noisy stderr":
		line := strings.Repeat("x", 1023) + "\n"
		for range 20 << 10 { // 20 MiB
			_, _ = os.Stderr.WriteString(line)
		}
	}
	lines := bufio.NewReader(os.Stdin)
	var held json.RawMessage // id of the request that is answered late
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			switch role {
			case "ignores SIGTERM":
				pause()
			case "says good-bye":
				if err := os.WriteFile(os.Getenv("FILE"), nil, 0o600); err != nil {
					panic(err)
				}
			}
			return
		}
		var m rpc
		_ = json.Unmarshal(line, &m)
		name, _ := mcp.Raw(m.Params).Member("name")
		if held != nil {
			say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"Invalid request parameters"}}`, held)
			held = nil
		}
		switch {
		case m.ID == nil || m.Method == "":
		case m.Method == mcp.MethodDiscover && role == "exits on discover":
			os.Exit(2)
		case m.Method == mcp.MethodDiscover && role == "silent on discover":
		case m.Method == mcp.MethodDiscover && role == "late on discover":
			held = m.ID
		case m.Method == mcp.MethodDiscover:
			say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"Invalid request parameters"}}`, m.ID)
		case m.Method == mcp.MethodInitialize:
			say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"resources":{"subscribe":true,"listChanged":true}}}}`, m.ID)
		case name.Text() == "env":
			env, err := json.Marshal(os.Environ())
			if err != nil {
				panic(err)
			}
			say(`{"jsonrpc":"2.0","id":%s,"result":{"env":%s,"pid":%d}}`, m.ID, env, os.Getpid())
		case name.Text() == "hang":
			say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, m.ID)
		case name.Text() == "crash":
			os.Exit(3)
		case name.Text() == "much garbage":
			for range 200 {
				say("garbage")
			}
		case name.Text() == "long line":
			chunk := strings.Repeat("x", 1<<20)
			for range 20 {
				fmt.Print(chunk)
			}
		case name.Text() == "long answer":
			say(`{"jsonrpc":"2.0","id":%s,"result":{"content":"%s"}}`, m.ID, strings.Repeat("x", 20<<20))
		case name.Text() == "batch":
			say(`[{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}},{"jsonrpc":"2.0","id":%s,"result":%s}]`, m.ID, m.ID, okResult)
		case name.Text() == "wrong ids":
			say(`{"jsonrpc":"2.0","id":"%s0","result":{"wrong":1}}`, m.ID)
			say(`{"jsonrpc":"2.0","id":4711,"result":{"wrong":2}}`)
			say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, okResult)
			say(`{"jsonrpc":"2.0","id":%s,"result":{"wrong":3}}`, m.ID)
		default:
			say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, okResult)
		}
	}
}

// pause blocks until the process is killed.
func pause() {
	never := make(chan os.Signal, 1)
	signal.Notify(never, syscall.SIGHUP)
	for {
		<-never
	}
}

// awaitEnd waits for the end of a process that is not a child: on a busy machine a signal
// takes its time.
func awaitEnd(t *testing.T, pid string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); lives(t, pid); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("process %s lives", pid)
		}
	}
}

// lives reports whether a process exists and is not an unreaped zombie.
func lives(t *testing.T, pid string) bool {
	t.Helper()
	number, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err == nil { // on systems other than Linux the signal has to be enough
		if _, rest, _ := strings.Cut(string(stat), ") "); strings.HasPrefix(rest, "Z") {
			return false
		}
	}
	process, err := os.FindProcess(number)
	return err == nil && process.Signal(syscall.Signal(0)) == nil
}

func TestProbeOverStdio(t *testing.T) {
	for _, role := range []string{"answers -32602", "silent on discover", "late on discover", "exits on discover"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			cfg := command(t, role)
			cfg.Timeout.Connect = 8 * time.Second // the probe may be silent for half of it
			u := start(t, cfg)
			wantOK(t, u, tool("a"))
			if s := u.Status(); !s.Stateful || s.Revision != "2025-06-18" {
				t.Errorf("status %+v", s)
			}
		})
	}
}

func pid(t *testing.T, u *upstream.Upstream, session string) (pid int, env string) {
	t.Helper()
	c := tool("env")
	c.Session = session
	result := mustDo(t, u, c).Result
	raw, _ := result.Member("pid")
	pid, err := strconv.Atoi(string(raw))
	if err != nil {
		t.Fatal(err)
	}
	list, _ := result.Member("env")
	return pid, string(list)
}

func TestStdioEnvironment(t *testing.T) {
	t.Setenv("GATEHOUSE_SECRET", "hunter2")
	t.Setenv("HOME", "/home/gatehouse")
	cfg := command(t, "sound")
	cfg.Env["API_KEY"] = "k"
	_, env := pid(t, start(t, cfg), "s")
	if strings.Contains(env, "hunter2") || !strings.Contains(env, `"API_KEY=k"`) ||
		!strings.Contains(env, `"HOME=/home/gatehouse"`) {
		t.Errorf("environment %s", env)
	}
}

func TestProcessPerSession(t *testing.T) {
	u := start(t, command(t, "sound"))
	a, _ := pid(t, u, "u1:s")
	b, _ := pid(t, u, "u2:s")
	again, _ := pid(t, u, "u1:s")
	if a == b || a != again {
		t.Errorf("processes %d, %d and again %d", a, b, again)
	}
	cfg := command(t, "sound")
	cfg.Shared = true
	u = start(t, cfg)
	a, _ = pid(t, u, "u1:s")
	if b, _ = pid(t, u, "u2:s"); a != b {
		t.Errorf("shared: processes %d and %d", a, b)
	}
}

func TestCrash(t *testing.T) {
	t.Parallel()
	u := start(t, command(t, "sound"))
	other, _ := pid(t, u, "u2:s")
	_, err := do(t, u, tool("crash"))
	wantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
	if still, _ := pid(t, u, "u2:s"); still != other {
		t.Error("another session's process was restarted, too")
	}
	wantOK(t, u, tool("a")) // started again
	if n := u.Status().Restarts; n != 1 {
		t.Errorf("%d restarts", n)
	}
}

func TestCrashAtStart(t *testing.T) {
	cfg := command(t, "crash at start")
	cfg.Revision = "2025-06-18"
	u := start(t, cfg)
	_, err := do(t, u, tool("a"))
	wantErrorNotRun(t, err)
	if u.Status().State != upstream.StateDown {
		t.Errorf("status %+v", u.Status())
	}
}

func wantErrorNotRun(t *testing.T, err error) {
	t.Helper()
	e, ok := err.(*mcp.Error)
	if !ok {
		t.Fatalf("error %v", err)
	}
	if executed, _ := e.Data.Member("executed"); executed.Text() != string(mcp.ExecutedNo) {
		t.Errorf("error %v, data %s", e, e.Data)
	}
}

func TestUnknownProgram(t *testing.T) {
	u := start(t, upstream.Config{Command: []string{"/no/such/program"}})
	_, err := do(t, u, tool("a"))
	wantError(t, err, mcp.CodeUpstreamUnreachable, mcp.ExecutedNo)
}

func TestGarbageAndNoise(t *testing.T) {
	t.Parallel()
	u := start(t, command(t, "sound"))
	_, err := do(t, u, tool("much garbage"))
	wantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
	if s := u.Status(); s.Garbage < 100 {
		t.Errorf("%d lines of garbage", s.Garbage)
	}
	wantOK(t, u, tool("a"))
}

// A process that writes 20 MiB to its standard error before it reads a message is not
// blocked by that, and little of it is logged.
func TestNoisyStderr(t *testing.T) {
	t.Parallel()
	cfg, log := command(t, "noisy stderr"), &mcptest.Log{}
	began := time.Now()
	u, err := withHomes(t, cfg, upstream.Deps{Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, u) })
	wantOK(t, u, tool("a"))
	text := log.String()
	seconds := int(time.Since(began)/time.Second) + 1
	if n := strings.Count(text, "msg=stderr"); n == 0 || n > 20*seconds {
		t.Errorf("%d lines were logged in %d seconds", n, seconds)
	}
	if strings.Contains(text, strings.Repeat("x", 1001)) {
		t.Error("a line was logged that is longer than 1,000 bytes")
	}
}

func TestLongLine(t *testing.T) {
	t.Parallel()
	u := start(t, command(t, "sound"))
	_, err := do(t, u, tool("long line"))
	wantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
	wantOK(t, u, tool("a"))
}

func TestLimitAboveTheDefault(t *testing.T) {
	t.Parallel()
	cfg := command(t, "sound")
	cfg.Limits.ResultBytes = 32 << 20
	u := start(t, cfg)
	if n := len(mustDo(t, u, tool("long answer")).Result); n < 20<<20 {
		t.Errorf("%d bytes", n)
	}
}

// deaf starts an Upstream whose process reads nothing. pid waits until the process exists
// and returns its id.
func deaf(t *testing.T, cfg upstream.Config) (u *upstream.Upstream, pid func() string) {
	t.Helper()
	deaf := command(t, "deaf")
	file := filepath.Join(t.TempDir(), "pid")
	deaf.Env["FILE"] = mcp.Secret(file)
	deaf.Revision, deaf.Timeout, deaf.Limits = "2026-07-28", cfg.Timeout, cfg.Limits
	return start(t, deaf), func() string {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for end := time.Now().Add(patience); time.Now().Before(end); <-tick.C {
			if text, err := os.ReadFile(file); err == nil && len(text) > 0 {
				return string(text)
			}
		}
		t.Fatal("the process does not start")
		return ""
	}
}

// large makes a call that is too large for the buffer of a pipe.
func large() *mcp.Call {
	c := tool("a")
	c.Params = mcp.Raw(`{"name":"a","arguments":{"x":"` + strings.Repeat("x", 1<<20) + `"}}`)
	return c
}

// A process that does not read a call within the time limit of calls is killed. Its callers
// wait no longer than that.
func TestDoesNotRead(t *testing.T) {
	t.Parallel()
	u, pid := deaf(t, upstream.Config{Timeout: upstream.Timeout{Call: time.Second}})
	outcome := make(chan error, 20)
	for range cap(outcome) {
		go func() {
			_, err := u.Handle(t.Context(), large())
			outcome <- err
		}()
	}
	number := pid()
	for range cap(outcome) {
		select {
		case err := <-outcome:
			e, ok := err.(*mcp.Error)
			if !ok || e.Code != mcp.CodeUpstreamTimeout && e.Code != mcp.CodeUpstreamBadAnswer {
				t.Errorf("error %v, want that of a call without an answer", err)
				continue
			}
			wantError(t, err, e.Code, mcp.ExecutedUnknown)
		case <-time.After(patience):
			t.Fatal("a caller hangs")
		}
	}
	awaitEnd(t, number)
}

// A process for which too many messages wait is killed, however much time its calls have
// left, and all callers are told at once.
func TestQueueIsFull(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	const queued = 256
	u, pid := deaf(t, upstream.Config{
		Timeout: upstream.Timeout{Call: 2 * patience},
		Limits:  upstream.Limits{Concurrent: 2 * queued, ConcurrentPerUser: 2 * queued},
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	outcome := make(chan error, 2*queued)
	handle := func(c *mcp.Call) {
		_, err := u.Handle(ctx, c)
		outcome <- err
	}
	go handle(large())
	number := pid()
	for range cap(outcome) - 1 {
		go handle(tool("a"))
	}
	lost := 0
	for timeout := time.After(patience); lost < 1+queued+1; lost++ { // in the pipe, in the queue, and too many
		select {
		case err := <-outcome:
			wantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
		case <-timeout:
			t.Fatalf("%d calls have ended", lost)
		}
	}
	awaitEnd(t, number)
	cancel() // the others wait for the next process
	for range cap(outcome) - lost {
		select {
		case <-outcome:
		case <-time.After(patience):
			t.Fatal("a caller hangs")
		}
	}
}

// A descendant outside of the process's group may hold the output open for ever.
func TestDescendantOutsideOfTheGroup(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	u := start(t, command(t, "leaves its group"))
	orphan := func() {
		_, env := pid(t, u, tool("").Session)
		_, child, _ := strings.Cut(env, `"CHILD=`)
		child, _, _ = strings.Cut(child, `"`)
		number, err := strconv.Atoi(child)
		if err != nil {
			t.Fatal(err)
		}
		if child, err := os.FindProcess(number); err == nil {
			t.Cleanup(func() { _ = child.Kill() })
		}
	}
	orphan()
	_, err := do(t, u, tool("crash"))
	wantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
	orphan() // of another process
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		shut(t, u)
	}()
	select {
	case <-closed:
	case <-time.After(patience):
		t.Fatal("closing hangs")
	}
}

func TestIgnoresSigtermAndHasChildren(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	u := start(t, command(t, "ignores SIGTERM"))
	number, env := pid(t, u, "u1:s")
	_, child, _ := strings.Cut(env, `"CHILD=`)
	child, _, _ = strings.Cut(child, `"`)
	if !lives(t, strconv.Itoa(number)) || !lives(t, child) {
		t.Fatalf("process %d or its child %s does not live", number, child)
	}
	began := time.Now()
	shut(t, u)
	if took := time.Since(began); took < 5*time.Second {
		t.Errorf("closing took %s, want the patience with stdin and SIGTERM", took)
	}
	if lives(t, strconv.Itoa(number)) {
		t.Errorf("process %d lives", number)
	}
	awaitEnd(t, child)
}

func TestStdinClosedEndsTheProcess(t *testing.T) {
	cfg := command(t, "says good-bye")
	file := filepath.Join(t.TempDir(), "said")
	cfg.Env["FILE"] = mcp.Secret(file)
	u := start(t, cfg)
	number, _ := pid(t, u, "u1:s")
	endSession(u, "u1:s", true)
	shut(t, u)
	if _, err := os.Stat(file); err != nil {
		t.Errorf("it did not end by itself: %v", err)
	}
	if lives(t, strconv.Itoa(number)) {
		t.Error("the process lives")
	}
}

func TestStdioIDs(t *testing.T) {
	u := start(t, command(t, "sound"))
	wantOK(t, u, tool("wrong ids"))
	c := tool("batch")
	steps := 0
	c.Notify = func(mcp.Event) { steps++ }
	wantOK(t, u, c)
	if steps != 1 {
		t.Errorf("%d steps", steps)
	}
	wantOK(t, u, tool("a"))
}

func TestListenSurvivesACrash(t *testing.T) {
	t.Parallel()
	u := start(t, command(t, "sound"))
	end, events := listen(t, u, `{"resourcesListChanged":true,"resourceSubscriptions":["a:b"]}`, "user:session")
	next := func(want string) {
		t.Helper()
		select {
		case e := <-events:
			if e.Method != want {
				t.Errorf("event %s, want %s", e.Method, want)
			}
		case <-time.After(patience):
			t.Fatalf("no %s", want)
		}
	}
	next(mcp.NoteAcknowledged)
	_, err := do(t, u, tool("crash"))
	wantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
	next(mcp.NoteResourcesListChanged) // something may have been missed
	next(mcp.NoteResourceUpdated)
	end()
}

func TestCallerLeavesWhileAProcessStarts(t *testing.T) {
	t.Parallel()
	cfg := command(t, "deaf")
	cfg.Timeout.Connect = 2 * patience
	u := start(t, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := u.Handle(ctx, tool("a"))
		failed <- err
	}()
	cancel()
	select {
	case err := <-failed:
		if err != context.Canceled {
			t.Errorf("error %v", err)
		}
	case <-time.After(patience):
		t.Error("the caller had to wait")
	}
}
