package transport

import (
	"fmt"
	"io"
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

// PipeStream holds what came for one request on a Pipe.
type PipeStream struct {
	pipe   *Pipe
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

// Put queues a copy of the message.
func (s *PipeStream) Put(m wire.Message) {
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
	s.pipe.mu.Lock()
	delete(s.pipe.streams, s.id)
	s.pipe.mu.Unlock()
	s.mu.Lock()
	open := s.err == nil && s.method != mcp.MethodInitialize && s.method != mcp.MethodDiscover
	s.mu.Unlock()
	if open && s.pipe.giveUp != nil {
		s.pipe.giveUp(s.id, s.life.Cause())
	}
	s.life.End()
}

// Resumption returns nothing: a pipe cannot be resumed.
func (s *PipeStream) Resumption() (string, time.Duration) { return "", 0 }

// Reply returns the Reply with a result, which has memory of its own.
func (s *PipeStream) Reply(result mcp.Raw) *mcp.Reply { return &mcp.Reply{Result: result} }

// Taken is closed when the server has taken the request; see Stream.
func (s *PipeStream) Taken() <-chan struct{} { return s.taken }
