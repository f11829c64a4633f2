package transport

import (
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

const (
	// MaxQueued bounds the notifications that wait for one request's reader; further ones
	// are dropped, a response never is.
	MaxQueued = 256
	// queuedBytes bounds how large they are together, but for one.
	queuedBytes = 1 << 20
)

// mux shares one pipe among many requests: a message goes to the request whose id, progress
// token or subscription id it has. All three are the same number. A log message has none.
type mux struct {
	maxResult int64
	// giveUp tells the server that nobody waits for the answer to a request; nil when it
	// learns that otherwise.
	giveUp func(id int64)

	mu      sync.Mutex // guards the fields below
	streams map[int64]*PipeStream
	deliver func(wire.Message)
	private bool // all requests are of one client
	ended   bool
}

// Deliver says who takes messages that belong to no request; see Conn.
func (x *mux) Deliver(private bool, deliver func(wire.Message)) {
	x.mu.Lock()
	x.private, x.deliver = private, deliver
	x.mu.Unlock()
}

// Begin makes a request known and returns its stream, nil when the pipe has ended. taken is
// for Stream.Taken, nil where the server takes messages in their order.
func (x *mux) Begin(req *Request, taken chan struct{}) *PipeStream {
	s := &PipeStream{mux: x, id: req.ID, method: req.Method, life: req.Life, taken: taken, wake: make(chan struct{}, 1)}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended {
		return nil
	}
	x.streams[s.id] = s
	return s
}

// take sorts the messages of a line or an event; false means that it holds none.
func (x *mux) take(text []byte) bool {
	var one [1]wire.Message
	messages, err := Scan(one[:0], text)
	for _, m := range messages {
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
		s.Fail(ErrTooLarge)
	case s != nil && m.Kind == wire.Response && size >= mcp.CountedBytes && !s.life.Room.Load().Take(int64(size)):
		s.Fail(ErrNoRoom)
	case s != nil:
		s.put(m)
	case m.Kind != wire.Response: // a response that nobody waits for is late
		deliver(m)
	}
}

// streamOf finds the request that a message belongs to. x.mu is held.
func (x *mux) streamOf(m wire.Message) *PipeStream {
	var key mcp.Raw
	switch {
	case m.Kind == wire.Response:
		key = m.ID
	case m.Kind == wire.Request:
		return nil
	case m.Method == mcp.NoteProgress:
		key = m.Params.At(wire.MetaProgressToken)
	case m.Method == mcp.NoteMessage:
		return x.onlyCall()
	default:
		key = m.Params.At("_meta", wire.MetaSubscriptionID)
	}
	id, err := strconv.ParseInt(string(key), 10, 64)
	if err != nil || !IsID(key, id) {
		return nil
	}
	return x.streams[id]
}

// onlyCall returns the one request that a log message can belong to, nil when that is not
// certain. Subscriptions have none. Where several clients share the pipe it never is: what
// comes during one client's call may be of another's that has just ended.
func (x *mux) onlyCall() (found *PipeStream) {
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
func (x *mux) end(lost error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ended = true
	for _, s := range x.streams {
		s.Fail(lost)
	}
}

// PipeStream is what came for one request on a Pipe.
type PipeStream struct {
	mux    *mux
	id     int64
	method string
	life   *Life
	wake   chan struct{}
	taken  chan struct{} // nil where messages are taken in their order

	mu       sync.Mutex // guards the fields below
	messages []wire.Message
	bytes    int64 // of them
	err      error // why no more comes: io.EOF after the response
}

// put queues a copy of the message.
func (s *PipeStream) put(m wire.Message) {
	s.life.Touch()
	s.mu.Lock()
	defer s.mu.Unlock()
	full := len(s.messages) >= MaxQueued || len(s.messages) > 0 && s.bytes+Weight(m) > queuedBytes
	if s.err == io.EOF || m.Kind != wire.Response && full {
		return
	}
	if m.Kind == wire.Response {
		s.err = io.EOF
	}
	s.messages = append(s.messages, Owned(m))
	s.bytes += Weight(m)
	s.signal()
}

// Fail ends the stream, after what has come: there will be no answer.
func (s *PipeStream) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	s.signal()
}

func (s *PipeStream) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Next returns the next message; see Stream.
func (s *PipeStream) Next() (wire.Message, error) {
	for {
		s.mu.Lock()
		switch {
		case len(s.messages) > 0:
			m := s.messages[0]
			s.messages = s.messages[1:]
			s.bytes -= Weight(m)
			s.mu.Unlock()
			return m, nil
		case s.err != nil:
			defer s.mu.Unlock()
			return wire.Message{}, s.err
		}
		s.mu.Unlock()
		select {
		case <-s.wake:
		case <-s.life.Done():
			return wire.Message{}, fmt.Errorf("%w: %w", ErrBroken, s.life.Err())
		}
	}
}

// Close tells the server when it gives a request up; the handshake cannot be given up.
func (s *PipeStream) Close() {
	s.mux.mu.Lock()
	delete(s.mux.streams, s.id)
	s.mux.mu.Unlock()
	s.mu.Lock()
	open := s.err == nil && s.method != mcp.MethodInitialize && s.method != mcp.MethodDiscover
	s.mu.Unlock()
	if open && s.mux.giveUp != nil {
		s.mux.giveUp(s.id)
	}
	s.life.End()
}

// Resumption returns nothing: a pipe cannot be resumed.
func (s *PipeStream) Resumption() (string, time.Duration) { return "", 0 }

// Reply returns the Reply with a result, which has memory of its own.
func (s *PipeStream) Reply(result mcp.Raw) *mcp.Reply { return &mcp.Reply{Result: result} }

// Taken is closed when the server has taken the request; see Stream.
func (s *PipeStream) Taken() <-chan struct{} { return s.taken }
