package stdio_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

func TestStdioEnvironment(t *testing.T) {
	t.Setenv("GATEHOUSE_SECRET", "hunter2")
	t.Setenv("HOME", "/home/gatehouse")
	cfg := fake.Command(t, "sound")
	cfg.Env["API_KEY"] = "k"
	_, env := fake.PID(t, fake.Start(t, cfg), "s")
	if strings.Contains(env, "hunter2") || !strings.Contains(env, `"API_KEY=k"`) ||
		!strings.Contains(env, `"HOME=/home/gatehouse"`) {
		t.Errorf("environment %s", env)
	}
}

func TestProcessPerSession(t *testing.T) {
	u := fake.Start(t, fake.Command(t, "sound"))
	a, _ := fake.PID(t, u, "u1:s")
	b, _ := fake.PID(t, u, "u2:s")
	again, _ := fake.PID(t, u, "u1:s")
	if a == b || a != again {
		t.Errorf("processes %d, %d and again %d", a, b, again)
	}
	cfg := fake.Command(t, "sound")
	cfg.Shared = true
	u = fake.Start(t, cfg)
	a, _ = fake.PID(t, u, "u1:s")
	if b, _ = fake.PID(t, u, "u2:s"); a != b {
		t.Errorf("shared: processes %d and %d", a, b)
	}
}

func TestCrash(t *testing.T) {
	t.Parallel()
	u := fake.Start(t, fake.Command(t, "sound"))
	other, _ := fake.PID(t, u, "u2:s")
	_, err := fake.Do(t, u, fake.Tool("crash"))
	fake.WantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
	if still, _ := fake.PID(t, u, "u2:s"); still != other {
		t.Error("another session's process was restarted, too")
	}
	fake.WantOK(t, u, fake.Tool("a")) // started again
	if n := u.Status().Restarts; n != 1 {
		t.Errorf("%d restarts", n)
	}
}

func TestCrashAtStart(t *testing.T) {
	cfg := fake.Command(t, "crash at start")
	cfg.Revision = "2025-06-18"
	u := fake.Start(t, cfg)
	_, err := fake.Do(t, u, fake.Tool("a"))
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
	u := fake.Start(t, upstream.Config{Command: []string{"/no/such/program"}})
	_, err := fake.Do(t, u, fake.Tool("a"))
	fake.WantError(t, err, mcp.CodeUpstreamUnreachable, mcp.ExecutedNo)
}

func TestGarbageAndNoise(t *testing.T) {
	t.Parallel()
	u := fake.Start(t, fake.Command(t, "sound"))
	_, err := fake.Do(t, u, fake.Tool("much garbage"))
	fake.WantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
	if s := u.Status(); s.Garbage < 100 {
		t.Errorf("%d lines of garbage", s.Garbage)
	}
	fake.WantOK(t, u, fake.Tool("a"))
}

// A process that writes 20 MiB to its standard error before it reads a message is not
// blocked by that, and little of it is logged.
func TestNoisyStderr(t *testing.T) {
	t.Parallel()
	cfg, log := fake.Command(t, "noisy stderr"), &mcptest.Log{}
	began := time.Now()
	u, err := fake.NewUpstream(t, cfg, upstream.Deps{Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fake.Close(t, u) })
	fake.WantOK(t, u, fake.Tool("a"))
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
	u := fake.Start(t, fake.Command(t, "sound"))
	_, err := fake.Do(t, u, fake.Tool("long line"))
	fake.WantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
	fake.WantOK(t, u, fake.Tool("a"))
}

func TestLimitAboveTheDefault(t *testing.T) {
	t.Parallel()
	cfg := fake.Command(t, "sound")
	cfg.Limits.ResultBytes = 32 << 20
	u := fake.Start(t, cfg)
	if n := len(fake.MustDo(t, u, fake.Tool("long answer")).Result); n < 20<<20 {
		t.Errorf("%d bytes", n)
	}
}

// deaf starts an Upstream whose process reads nothing. pid waits until the process exists
// and returns its id.
func deaf(t *testing.T, cfg upstream.Config) (u *fake.Upstream, pid func() string) {
	t.Helper()
	deaf := fake.Command(t, "deaf")
	file := filepath.Join(t.TempDir(), "pid")
	deaf.Env["FILE"] = mcp.Secret(file)
	deaf.Revision, deaf.Timeout, deaf.Limits = "2026-07-28", cfg.Timeout, cfg.Limits
	return fake.Start(t, deaf), func() string {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for end := time.Now().Add(fake.Patience); time.Now().Before(end); <-tick.C {
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
	c := fake.Tool("a")
	c.Params = mcp.Raw(`{"name":"a","arguments":{"x":"` + strings.Repeat("x", 1<<20) + `"}}`)
	return c
}

// A process that does not read a call within the time limit of calls is killed. Its callers
// wait no longer than that.
func TestDoesNotRead(t *testing.T) {
	mcptest.Long(t) // the limit is enough to start a process
	t.Parallel()
	u, pid := deaf(t, upstream.Config{Timeout: upstream.Timeout{Call: 10 * time.Second}})
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
			fake.WantError(t, err, e.Code, mcp.ExecutedUnknown)
		case <-time.After(fake.Patience):
			t.Fatal("a caller hangs")
		}
	}
	fake.AwaitEnd(t, number)
}

