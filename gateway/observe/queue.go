package observe

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
)

// later is a slog.Handler that leaves formatting to the queue's goroutine: formatting many
// records together is much cheaper than formatting each one during its call.
type later struct {
	q    *queue
	now  slog.Handler // writes to q
	then slog.Handler // writes to q.batch, for q.run only
}

// Enabled reports whether records of this level are logged.
func (l *later) Enabled(ctx context.Context, level slog.Level) bool {
	return l.now.Enabled(ctx, level)
}

// Handle queues a record. A record with values that may change is formatted at once. Those of
// calls have none.
func (l *later) Handle(ctx context.Context, r slog.Record) error {
	size := recordBytes + len(r.Message)
	constant := true
	r.Attrs(func(a slog.Attr) bool {
		switch a.Value.Kind() {
		case slog.KindString:
			size += len(a.Value.String())
		case slog.KindAny, slog.KindGroup, slog.KindLogValuer:
			constant = false
		}
		return constant
	})
	if !constant {
		return l.now.Handle(ctx, r)
	}
	kind := ofOperators
	if r.Message == callMessage {
		kind = ofCalls
	}
	taken, err := l.q.put(entry{handler: l.then, record: r}, kind, size)
	if !taken {
		return l.now.Handle(ctx, r) // the goroutine has ended
	}
	return err
}

// WithAttrs returns a handler that adds these attributes to its records.
func (l *later) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &later{l.q, l.now.WithAttrs(attrs), l.then.WithAttrs(attrs)}
}

// WithGroup returns a handler that puts its records in this group.
func (l *later) WithGroup(name string) slog.Handler {
	return &later{l.q, l.now.WithGroup(name), l.then.WithGroup(name)}
}

// entry is a line, or a record that becomes one.
type entry struct {
	line    []byte
	handler slog.Handler // nil for a line
	record  slog.Record
}

// lines are the kinds of lines. Each has room of its own, so that many calls do not displace the
// lines that operators wait for.
type lines int

const (
	ofOperators lines = iota
	ofCalls
	kinds
)

// queue passes entries to one goroutine, and is the io.Writer for lines. Entries that
// arrive during a write are written together.
type queue struct {
	w   io.Writer
	own *slog.Logger // writes to w directly, to report dropped lines

	metrics *LogMetrics

	wake chan struct{}
	much chan struct{} // holds one token: a quarter of the queue is full
	stop chan struct{} // closed when closed is set
	done chan struct{}

	batch bytes.Buffer // of run only

	mu      sync.Mutex // guards the fields below; not held while run writes
	pending []entry
	size    [kinds]int // of the pending lines, in bytes
	dropped int
	closed  bool
}

var errDropped = errors.New("log line dropped")

// Write takes one line.
func (q *queue) Write(line []byte) (int, error) {
	taken, err := q.put(entry{line: bytes.Clone(line)}, ofOperators, recordBytes+len(line))
	if !taken {
		return q.writeLate(line)
	}
	if err != nil {
		return 0, err
	}
	return len(line), nil
}

// put queues an entry. It returns false if the queue is closed.
func (q *queue) put(e entry, kind lines, size int) (taken bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false, nil
	}
	if q.size[kind]+size > queueBytes {
		q.dropped++
		q.metrics.dropped.Inc()
		return true, errDropped
	}
	q.pending = append(q.pending, e)
	q.size[kind] += size
	give(q.wake)
	if q.size[kind] > queueBytes/4 {
		give(q.much)
	}
	return true, nil
}

func give(token chan<- struct{}) {
	select {
	case token <- struct{}{}:
	default:
	}
}

// writeLate writes a line directly after the queue has closed, unless the goroutine still
// hangs in w.
func (q *queue) writeLate(line []byte) (int, error) {
	select {
	case <-q.done:
		return q.w.Write(line)
	default:
		q.metrics.dropped.Inc()
		return 0, errDropped
	}
}

func (q *queue) run() {
	defer close(q.done)
	var spare []entry
	for {
		q.mu.Lock()
		entries, dropped, closed := q.pending, q.dropped, q.closed
		q.pending, q.size, q.dropped = spare[:0], [kinds]int{}, 0
		q.mu.Unlock()
		q.write(entries)
		if dropped > 0 {
			q.own.Warn("log lines dropped, the log's writer is too slow", failure.LogSlow.Attr(), "count", dropped)
		}
		clear(entries) // releases what the entries refer to
		spare = entries
		if len(entries) > 0 || dropped > 0 {
			q.pause()
			continue
		}
		if closed {
			return
		}
		<-q.wake
	}
}

// write formats and writes entries. Write errors cannot be reported anywhere.
func (q *queue) write(entries []entry) {
	if len(entries) == 0 {
		return
	}
	q.batch.Reset()
	for i := range entries {
		if e := &entries[i]; e.handler != nil {
			_ = e.handler.Handle(context.Background(), e.record)
		} else {
			q.batch.Write(e.line)
		}
	}
	_, _ = q.w.Write(q.batch.Bytes())
	if q.batch.Cap() > queueBytes {
		q.batch = bytes.Buffer{}
	}
}

func (q *queue) pause() {
	timer := time.NewTimer(gather)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-q.much:
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
	give(q.wake)
	timeout := time.NewTimer(closeTimeout)
	defer timeout.Stop()
	select {
	case <-q.done:
	case <-timeout.C:
	}
}
