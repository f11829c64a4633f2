package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"time"
)

// logBytes is the size of the end of a process's output that is kept.
const logBytes = 64 << 10

// grace is how long a process has to end by itself. A gateway takes at most 10 s more than its
// shutdown_delay and shutdown_timeout together; those of the soak are 5.5 s.
const grace = 20 * time.Second

// dumpTime is how long a process has to write its goroutines.
const dumpTime = 2 * time.Second

// Process is a child process with its descendants.
type Process struct {
	cmd  *exec.Cmd
	log  *log
	done chan struct{} // closed when it has ended
	err  error         // why it ended; read after done
}

// Start starts a command in its own process group. If the command has no destination for
// its output, Log keeps it.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, log: &log{}, done: make(chan struct{})}
	if cmd.Stdout == nil && cmd.Stderr == nil {
		cmd.Stdout, cmd.Stderr = p.log, p.log
	}
	ownGroup(cmd)
	// Grandchildren that hold the output open must not block Wait.
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended. Err then says why, nil if it ended well.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns why the process ended. Call it after Done.
func (p *Process) Err() error { return p.err }

// Signal sends a signal to the process.
func (p *Process) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// Log returns the end of the process's standard output and error.
func (p *Process) Log() string { return p.log.String() }

// Stop asks the process to end and waits for it. It kills what is left of its group when
// grace is over or the process has ended. The error then says that it did not end by
// itself, and the output of a Go process has its goroutines.
func (p *Process) Stop() error {
	defer killGroup(p.cmd)
	select {
	case <-p.done:
		return nil
	default:
	}
	if err := terminate(p.cmd.Process); err != nil && !errors.Is(err, os.ErrProcessDone) { // it is ending
		return err
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
	}
	p.dump()
	killGroup(p.cmd)
	<-p.done
	return fmt.Errorf("%s did not end within %s of SIGTERM", p.cmd.Path, grace)
}

// dump has a Go process write its goroutines, and waits a little until it has.
func (p *Process) dump() {
	if quit(p.cmd.Process) != nil {
		return
	}
	timer := time.NewTimer(dumpTime)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
	}
}

// WaitListening waits until a loopback address accepts connections, or until the process
// has ended.
func (p *Process) WaitListening(ctx context.Context, addr string) error {
	return p.WaitFor(ctx, func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// WaitFor calls ready until it returns nil, the process has ended or the context is done.
// The error has the last error of ready and the process's log.
func (p *Process) WaitFor(ctx context.Context, ready func(context.Context) error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended: %w\n%s", p.cmd.Path, errors.Join(p.err, err), p.Log())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w\n%s", p.cmd.Path, err, p.Log())
		case <-tick.C:
		}
	}
}

// log keeps the end of what is written to it.
type log struct {
	mu   sync.Mutex // guards data
	data []byte
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.data = append(l.data, p...)
	if len(l.data) > 2*logBytes {
		l.data = append(l.data[:0], tail(l.data, logBytes)...)
	}
	return len(p), nil
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(tail(l.data, logBytes))
}
