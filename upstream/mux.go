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

// maxQueued bounds the notifications that wait for one request's reader; further ones
// are dropped, a response never is.
const maxQueued = 256

// mux shares one pipe among many requests: a message goes to the request whose id,
// progress token or subscription id it has. The three are one number, so that there
// is nothing to keep beside it.
type mux struct {
	maxResult int64

	mu      sync.Mutex // guards the fields below
	streams map[int64]*lineStream
	deliver func(wire.Message)
	ended   bool
}

func newMux(maxResult int64) *mux {
	return &mux{maxResult: maxResult, streams: make(map[int64]*lineStream), deliver: func(wire.Message) {}}
}

func (x *mux) setDeliver(deliver func(wire.Message)) {
	x.mu.Lock()
	x.deliver = deliver
	x.mu.Unlock()
}

// add makes a request known; false when the pipe has ended.
func (x *mux) add(s *lineStream) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.ended {
		x.streams[s.id] = s
	}
	return !x.ended
}

func (x *mux) remove(s *lineStream) {
	x.mu.Lock()
	delete(x.streams, s.id)
	x.mu.Unlock()
}

// route hands a message on; size is that of its line.
func (x *mux) route(m wire.Message, size int) {
	x.mu.Lock()
	s, deliver := x.streamOf(m), x.deliver
	x.mu.Unlock()
	switch {
	case s != nil && m.Kind == wire.Response && int64(size) > x.maxResult:
		s.fail(errTooLarge)
	case s != nil:
		s.put(m)
	case m.Kind != wire.Response: // a response that nobody waits for is late, or no one's
		deliver(m)
	}
}

// streamOf finds the request that a message belongs to. x.mu is held.
func (x *mux) streamOf(m wire.Message) *lineStream {
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

// sole returns the one request that log messages can be of, nil when nothing says
// which one. Subscriptions have none.
func (x *mux) sole() (found *lineStream) {
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
		s.fail(fmt.Errorf("%w: the process has ended", errBroken))
	}
}

// lineStream is what came for one request.
type lineStream struct {
	c      *pipe
	id     int64
	method string
	life   *deadline
	wake   chan struct{}

	mu       sync.Mutex // guards the fields below
	messages []wire.Message
	answered bool
	err      error
}

// put queues a copy of the message.
func (s *lineStream) put(m wire.Message) {
	s.life.touch()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answered || m.Kind != wire.Response && len(s.messages) >= maxQueued {
		return
	}
	s.answered = m.Kind == wire.Response
	m.ID, m.Params = bytes.Clone(m.ID), bytes.Clone(m.Params)
	m.Result, m.Error = bytes.Clone(m.Result), bytes.Clone(m.Error)
	s.messages = append(s.messages, m)
	s.signal()
}

func (s *lineStream) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	s.signal()
}

func (s *lineStream) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *lineStream) Release() func() { return nil }

func (s *lineStream) Next() (wire.Message, error) {
	for {
		s.mu.Lock()
		switch {
		case len(s.messages) > 0:
			m := s.messages[0]
			s.messages = s.messages[1:]
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

func (s *lineStream) LastEventID() string  { return "" }
func (s *lineStream) Retry() time.Duration { return 0 }

// Close tells the server when it gives a request up; the handshake cannot be.
func (s *lineStream) Close() {
	s.c.mux.remove(s)
	s.mu.Lock()
	open := !s.answered && s.err == nil && s.method != methodInitialize && s.method != methodDiscover
	s.mu.Unlock()
	if open {
		_ = s.c.Post(s.life.ctx, cancelled(s.id, "nobody waits for the answer")) // a lost process needs none
	}
	s.life.end()
}
