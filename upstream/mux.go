package upstream

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

const (
	// maxQueued bounds the notifications that wait for one request's reader; further ones
	// are dropped, a response never is.
	maxQueued = 256
	// queuedBytes bounds how large they are together, but for one.
	queuedBytes = 1 << 20
	// garbageLimit is how many lines or events within garbageWindow may be no messages.
	garbageLimit  = 100
	garbageWindow = time.Minute
)

// mux shares one pipe among many requests: a message goes to the request whose id,
// progress token or subscription id it has. The three are one number, so that there
// is nothing to keep beside it. A log message has none of them.
type mux struct {
	maxResult int64
	// lost is how requests fail that have no answer when the pipe ends.
	lost error
	// giveUp tells the server that nobody waits for the answer to a request; nil when it
	// is told otherwise.
	giveUp func(*muxStream)

	mu      sync.Mutex // guards the fields below
	streams map[int64]*muxStream
	deliver func(wire.Message)
	private bool // all requests are of one client
	ended   bool
}

func newMux(maxResult int64, lost error) *mux {
	return &mux{maxResult: maxResult, lost: lost, streams: make(map[int64]*muxStream), deliver: func(wire.Message) {}}
}

func (x *mux) setDeliver(private bool, deliver func(wire.Message)) {
	x.mu.Lock()
	x.private, x.deliver = private, deliver
	x.mu.Unlock()
}

// add makes a request known; nil when the pipe has ended.
func (x *mux) add(req *Request) *muxStream {
	s := &muxStream{mux: x, id: req.ID, method: req.Method, life: req.Life, wake: make(chan struct{}, 1)}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended {
		return nil
	}
	x.streams[s.id] = s
	return s
}

func (x *mux) remove(s *muxStream) {
	x.mu.Lock()
	delete(x.streams, s.id)
	x.mu.Unlock()
}

// take sorts the messages of a line or an event; false says that it is none.
func (x *mux) take(text []byte) bool {
	if wire.IsBatch(text) { // only 2025-03-26 has them; understood from everybody
		messages, err := scanBatch(text)
		for _, m := range messages {
			x.route(m, len(text))
		}
		return err == nil
	}
	m, err := scan(text)
	if err == nil {
		x.route(m, len(text))
	}
	return err == nil
}

// route hands a message on; size is that of its line.
func (x *mux) route(m wire.Message, size int) {
	x.mu.Lock()
	s, deliver := x.streamOf(m), x.deliver
	x.mu.Unlock()
	switch {
	case s != nil && m.Kind == wire.Response && int64(size) > x.maxResult:
		s.fail(errTooLarge)
	case s != nil && m.Kind == wire.Response && size >= mcp.CountedBytes && !s.life.room.Load().Take(int64(size)):
		s.fail(errNoRoom)
	case s != nil:
		s.put(m)
	case m.Kind != wire.Response: // a response that nobody waits for is late, or no one's
		deliver(m)
	}
}

// streamOf finds the request that a message belongs to. x.mu is held.
func (x *mux) streamOf(m wire.Message) *muxStream {
	var key mcp.Raw
	switch {
	case m.Kind == wire.Response:
		key = m.ID
	case m.Kind == wire.Request:
		return nil
	case m.Method == mcp.NoteProgress:
		key, _ = m.Params.Member(wire.MetaProgressToken)
	case m.Method == mcp.NoteMessage:
		return x.sole()
	default:
		meta, _ := m.Params.Member("_meta")
		key, _ = meta.Member(wire.MetaSubscriptionID)
	}
	id, err := strconv.ParseInt(string(key), 10, 64)
	if err != nil || !isID(key, id) {
		return nil
	}
	return x.streams[id]
}

// sole returns the one request that a log message can be of, nil when nothing says which
// one. Subscriptions have none. Where several clients share the pipe nothing ever does:
// what comes during one's call may be of another's that has just ended.
func (x *mux) sole() (found *muxStream) {
	if !x.private {
		return nil
	}
	for _, s := range x.streams {
		if s.method == mcp.MethodListen {
			continue
		}
		if found != nil {
			return nil
		}
		found = s
	}
	return found
}

// end fails all requests at once: there will be no answers.
func (x *mux) end() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ended = true
	for _, s := range x.streams {
		s.fail(x.lost)
	}
}

// muxStream is what came for one request.
type muxStream struct {
	mux    *mux
	id     int64
	method string
	life   *deadline
	wake   chan struct{}
	taken  chan struct{} // nil where messages are taken in their order

	mu       sync.Mutex // guards the fields below
	messages []wire.Message
	bytes    int64 // of them
	answered bool
	err      error
}

// put queues a copy of the message.
func (s *muxStream) put(m wire.Message) {
	s.life.touch()
	s.mu.Lock()
	defer s.mu.Unlock()
	full := len(s.messages) >= maxQueued || len(s.messages) > 0 && s.bytes+weight(m) > queuedBytes
	if s.answered || m.Kind != wire.Response && full {
		return
	}
	s.answered = m.Kind == wire.Response
	s.messages = append(s.messages, owned(m))
	s.bytes += weight(m)
	s.signal()
}

// owned is a message with memory of its own.
func owned(m wire.Message) wire.Message {
	m.ID, m.Params = bytes.Clone(m.ID), bytes.Clone(m.Params)
	m.Result, m.Error = bytes.Clone(m.Result), bytes.Clone(m.Error)
	return m
}

func (s *muxStream) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	s.signal()
}

func (s *muxStream) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *muxStream) Release() func() { return nil }

func (s *muxStream) Taken() <-chan struct{} { return s.taken }

func (s *muxStream) Outline() *mcp.Outline { return nil }

func (s *muxStream) Next() (wire.Message, error) {
	for {
		s.mu.Lock()
		switch {
		case len(s.messages) > 0:
			m := s.messages[0]
			s.messages = s.messages[1:]
			s.bytes -= weight(m)
			s.mu.Unlock()
			return m, nil
		case s.err != nil:
			defer s.mu.Unlock()
			return wire.Message{}, s.err
		case s.answered:
			s.mu.Unlock()
			return wire.Message{}, io.EOF
		}
		s.mu.Unlock()
		select {
		case <-s.wake:
		case <-s.life.ctx.Done():
			return wire.Message{}, fmt.Errorf("%w: %w", errBroken, s.life.ctx.Err())
		}
	}
}

func (s *muxStream) LastEventID() string  { return "" }
func (s *muxStream) Retry() time.Duration { return 0 }

// Close has the server told when it gives a request up; the handshake cannot be.
func (s *muxStream) Close() {
	s.mux.remove(s)
	s.mu.Lock()
	open := !s.answered && s.err == nil && s.method != methodInitialize && s.method != methodDiscover
	s.mu.Unlock()
	if open && s.mux.giveUp != nil {
		s.mux.giveUp(s)
	}
	s.life.end()
}

// tolerance counts what a server sends that is no message.
type tolerance struct {
	count int
	since time.Time // when the count began
}

// spent counts one, and reports whether it was too much.
func (t *tolerance) spent() bool {
	if now := time.Now(); now.Sub(t.since) > garbageWindow {
		t.count, t.since = 0, now
	}
	t.count++
	return t.count > garbageLimit
}
