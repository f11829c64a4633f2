package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

const (
	// minMaxLine is the length up to which any message is read, however small the limit
	// for answers; a process that sends a line above both is ended.
	minMaxLine = wire.DefaultMaxResult
	// writeQueue is how many messages wait for a process to read them. One that reads
	// none of so many, or none for the time of a call, is ended.
	writeQueue = 256
)

// errProcessEnded: the process that a message was for has ended.
var errProcessEnded = fmt.Errorf("%w: the process has ended", errBroken)

// stdio starts a process for each connection and speaks to it in lines (2025-11-25
// basic/transports#stdio).
type stdio struct {
	cfg    Config
	log    *slog.Logger
	health *health
	spawn  func(func())
	// outside makes the Room of a process's lines
	outside func(owner *identity) *mcp.Room
}

func newStdio(d transportDeps) (Transport, error) {
	return &stdio{cfg: d.cfg, log: d.log, health: d.health, spawn: d.spawn, outside: d.outside}, nil
}

func (t *stdio) Dial(_ context.Context, owner *identity) (Conn, error) {
	p, err := startProcess(t.cfg, t.log, t.spawn)
	if err != nil {
		return nil, err
	}
	c := &pipe{
		t: t, process: p, room: t.outside(owner), mux: newMux(t.cfg.Limits.ResultBytes, errProcessEnded),
		queue: make(chan []byte, writeQueue), closing: make(chan struct{}), written: make(chan struct{}), lost: make(chan struct{}),
	}
	c.mux.giveUp = func(s *muxStream) {
		_ = c.Post(s.life.ctx, cancelled(s.id, "nobody waits for the answer")) // a lost process needs none
	}
	t.spawn(c.write)
	t.spawn(c.read)
	return c, nil
}

// pipe is the connection to one process: a goroutine that writes, one that reads, and
// a mux that sorts what was read.
type pipe struct {
	t       *stdio
	process *process
	room    *mcp.Room // of the line that is being read
	mux     *mux
	queue   chan []byte
	written chan struct{} // closed when nothing more is written
	lost    chan struct{} // closed when nothing more can be read

	once    sync.Once
	closing chan struct{} // closed by Close
}

func (c *pipe) Header() http.Header   { return nil }
func (c *pipe) Lost() <-chan struct{} { return c.lost }
func (c *pipe) Bind(*wire.Revision)   {}
func (c *pipe) Resume(string)         {}

func (c *pipe) Deliver(private bool, deliver func(wire.Message)) {
	c.mux.setDeliver(private, deliver)
}

// Standing: everything comes on the one pipe.
func (c *pipe) Standing(context.Context, string, func()) (Stream, error) {
	return nil, errNoStanding
}

func (c *pipe) Start(req *Request) (Stream, error) {
	s := c.mux.add(req)
	if s == nil {
		req.Life.end()
		return nil, errProcessEnded
	}
	if err := c.Post(req.Life.ctx, req.Body); err != nil {
		c.mux.remove(s)
		req.Life.end()
		return nil, err
	}
	return s, nil
}

// Post queues a message. It does not wait: a process that does not read is ended.
func (c *pipe) Post(_ context.Context, body []byte) error {
	line := make([]byte, 0, len(body)+1)
	line = append(append(line, body...), '\n')
	if bytes.IndexByte(body, '\n') >= 0 { // white space between tokens; in strings it is escaped
		for i, b := range line[:len(line)-1] {
			if b == '\n' || b == '\r' {
				line[i] = ' '
			}
		}
	}
	select {
	case <-c.lost:
		return errProcessEnded
	case <-c.closing:
		return errEnded
	case c.queue <- line:
		return nil
	default:
		c.t.log.Warn("process does not read its input, it is ended")
		c.process.kill()
		return fmt.Errorf("%w: the process does not read", errBroken)
	}
}

func (c *pipe) write() {
	defer close(c.written)
	for {
		select {
		case line := <-c.queue:
			_ = c.process.stdin.SetWriteDeadline(time.Now().Add(c.t.cfg.Timeout.Call))
			if _, err := c.process.stdin.Write(line); err != nil {
				select {
				case <-c.closing: // it is being ended anyway, more gently
				default:
					c.process.kill() // it may have half a message now
				}
				return
			}
		case <-c.lost:
			return
		case <-c.closing:
			if len(c.queue) == 0 {
				return
			}
		}
	}
}

// read sorts the messages until the output ends.
func (c *pipe) read() {
	defer c.process.stdout.Close()
	defer c.room.Free()
	maxLine := max(minMaxLine, int(c.t.cfg.Limits.ResultBytes))
	counted := &metered{Reader: c.process.stdout, room: c.room}
	lines := wire.NewLineReader(counted, maxLine)
	var garbage tolerance
	for {
		line, err := lines.Next()
		if err != nil {
			switch {
			case errors.Is(err, wire.ErrTooLarge):
				c.t.log.Warn("process sent a line that is too long, it is ended", "limit", maxLine)
			case errors.Is(err, errNoRoom):
				c.mux.lost = fmt.Errorf("%w: %w", errNoRoom, errProcessEnded)
				c.t.log.Warn("process sent a large line for which there is no room, it is ended")
			}
			break
		}
		counted.next(lines.Buffered())
		if len(bytes.TrimSpace(line)) == 0 || c.mux.take(line) {
			continue
		}
		c.t.health.garbage.Add(1)
		c.t.log.Debug("line skipped that is no message", "bytes", len(line))
		if garbage.spent() {
			c.t.log.Warn("process sends too much that is no message, it is ended")
			break
		}
	}
	c.process.kill()
	var wanted bool // asked before anybody hears of the end, since they may close us then
	select {
	case <-c.closing:
		wanted = true
	default:
	}
	close(c.lost) // first: who hears of the end below and calls again gets another process
	c.mux.end()
	<-c.process.exited
	if !wanted {
		c.t.log.Warn("process ended", "state", c.process.state, "stderr", c.process.lastWords())
	}
}

// Close ends the process, and the calls that it still has.
func (c *pipe) Close(ctx context.Context) error {
	c.once.Do(func() { close(c.closing) })
	select {
	case <-c.written: // the last cancellations, say
	case <-ctx.Done():
	}
	c.process.end(ctx)
	<-c.lost
	return nil
}