// A process for which too many messages wait is killed, however much time its calls have
// left, and all callers are told at once.
func TestQueueIsFull(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	const queued = 256
	u, pid := deaf(t, upstream.Config{
		Timeout: upstream.Timeout{Call: 2 * fake.Patience},
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
		go handle(fake.Tool("a"))
	}
	lost := 0
	for timeout := time.After(fake.Patience); lost < 1+queued+1; lost++ { // in the pipe, in the queue, and too many
		select {
		case err := <-outcome:
			fake.WantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
		case <-timeout:
			t.Fatalf("%d calls have ended", lost)
		}
	}
	fake.AwaitEnd(t, number)
	cancel() // the others wait for the next process
	for range cap(outcome) - lost {
		select {
		case <-outcome:
		case <-time.After(fake.Patience):
			t.Fatal("a caller hangs")
		}
	}
}

// A descendant outside of the process's group may hold the output open for ever.
func TestDescendantOutsideOfTheGroup(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	u := fake.Start(t, fake.Command(t, "leaves its group"))
	orphan := func() {
		_, env := fake.PID(t, u, fake.Tool("").Session)
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
	_, err := fake.Do(t, u, fake.Tool("crash"))
	fake.WantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
	orphan() // of another process
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		fake.Close(t, u)
	}()
	select {
	case <-closed:
	case <-time.After(fake.Patience):
		t.Fatal("closing hangs")
	}
}

func TestIgnoresSigtermAndHasChildren(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	u := fake.Start(t, fake.Command(t, "ignores SIGTERM"))
	number, env := fake.PID(t, u, "u1:s")
	_, child, _ := strings.Cut(env, `"CHILD=`)
	child, _, _ = strings.Cut(child, `"`)
	if !fake.Lives(t, strconv.Itoa(number)) || !fake.Lives(t, child) {
		t.Fatalf("process %d or its child %s does not live", number, child)
	}
	began := time.Now()
	fake.Close(t, u)
	if took := time.Since(began); took < 5*time.Second {
		t.Errorf("closing took %s, want the patience with stdin and SIGTERM", took)
	}
	if fake.Lives(t, strconv.Itoa(number)) {
		t.Errorf("process %d lives", number)
	}
	fake.AwaitEnd(t, child)
}

func TestStdinClosedEndsTheProcess(t *testing.T) {
	cfg := fake.Command(t, "says good-bye")
	file := filepath.Join(t.TempDir(), "said")
	cfg.Env["FILE"] = mcp.Secret(file)
	u := fake.Start(t, cfg)
	number, _ := fake.PID(t, u, "u1:s")
	u.EndSession("u1:s", true)
	fake.Close(t, u)
	if _, err := os.Stat(file); err != nil {
		t.Errorf("it did not end by itself: %v", err)
	}
	if fake.Lives(t, strconv.Itoa(number)) {
		t.Error("the process lives")
	}
}

func TestStdioIDs(t *testing.T) {
	u := fake.Start(t, fake.Command(t, "sound"))
	fake.WantOK(t, u, fake.Tool("wrong ids"))
	c := fake.Tool("batch")
	steps := 0
	c.Notify = func(mcp.Event) { steps++ }
	fake.WantOK(t, u, c)
	if steps != 1 {
		t.Errorf("%d steps", steps)
	}
	fake.WantOK(t, u, fake.Tool("a"))
}

func TestListenSurvivesACrash(t *testing.T) {
	t.Parallel()
	u := fake.Start(t, fake.Command(t, "sound"))
	end, events := fake.Listen(t, u, `{"resourcesListChanged":true,"resourceSubscriptions":["a:b"]}`, "user:session")
	next := func(want string) {
		t.Helper()
		select {
		case e := <-events:
			if e.Method != want {
				t.Errorf("event %s, want %s", e.Method, want)
			}
		case <-time.After(fake.Patience):
			t.Fatalf("no %s", want)
		}
	}
	next(mcp.NoteAcknowledged)
	_, err := fake.Do(t, u, fake.Tool("crash"))
	fake.WantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
	next(mcp.NoteResourcesListChanged) // something may have been missed
	next(mcp.NoteResourceUpdated)
	end()
}

func TestCallerLeavesWhileAProcessStarts(t *testing.T) {
	t.Parallel()
	cfg := fake.Command(t, "deaf")
	cfg.Timeout.Connect = 2 * fake.Patience
	u := fake.Start(t, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := u.Handle(ctx, fake.Tool("a"))
		failed <- err
	}()
	cancel()
	select {
	case err := <-failed:
		if err != context.Canceled {
			t.Errorf("error %v", err)
		}
	case <-time.After(fake.Patience):
		t.Error("the caller had to wait")
	}
}
