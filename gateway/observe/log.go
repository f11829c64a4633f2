package observe

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

const (
	// queueBytes is how much log may wait for a slow writer; lines beyond are
	// dropped and counted.
	queueBytes = 1 << 20
	// gather is the time between two writes: lines in quick succession share one, for
	// to wake a writer costs a call more than its line does.
	gather = 10 * time.Millisecond
	// closeTimeout bounds how long closing waits for a writer that hangs.
	closeTimeout = 2 * time.Second
)

// Formats of a log.
const (
	FormatText = "text"
	FormatJSON = "json"
)

// LogConfig is the section "log". Its zero value means text from level info on.
type LogConfig struct {
	// Level is the least severe level that is logged: debug, info (the default),
	// warn or error.
	Level slog.Level `yaml:"level"`
	// Format is "text" (key=value, the default) or "json"; one line each.
	Format string `yaml:"format"`
}

// Validate reports what is wrong.
func (c LogConfig) Validate() error {
	if c.Format != "" && c.Format != FormatText && c.Format != FormatJSON {
		return fmt.Errorf("format: %q: want %s or %s", c.Format, FormatText, FormatJSON)
	}
	return nil
}

// NewLogger makes a logger that writes whole lines to w from a goroutine of its
// own, so that a slow w never holds up a call: what it cannot take in time is
// dropped, and a line says how many were. The function returned writes what is
// left and ends the goroutine; lines logged later go to w directly. It may be called
// twice.
func NewLogger(w io.Writer, cfg LogConfig) (*slog.Logger, func(), error) {
	if err := cfg.Validate(); err != nil {
		return nil, nil, fmt.Errorf("log: %w", err)
	}
	handler := func(w io.Writer) slog.Handler {
		options := &slog.HandlerOptions{Level: cfg.Level}
		if cfg.Format == FormatJSON {
			return slog.NewJSONHandler(w, options)
		}
		return slog.NewTextHandler(w, options)
	}
	q := &queue{w: w, own: slog.New(handler(w)), wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	go q.run()
	return slog.New(handler(q)), q.close, nil
}

// queue is an io.Writer that hands lines to one goroutine. Lines that come while it
// writes are written together.
type queue struct {
	w    io.Writer
	own  *slog.Logger // to w directly, for the count of dropped lines
	wake chan struct{}
	stop chan struct{} // closed when closed is set
	done chan struct{}

	mu      sync.Mutex // guards the fields below; not held while run writes
	pending []byte
	dropped int
	closed  bool
}

var errDropped = errors.New("log line dropped")

// Write takes one line.
func (q *queue) Write(line []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return q.writeLate(line)
	}
	if len(q.pending)+len(line) > queueBytes {
		q.dropped++
		return 0, errDropped
	}
	q.pending = append(q.pending, line...)
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return len(line), nil
}

// writeLate writes a line of the process's last moments, unless the goroutine still
// hangs in w.
func (q *queue) writeLate(line []byte) (int, error) {
	select {
	case <-q.done:
		return q.w.Write(line)
	default:
		return 0, errDropped
	}
}

func (q *queue) run() {
	defer close(q.done)
	var spare []byte
	for {
		q.mu.Lock()
		batch, dropped, closed := q.pending, q.dropped, q.closed
		q.pending, q.dropped = spare[:0], 0
		q.mu.Unlock()
		if len(batch) > 0 {
			_, _ = q.w.Write(batch) // there is nowhere to tell that the log cannot be written
		}
		if dropped > 0 {
			q.own.Warn("log lines dropped, the log's writer is too slow", "count", dropped)
		}
		spare = batch
		if len(batch) > 0 || dropped > 0 {
			q.pause()
			continue
		}
		if closed {
			return
		}
		<-q.wake
	}
}

func (q *queue) pause() {
	timer := time.NewTimer(gather)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-q.stop:
	}
}

func (q *queue) close() {
	q.mu.Lock()
	if !q.closed {
		q.closed = true
		close(q.stop)
	}
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
	timeout := time.NewTimer(closeTimeout)
	defer timeout.Stop()
	select {
	case <-q.done:
	case <-timeout.C:
	}
}
