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

// logBytes is how much of the end of a process's output is kept.
const logBytes = 64 << 10

// grace is how long a process may take to end by itself.
const grace = 10 * time.Second

// Process is a child process and all that it starts.
type Process struct {
	cmd  *exec.Cmd
	log  *log
	done chan struct{} // closed when it has ended
	err  error         // why; read after done
}

// Start starts a command in a process group of its own. Output that the command
// sends nowhere yet is kept for Log.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, log: &log{}, done: make(chan struct{})}
	if cmd.Stdout == nil && cmd.Stderr == nil {
		cmd.Stdout, cmd.Stderr = p.log, p.log
	}
	ownGroup(cmd)
	// Grandchildren that keep the output open must not keep Wait.
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

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends it a signal.
func (p *Process) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// Log is the end of what the process wrote to its standard output and error.
func (p *Process) Log() string { return p.log.String() }

// Stop asks the process to end and waits for it. What is left of its group after
// the time of grace, or after the process itself, is killed; the error then says
// that it did not end by itself.
func (p *Process) Stop() error {
	defer killGroup(p.cmd)
	select {
	case <-p.done:
		return nil
	default:
	}
	if err := terminate(p.cmd.Process); err != nil && !errors.Is(err, os.ErrProcessDone) { // it ends just now
		return err
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
	}
	killGroup(p.cmd)
	<-p.done
	return fmt.Errorf("%s did not end within %s of SIGTERM", p.cmd.Path, grace)
}

// WaitListening waits until somebody accepts connections at a loopback address,
// or the process has ended.
func (p *Process) WaitListening(ctx context.Context, addr string) error {
	return p.WaitFor(ctx, func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// WaitFor calls ready until it returns nil, the process has ended or the context
// is done; the error tells the last one of ready, and the process's log.
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
