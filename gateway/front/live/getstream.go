package live

import (
	"context"
	"slices"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/stream"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// MaxStreams bounds the open GET streams of a session. Connections of clients that vanished
// count until they fail. The oldest stream makes room for a new one.
const MaxStreams = 16

// Stream is a GET stream, or that of HTTP+SSE: for what belongs to none of a client's requests.
type Stream struct {
	name string // its name in the event log
	to   *stream.Stream
	over chan struct{}
}

// Over is closed when the stream must end: another one takes its place, or its session is given up.
func (st *Stream) Over() <-chan struct{} { return st.over }

// OpenPlain directs events to a stream of HTTP+SSE.
func (s *Session) OpenPlain(to *stream.Stream) *Stream {
	st := &Stream{to: to, over: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plain = true
	s.add(st)
	return st
}

// Open directs events to a GET stream. First it sends the events that an earlier stream did not
// deliver, or that came while none was open. after is the client's position in the stream that it
// has given up. priming says that the stream begins with an event that carries only an id.
func (s *Session) Open(to *stream.Stream, after stream.Position, priming bool) *Stream {
	st := &Stream{name: stream.SessionName(s.deps.NewID()), to: to, over: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if priming {
		if id := s.log(st, nil); id != "" {
			to.Send(id, nil)
		}
	}
	if after.Name != "" {
		if at := slices.IndexFunc(s.streams, func(old *Stream) bool { return old.name == after.Name }); at >= 0 {
			s.drop(at)
		}
		// An error means that the log has nothing left of it: then this is a new stream.
		events, _, _, err := s.deps.Store.Log().Read(context.Background(), s.home, after.Name, after.Seq)
		s.deps.Resumed(err)
		for _, e := range events {
			if len(e.Data) > 0 {
				to.Send(s.log(st, e.Data), e.Data)
			}
		}
	}
	s.add(st)
	return st
}

// add adds a stream. The caller holds mu.
func (s *Session) add(st *Stream) {
	if len(s.streams) == MaxStreams {
		s.drop(0)
	}
	s.streams = append(s.streams, st)
	s.deliverWaiting()
}

// drop ends a stream. The caller holds mu.
func (s *Session) drop(at int) {
	close(s.streams[at].over)
	s.streams = slices.Delete(s.streams, at, at+1)
}

// GiveWay ends a stream to make room for a new one: the one that the client has given up, or else
// the oldest. The client may come back before its connection has failed. It returns false without a
// stream.
func (s *Session) GiveWay(givenUp string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.streams) == 0 || s.plain { // its end would be the session's end
		return false
	}
	s.drop(max(0, slices.IndexFunc(s.streams, func(st *Stream) bool { return st.name == givenUp })))
	return true
}

// Close removes a stream that has ended.
func (s *Session) Close(st *Stream) {
	s.mu.Lock()
	s.streams = slices.DeleteFunc(s.streams, func(open *Stream) bool { return open == st })
	s.mu.Unlock()
	_ = s.deps.Store.Log().End(context.Background(), s.home, st.name) // it may have no log
}

func (s *Session) endStreams() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.streams) > 0 {
		s.drop(0)
	}
}

// log adds an event to a stream's log and returns its id, "" without a log.
func (s *Session) log(st *Stream, data []byte) string {
	if s.plain {
		return ""
	}
	seq, err := s.deps.Store.Log().Append(context.Background(), s.home, st.name, data)
	if err != nil {
		return ""
	}
	return stream.EventID(st.name, seq)
}

// event takes an event of the session's listener. Clients need not rely on events about tasks,
// so these wait for no stream. Only one revision has sessions with tasks.
func (s *Session) event(e mcp.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.home.IsOver():
	case e.Method == mcp.NoteTask:
		s.send(mcp.Event{Method: wire.NoteTaskStatus, Params: wire.NewestStateful().Event(e.Method, e.Params)})
	case e.Method == mcp.NoteMessage: // a client without a stream misses it
		s.send(e)
	case e.Method == mcp.NoteResourceUpdated, e.Method == mcp.NoteElicitationComplete, mcp.ListsChanged(e.Method) != 0:
		s.deliver(e)
	}
}

// deliver sends an event on one stream, or keeps it for the next one. The caller holds mu.
func (s *Session) deliver(e mcp.Event) {
	if !s.send(e) && !s.waiting.put(e) {
		s.deps.Log.Warn("too many events wait for a client that has no stream open: one was dropped",
			failure.EventsDropped.Attr(), "method", e.Method)
	}
}

// deliverWaiting sends the events that wait. The caller holds mu.
func (s *Session) deliverWaiting() {
	for _, e := range s.waiting.take() {
		s.deliver(e)
	}
}

// send sends an event on the newest stream that takes it (2025-11-25
// basic/transports#multiple-connections). It returns false if none does. The caller holds mu.
func (s *Session) send(e mcp.Event) bool {
	for _, st := range slices.Backward(s.streams) {
		if !st.to.Usable() {
			continue
		}
		data := wire.AppendNotification(nil, e.Method, e.Params)
		if st.to.Send(s.log(st, data), data) {
			return true
		}
	}
	return false
}

// Redeliver tries again to send the events that streams had no room for.
func (s *Session) Redeliver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deliverWaiting()
}
