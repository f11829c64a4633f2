package stdio

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

const (
	termWait       = 2 * time.Second // between SIGTERM and SIGKILL
	outputWait     = 2 * time.Second // for what an ended process wrote
	stderrRingSize = 64 << 10
)

// inherited are the variables that a process gets from the gateway's environment;
// credentials of the gateway are never among them.
var inherited = []string{"PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "SYSTEMROOT", "TEMP", "TMP"}

// process is a running server process with its three pipes. It leads a process group
// of its own, so that its children end with it.
type process struct {
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	stderr *os.File
	log    *slog.Logger
	exited chan struct{} // closed when it ended; state and its group are gone by then
	state  string        // written before exited is closed
	silent chan struct{} // closed when all of stderr was read, soon after exited
	tail   ring
	said   *transport.Chatter

	mu     sync.Mutex // guards reaped
	reaped bool       // its number may be another's by now
}

// startProcess starts the configured command without a shell. It runs two goroutines,
// for stderr and for the end, until the process has ended.
func startProcess(cfg Config, env transport.Env) (*process, error) {
	cmd := exec.Command(cfg.Command[0], cfg.Command[1:]...)
	cmd.Dir = cfg.Dir
	cmd.Env = environment(cmd.Environ(), cfg.Env)
	ownGroup(cmd)
	var pipes [3]struct{ r, w *os.File } // stdin, stdout, stderr
	fail := func(err error) (*process, error) {
		for _, p := range pipes {
			p.r.Close() // nothing happens to one that is nil
			p.w.Close()
		}
		return nil, fmt.Errorf("%w: starting the process: %w", transport.ErrNotSent, err)
	}
	for i := range pipes {
		var err error
		if pipes[i].r, pipes[i].w, err = os.Pipe(); err != nil {
			return fail(err)
		}
	}
	in, out, said := pipes[0], pipes[1], pipes[2]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in.r, out.w, said.w
	if err := cmd.Start(); err != nil {
		return fail(err)
	}
	for _, f := range []*os.File{in.r, out.w, said.w} {
		f.Close()
	}
	p := &process{cmd: cmd, stdin: in.w, stdout: out.r, stderr: said.r, log: env.Log, said: transport.NewChatter(env.Log),
		exited: make(chan struct{}), silent: make(chan struct{})}
	env.Spawn(func() {
		defer close(p.silent)
		p.readStderr()
	})
	env.Spawn(p.wait)
	return p, nil
}

// environment is what is inherited and what is configured, which wins.
func environment(gateway []string, configured map[string]mcp.Secret) []string {
	var env []string
	for _, entry := range gateway {
		name, _, _ := strings.Cut(entry, "=")
		if _, set := configured[name]; !set && slices.Contains(inherited, strings.ToUpper(name)) {
			env = append(env, entry)
		}
	}
	for name, value := range configured {
		env = append(env, name+"="+string(value))
	}
	return env
}

// wait reaps the process and what is left of its group.
func (p *process) wait() {
	_ = p.cmd.Wait() // the state tells all
	p.signal(true)   // what it left behind
	p.mu.Lock()
	p.reaped = true
	p.mu.Unlock()
	p.state = p.cmd.ProcessState.String()
	close(p.exited)
	p.stdin.Close()
	// Somebody outside of its group may have the other ends: they are not waited for.
	end := time.Now().Add(outputWait)
	_ = p.stdout.SetReadDeadline(end) // it fails where the reader has closed it
	_ = p.stderr.SetReadDeadline(end)
}

// kill ends the process at once.
func (p *process) kill() { p.signal(true) }

func (p *process) signal(kill bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		signalGroup(p.cmd, kill)
	}
}

// end closes stdin, which asks the process to end, and sees to it that it does: it
// waits until ctx ends, then sends SIGTERM, then SIGKILL.
func (p *process) end(ctx context.Context) {
	p.stdin.Close()
	select {
	case <-p.exited:
		return
	case <-ctx.Done():
	}
	p.signal(false)
	timer := time.NewTimer(termWait)
	defer timer.Stop()
	select {
	case <-p.exited:
		return
	case <-timer.C:
	}
	p.signal(true)
	<-p.exited
}

// lastWords is the end of what an ended process wrote to stderr.
func (p *process) lastWords() string {
	<-p.silent
	return p.tail.last(transport.ChatterLine)
}

// readStderr logs what the process says, as far as it says little. It is never a
// sign of failure.
func (p *process) readStderr() {
	defer p.stderr.Close()
	buf := make([]byte, 4<<10)
	var line []byte
	say := func() {
		p.said.Say("stderr", "line", string(line))
		line = line[:0]
	}
	for {
		n, err := p.stderr.Read(buf)
		p.tail.write(buf[:n])
		for rest := buf[:n]; len(rest) > 0; {
			part, after, whole := bytes.Cut(rest, []byte{'\n'})
			line = append(line, part[:min(len(part), transport.ChatterLine-len(line))]...)
			if rest = after; whole {
				line = bytes.TrimRight(line, "\r")
				say()
			}
		}
		if err != nil {
			if len(line) > 0 {
				say()
			}
			if err != io.EOF {
				p.log.Debug("stderr ended", "error", err)
			}
			return
		}
	}
}

// ring keeps the end of what was written, for the log line about a crash.
type ring struct {
	mu  sync.Mutex // guards buf
	buf []byte
}

func (r *ring) write(b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.buf = append(r.buf, b...); len(r.buf) > stderrRingSize {
		r.buf = append(r.buf[:0], r.buf[len(r.buf)-stderrRingSize/2:]...)
	}
}

// last returns at most n bytes of the end.
func (r *ring) last(n int) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return string(r.buf[max(0, len(r.buf)-n):])
}
