package stdio

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport/stdio/sandbox"
)

// TermWait is the time between SIGTERM and SIGKILL, which come after the context of Close has
// ended. Close waits for nothing else then.
const TermWait = 2 * time.Second

const (
	outputWait = 2 * time.Second        // for what an ended process wrote
	exitWait   = 500 * time.Millisecond // for the exit of a process that has closed its output
)

// inherited are the variables that a process gets from the gateway's environment;
// credentials of the gateway are never among them.
var inherited = []string{"PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "SYSTEMROOT", "TEMP", "TMP"}

// places are those of them that name directories of the gateway's user.
var places = []string{"HOME", "TMPDIR", "TEMP", "TMP"}

// process is a running server process with its three pipes. It leads a process group
// of its own, so that its children end with it.
type process struct {
	cmd    *exec.Cmd
	box    *sandbox.Box // nil for none
	stdin  *os.File
	stdout *os.File
	stderr *os.File
	exited chan struct{}      // closed when it ended; its group is gone by then, and cmd says how
	silent chan struct{}      // closed when all of stderr was read, soon after exited
	last   *transport.Program // complete when silent is closed
	hurry  atomic.Bool        // its end was waited for long enough

	mu     sync.Mutex // guards the field below
	reaped bool       // its number may be another's by now
}

// startProcess starts the configured command without a shell. It runs two goroutines,
// for stderr and for the end, until the process has ended.
func startProcess(cfg Config, env transport.Env) (*process, error) {
	cmd := exec.Command(cfg.Command[0], cfg.Command[1:]...)
	cmd.Dir = cfg.Dir
	cmd.Env = environment(cmd.Environ(), cfg)
	ownGroup(cmd)
	var box *sandbox.Box
	var pipes [3]struct{ r, w *os.File } // stdin, stdout, stderr
	fail := func(err error) (*process, error) {
		for _, p := range pipes {
			p.r.Close() // nothing happens to one that is nil
			p.w.Close()
		}
		box.Close()
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
	if cfg.Sandbox != nil {
		var err error
		if box, err = sandbox.Enclose(cmd, *cfg.Sandbox); err != nil {
			return fail(unboxed(err))
		}
	}
	if err := start(cmd, cfg.NewPrivileges); err != nil {
		return fail(err)
	}
	if err := box.Started(); err != nil {
		signalGroup(cmd, true)
		_ = cmd.Wait() // the launcher has said why
		return fail(unboxed(err))
	}
	for _, f := range []*os.File{in.r, out.w, said.w} {
		f.Close()
	}
	p := &process{cmd: cmd, box: box, stdin: in.w, stdout: out.r, stderr: said.r,
		exited: make(chan struct{}), silent: make(chan struct{}), last: &transport.Program{}}
	env.Program.Store(p.last)
	env.Spawn(func() { p.readStderr(env.Log) })
	env.Spawn(p.wait)
	return p, nil
}

// unboxed is the error of a program that got no box. It wraps nothing, so that operators read all of it.
func unboxed(err error) error { return errors.New("sandbox: " + err.Error()) }

// environment returns the inherited variables and the configured ones, which win. A box has its own
// directories.
func environment(gateway []string, cfg Config) []string {
	var env []string
	for _, entry := range gateway {
		name, _, _ := strings.Cut(entry, "=")
		_, set := cfg.Env[name]
		if !set && slices.Contains(inherited, strings.ToUpper(name)) &&
			(cfg.Sandbox == nil || !slices.Contains(places, name)) {
			env = append(env, entry)
		}
	}
	for name, value := range cfg.Env {
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
	p.last.End(p.cmd.ProcessState.String())
	close(p.exited)
	p.stdin.Close()
	// Processes outside of its group may have the other ends: they are not waited for.
	end := time.Now()
	if !p.hurry.Load() {
		end = end.Add(outputWait)
	}
	_ = p.stdout.SetReadDeadline(end) // it fails where the reader has closed it
	_ = p.stderr.SetReadDeadline(end)
	p.box.Close()
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

// end closes stdin, which asks the process to end, and makes sure that it does: it waits until ctx
// ends, then sends SIGTERM, then SIGKILL.
func (p *process) end(ctx context.Context) {
	p.stdin.Close()
	select {
	case <-p.exited:
		return
	case <-ctx.Done():
	}
	p.hurry.Store(true)
	p.signal(false)
	select {
	case <-p.exited:
		return
	case <-time.After(TermWait):
	}
	p.signal(true)
	<-p.exited
}

// readStderr logs the beginning of each line that the process writes, up to a rate. What it
// says there is never a sign of failure.
func (p *process) readStderr(log *slog.Logger) {
	defer close(p.silent)
	defer p.stderr.Close()
	said := transport.NewChatter(log)
	lines := bufio.NewReader(io.TeeReader(p.stderr, p.last))
	for within := false; ; {
		line, more, err := lines.ReadLine()
		if err != nil {
			if err != io.EOF {
				log.Debug("stderr ended", "error", err)
			}
			return
		}
		if !within {
			said.Say("stderr", "line", transport.ClipLine(line))
		}
		within = more
	}
}
