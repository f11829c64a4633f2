// Package stdio reaches a server that is a program. It starts a process for each connection and
// speaks to it in lines (2025-11-25 basic/transports#stdio).
//
// It owns the process, its group and its end, and what it says on stderr. It leaves the
// sorting of its messages to package transport, and boxes to package sandbox. It starts four
// goroutines for a process: for its input, its output, its stderr and its end, and one more for its
// lifetime.
package stdio

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport/stdio/sandbox"
)

// writeQueue is how many messages wait for a process to read them. A process that lets more
// wait, or reads none for Config.Patience, is ended.
const writeQueue = 256

const (
	lookEvery = time.Second     // how often a process that has lived long enough is asked whether it has calls
	lastWait  = 5 * time.Second // for its end after that
)

// errProcessEnded: the process that a message was for has ended.
var errProcessEnded = fmt.Errorf("%w: the process has ended", transport.ErrBroken)

var words = transport.Words{
	Ended:   errProcessEnded,
	TooLong: "process sent a line that is too long, it is ended",
	NoRoom:  "process sent a large line for which there is no room, it is ended",
	Skipped: "line skipped that is no message",
	Garbage: "process sends too much that is no message, it is ended",
}

// Config is the program of a server.
type Config struct {
	// Command is the program and its arguments, started without a shell.
	Command []string
	// Env is the environment, on top of what is inherited.
	Env map[string]mcp.Secret
	// Dir is the working directory, "" for the gateway's.
	Dir string
	// NewPrivileges lets the program gain privileges that the gateway has not.
	NewPrivileges bool
	// Sandbox is the box of the program, nil for none.
	Sandbox *sandbox.Config
	// Patience is how long the process may take to read what is written to it.
	Patience time.Duration
}

// New makes the Transport of a program.
func New(env transport.Env, cfg Config) transport.Transport { return &program{env, cfg} }

type program struct {
	env transport.Env
	cfg Config
}

// Dial starts a process.
func (t *program) Dial(_ context.Context, owner *transport.Identity) (transport.Conn, error) {
	p, err := startProcess(t.cfg, t.env)
	if err != nil {
		return nil, err
	}
	c := &conn{t: t, process: p, queue: make(chan []byte, writeQueue), written: make(chan struct{})}
	c.Pipe = transport.NewPipe(t.env, owner, p.stdout, words, func(id int64, cause error) {
		_ = c.write(transport.Cancelled(id, cause, "nobody waits for the answer")) // a lost process needs none
	})
	if cfg := t.cfg.Sandbox; cfg != nil && cfg.Lifetime > 0 {
		t.env.Spawn(func() { c.stopAfter(cfg.Lifetime) })
	}
	t.env.Spawn(c.writeAll)
	t.env.Spawn(c.readAll)
	return c, nil
}

// conn is the connection to one process: a goroutine that writes and one that reads.
type conn struct {
	*transport.Pipe
	t       *program
	process *process
	queue   chan []byte
	written chan struct{} // closed when nothing more is written
}

func (c *conn) Header() http.Header { return nil }
func (c *conn) Bind(*wire.Revision) {}

func (c *conn) Start(req *transport.Request) (transport.Stream, error) {
	s := c.Begin(req, nil)
	if s == nil {
		req.Life.End()
		if c.Quitting.Err() == nil {
			return nil, errProcessEnded
		}
		return nil, fmt.Errorf("%w: the process has ended with its lifetime", transport.ErrSessionGone)
	}
	if err := c.write(req.Body); err != nil {
		s.Fail(err)
		s.Close()
		return nil, err
	}
	return s, nil
}

func (c *conn) Post(_ context.Context, body []byte) error { return c.write(body) }

// write queues a message. It does not wait: a process that does not read is ended.
func (c *conn) write(body []byte) error {
	line := append(append(make([]byte, 0, len(body)+1), body...), '\n')
	if bytes.IndexByte(body, '\n') >= 0 { // white space between tokens; in strings it is escaped
		for i, b := range line[:len(line)-1] {
			if b == '\n' || b == '\r' {
				line[i] = ' '
			}
		}
	}
	select {
	case <-c.Lost():
		return errProcessEnded
	case <-c.Quitting.Done():
		return transport.ErrEnded
	case c.queue <- line:
		return nil
	default:
		c.t.env.Log.Warn("process does not read its input, it is ended", failure.UpstreamEnded.Attr())
		c.process.kill()
		return fmt.Errorf("%w: the process does not read", transport.ErrBroken)
	}
}

func (c *conn) writeAll() {
	defer close(c.written)
	for {
		select {
		case line := <-c.queue:
			_ = c.process.stdin.SetWriteDeadline(time.Now().Add(c.t.cfg.Patience))
			if _, err := c.process.stdin.Write(line); err != nil {
				if c.Quitting.Err() == nil { // else it is being ended anyway, more gently
					c.process.kill() // it may have half a message now
				}
				return
			}
		case <-c.Lost():
			return
		case <-c.Quitting.Done():
			if len(c.queue) == 0 {
				return
			}
		}
	}
}

// readAll reads until the output ends, and sees to the end of the process.
func (c *conn) readAll() {
	defer c.process.stdout.Close()
	lines := wire.NewLineReader(c.Pipe, c.MaxDocument())
	lost := c.Sort(lines.Next, lines.Buffered)
	if c.Quitting.Err() == nil { // who learns of the end below is to learn why
		select {
		case <-c.process.exited:
		case <-time.After(exitWait):
		case <-c.Quitting.Done():
		}
		c.process.kill()
		<-c.process.silent
	}
	c.process.kill()
	wanted := c.End(lost)
	<-c.process.exited
	if !wanted {
		<-c.process.silent
		said, state := c.process.last.Last()
		c.t.env.Log.Warn("process ended", failure.UpstreamEnded.Attr(), "state", state, "stderr", said)
	}
}

// stopAfter ends the process at the end of its lifetime, between two calls: it looks again until
// there are none.
func (c *conn) stopAfter(lifetime time.Duration) {
	timer := time.NewTimer(lifetime)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-c.Lost():
			return
		case <-c.Quitting.Done():
			return
		}
		if c.Stop() {
			break
		}
		timer.Reset(lookEvery)
	}
	c.Quit()
	c.t.env.Log.Info("process has reached its lifetime, it is ended")
	ctx, cancel := context.WithTimeout(context.Background(), lastWait)
	defer cancel()
	c.process.end(ctx)
}

// Close ends the process, and the calls that it still has.
func (c *conn) Close(ctx context.Context) error {
	c.Quit()
	select {
	case <-c.written: // the last cancellations, say
	case <-ctx.Done():
	}
	c.process.end(ctx)
	<-c.Lost()
	return nil
}
