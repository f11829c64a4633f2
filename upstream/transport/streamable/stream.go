package streamable

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// stream is the response to a POST or a GET.
type stream struct {
	t        *Transport
	owner    *transport.Identity
	resp     *http.Response
	events   *wire.EventReader // nil for a JSON answer
	messages []wire.Message    // that came and are not delivered yet
	one      [1]wire.Message   // their memory, in the usual case
	id       int64             // of the request; 0 for a GET stream
	spoilt   error             // why something was skipped; nil if nothing was
	life     *transport.Life   // nil for a GET stream
	alive    func()            // of a GET stream: called with what comes; may be nil
	after    string            // of a GET stream: the event after which it goes on
	retry    time.Duration
	over     bool // the response was delivered
	ended    bool // all of the body was read
	// passing says that the result is passed on and not kept.
	passing bool
	// release gives back the memory of the response; nil when it is not used again.
	release func()
	outline *mcp.Outline // of the response
	meter   mcp.Meter    // of what is being read
	own     *mcp.Room    // of what is no answer to a call; nil for none yet
}

func (s *stream) Taken() <-chan struct{} { return nil }

func (s *stream) Reply(result mcp.Raw) *mcp.Reply {
	return &mcp.Reply{Result: result, Outline: s.outline, Release: s.release}
}

func (s *stream) Resumption() (lastEventID string, retry time.Duration) {
	if s.events != nil {
		lastEventID = cmp.Or(s.events.LastID(), s.after)
	}
	return lastEventID, s.retry
}

// Read reads the body, for the event reader and for JSON bodies.
func (s *stream) Read(p []byte) (int, error) {
	n, err := s.resp.Body.Read(p)
	if err == io.EOF {
		s.ended = true
	}
	switch {
	case n == 0:
		return 0, err
	case s.life != nil:
		s.life.Touch()
	case s.alive != nil:
		s.alive()
	}
	if !s.meter.Read(s.room(), n) {
		return 0, transport.ErrNoRoom
	}
	return n, err
}

// room returns what the memory is taken from: the call's Room, or one of the stream's own.
func (s *stream) room() *mcp.Room {
	if s.life != nil {
		if room := s.life.Room.Load(); room != nil {
			return room
		}
	}
	if s.own == nil {
		s.own = s.t.env.Room(s.owner)
	}
	return s.own
}

// Next skips events that are no message, or the answer to another request, as official clients do.
func (s *stream) Next() (wire.Message, error) {
	for {
		if len(s.messages) == 0 {
			if err := s.scan(); err != nil {
				return wire.Message{}, err
			}
			continue
		}
		m := s.messages[0]
		s.messages = s.messages[1:]
		switch {
		case !isResponse(m):
			return m, nil
		case s.id == 0 || m.ID == nil || transport.IsID(m.ID, s.id):
			s.over, s.outline = true, m.Outline
			if s.passing && s.events != nil {
				s.release = s.events.Free
			}
			return m, nil
		}
		s.spoilt = transport.Garbage("an answer to another request, with the id %.40s", m.ID)
	}
}

// scan reads the messages of the next document.
func (s *stream) scan() error {
	if s.events == nil && s.spoilt != nil {
		return s.spoilt
	}
	data, err := s.document()
	switch {
	case err == io.EOF && s.spoilt != nil:
		return fmt.Errorf("%w: %w", err, s.spoilt)
	case err != nil:
		return err
	}
	if s.messages, err = transport.Scan(s.one[:0], data); err != nil {
		s.t.env.Garbage.Add(1)
		if id := transport.AnswerTo(data); id != 0 && id == s.id {
			return err // there will be no other answer
		}
		s.spoilt = err
	}
	// A response is kept, for as long as its call has room for it.
	s.measured(slices.ContainsFunc(s.messages, isResponse))
	return nil
}

func isResponse(m wire.Message) bool { return m.Kind == wire.Response }

// measured ends the measuring of a document; its memory is kept or not.
func (s *stream) measured(keep bool) {
	left := 0
	if s.events != nil {
		left = s.events.Buffered()
	}
	s.meter.Next(s.room(), left, keep)
}

// document returns the next JSON document: the body, or the next event's data.
func (s *stream) document() (data []byte, err error) {
	switch {
	case s.events != nil:
		return s.event()
	case s.ended:
		return nil, io.EOF
	}
	s.meter.Length = s.resp.ContentLength
	if s.passing && s.resp.ContentLength >= largeBody {
		data, s.release, err = readLarge(s, s.resp.ContentLength, s.t.env.ResultBytes)
	} else {
		data, err = wire.ReadAll(s, s.resp.ContentLength, s.t.env.ResultBytes)
	}
	return data, transport.ReadError(err)
}

func (s *stream) event() ([]byte, error) {
	for {
		event, err := s.events.Next()
		if err != nil {
			return nil, transport.ReadError(err)
		}
		if event.Retry > 0 {
			s.retry = event.Retry
		}
		if len(event.Data) > 0 && (event.Name == "" || event.Name == "message") {
			return event.Data, nil
		}
		s.measured(false) // a priming event, or none of ours
	}
}

// Close gives the answer up. The rest of an event stream that has delivered its response is
// drained, so that the connection can be used again.
func (s *stream) Close() {
	if s.over && !s.ended && s.events != nil {
		if s.life != nil {
			s.life.Pause() // the caller has its answer and may go
		}
		s.t.env.Spawn(func() {
			drain(s.resp)
			s.end()
		})
		return
	}
	// A body that was read to its end has returned its connection already.
	s.resp.Body.Close()
	s.end()
}

func (s *stream) end() {
	s.own.Free()
	if s.life != nil {
		s.life.End()
	}
}

// Large results that are passed on are read into memory that is used again: it costs more to
// make, clear and collect a megabyte than to read it.
const (
	largeBody = 64 << 10
	// keptBody is the largest memory that is kept, so that one huge result does not
	// stay for good.
	keptBody = 4 << 20
)

var bodies = sync.Pool{New: func() any { return new([]byte) }}

// passing reports whether results of a method go to a client and are not kept, unlike lists and
// what a server says of itself.
func passing(method string) bool {
	return mcp.ListMember(method) == "" && method != mcp.MethodInitialize && method != mcp.MethodDiscover
}

// readLarge reads a body as wire.ReadAll does. After release, which is nil for a very large
// one, the body's memory belongs to the next reader.
func readLarge(r io.Reader, length, limit int64) (body []byte, release func(), err error) {
	memory := bodies.Get().(*[]byte)
	if body, err = wire.ReadInto(*memory, r, length, limit); err != nil {
		bodies.Put(memory)
		return nil, nil, err
	}
	if *memory = body; cap(body) > keptBody {
		return body, nil, nil
	}
	return body, func() { bodies.Put(memory) }, nil
}
