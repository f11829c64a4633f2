package redistest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// startTime bounds how long a server takes to answer, or several servers to agree.
const startTime = 60 * time.Second

// programVariable is the environment variable with the path of the program, if it is not in
// PATH.
const programVariable = "GATEHOUSE_TEST_REDIS"

// Server is a Redis for one test.
type Server struct {
	// Addr is host:port. It does not change over Kill and Restart.
	Addr string

	program string
	args    []string
	bus     string // port for the other nodes of a Cluster

	mu     sync.Mutex // guards the fields below
	cmd    *exec.Cmd
	exited chan struct{}
	output *bytes.Buffer
}

// Start runs a server until the test ends. The arguments are settings of redis.conf in
// pairs, such as "maxmemory", "2mb".
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	program := lookUp(t)
	// Another process may take the port before the server does: try another one.
	for range 5 {
		s := &Server{Addr: mcptest.LoopbackAddress(t), program: program}
		_, port, _ := net.SplitHostPort(s.Addr)
		s.args = []string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no",
			"--dir", t.TempDir(),
			"--repl-diskless-sync-delay", "0"}
		for i := 0; i+1 < len(settings); i += 2 {
			s.args = append(s.args, "--"+settings[i], settings[i+1])
		}
		if slices.Contains(settings, clusterEnabled) {
			// Its default is the port plus 10,000, which may be no port.
			_, s.bus, _ = net.SplitHostPort(mcptest.LoopbackAddress(t))
			s.args = append(s.args, "--cluster-port", s.bus)
		}
		if s.launch(t) == nil {
			t.Cleanup(s.Kill)
			return s
		}
	}
	t.Fatalf("redistest: no %s would start", program)
	return nil
}

// lookUp finds the program, or fails the test.
func lookUp(t testing.TB) string {
	t.Helper()
	if path := os.Getenv(programVariable); path != "" {
		return path
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("redistest: neither redis-server nor valkey-server is in PATH: run \"make redis\", which installs it as root where there is apt, " +
		"or install Redis 7 or Valkey with your system's packages (its service need not run)")
	return ""
}

// URL returns the address in the form of sessions.redis.url.
func (s *Server) URL() string { return "redis://" + s.Addr }

// Restart starts the server again, empty, after Kill.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.launch(t); err != nil {
		t.Fatal(err)
	}
}

// launch starts the process and waits until it answers.
func (s *Server) launch(t testing.TB) error {
	t.Helper()
	s.mu.Lock()
	s.output, s.exited = &bytes.Buffer{}, make(chan struct{})
	s.cmd = exec.Command(s.program, s.args...)
	s.cmd.Stdout, s.cmd.Stderr = s.output, s.output
	cmd, exited, output := s.cmd, s.exited, s.output
	err := cmd.Start()
	s.mu.Unlock()
	if err != nil {
		return err
	}
	go func() { // ends with the process, which Kill waits for
		_ = cmd.Wait()
		close(exited)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	client := s.Client()
	defer client.Close()
	for ctx.Err() == nil {
		if c, err := net.Dial("tcp", s.Addr); err == nil {
			c.Close()
			pid, err := client.Do(ctx, "INFO", "server").Text()
			if err == nil && bytes.Contains([]byte(pid), []byte("process_id:"+strconv.Itoa(cmd.Process.Pid))) {
				return nil
			}
		}
		select {
		case <-exited:
			return fmt.Errorf("redistest: the server ended: %s", output.Bytes())
		case <-time.After(10 * time.Millisecond):
		}
	}
	s.Kill()
	return fmt.Errorf("redistest: the server does not answer: %w", ctx.Err())
}

// Client returns a new client. The test must close it.
func (s *Server) Client() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.Addr, DisableIdentity: true, DialerRetries: 1, MaxRetries: -1})
}

// Kill ends the server as a crash would. It may be called twice.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGKILL) // also ends a stopped process
	<-s.exited
	s.cmd = nil
}

// advance moves the time of one key forward: its expiry, the scores of a sorted set, and
// the fields d, u and w of a hash, which are times in milliseconds.
const advance = `
local by = tonumber(ARGV[1])
if redis.call('TYPE', KEYS[1]).ok == 'hash' then
  for _, field in ipairs({'d', 'u', 'w'}) do
    local at = tonumber(redis.call('HGET', KEYS[1], field) or '')
    if at then redis.call('HSET', KEYS[1], field, string.format('%.0f', at - by)) end
  end
end
if redis.call('TYPE', KEYS[1]).ok == 'zset' then
  local members = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
  for i = 1, #members, 2 do
    redis.call('ZADD', KEYS[1], tonumber(members[i + 1]) - by, members[i])
  end
end
local left = redis.call('PTTL', KEYS[1])
if left >= 0 then
  if left <= by then redis.call('DEL', KEYS[1]) else redis.call('PEXPIRE', KEYS[1], left - by) end
end
return 1`

// Advance moves the time of the server forward without waiting.
func (s *Server) Advance(t testing.TB, d time.Duration) {
	t.Helper()
	client := s.Client()
	defer client.Close()
	ctx := context.Background()
	keys, err := client.Keys(ctx, "*").Result()
	if err == nil && len(keys) > 0 {
		_, err = client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, key := range keys {
				p.Eval(ctx, advance, []string{key}, d.Milliseconds())
			}
			return nil
		})
	}
	if err != nil {
		t.Errorf("redistest: letting time pass: %v", err)
	}
}

// eventually returns when a condition holds.
func eventually(t testing.TB, what string, so func(context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	for !so(ctx) {
		if ctx.Err() != nil {
			t.Fatalf("redistest: %s: it does not come to that", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
