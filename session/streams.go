package session

import (
	"bytes"
	"fmt"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	// streamKept is how long a stream is kept after its end.
	streamKept = 5 * time.Minute
	// maxLogBytes bounds all event logs of a store; those of one user may use half of it. An
	// event without room is not kept, and a later reader learns of a gap.
	maxLogBytes = 256 << 20
)

// errDropped means that what is held of the session was dropped, and nothing was written. Usually
// another replica owns it now, so it is an ErrMoved; a second look tells.
var errDropped = fmt.Errorf("%w: it was dropped meanwhile", ErrMoved)

// streams are the event logs of one session, as its owner knows them. For a session in memory
// they hold the events; for a session in Redis only the descriptions.
type streams struct {
	room *mcp.Room // in the logRoom of the store; never changes

	mu      sync.Mutex // guards the fields below and every stream
	byName  map[string]*stream
	seq     uint64   // of the newest event of any stream
	past    uint64   // of the newest event of any stream that was forgotten
	closed  bool     // the session was dropped
	changes *changes // what Redis has yet to be told; nil for sessions in memory
}

type stream struct {
	description
	events  []logged
	bytes   int
	touched int64         // when it was last written, or ended
	more    chan struct{} // closed at the next change; nil if no reader waits
}

// description describes a stream, without its events.
type description struct {
	Request []byte `json:"request,omitempty"` // that the stream answers; nil for none or unknown
	Born    uint64 `json:"born"`              // streams.seq when the stream began
	Last    uint64 `json:"last"`              // its newest event, kept or not
	Dropped uint64 `json:"dropped,omitempty"` // its newest event that is not kept any more
	Ended   bool   `json:"ended,omitempty"`
}

// logged is an event of a log. Its Data are nil if they are in Redis.
type logged struct {
	Event
	size int
}

// changes are the changes to the streams of a session that Redis was not told of.
type changes struct {
	streams map[string]bool // to be written, or deleted if there is no stream of that name
	events  []eventName     // to be deleted
}

type eventName struct {
	stream string
	seq    uint64
}

// maxDeletions bounds the events that wait to be deleted while Redis is away. The rest stays
// there until the session ends.
const maxDeletions = 2 * LogEvents

// add adds an event, and creates the stream with its first one, and returns its position. An
// event without room is not kept, which leaves a gap. Errors: errDropped, ErrEnded.
func (s *streams) add(name string, request []byte, e logged, last bool, now int64) (seq uint64, kept bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, false, errDropped
	}
	st := s.byName[name]
	if st != nil && st.Ended {
		return 0, false, ErrEnded
	}
	if st == nil {
		st = s.begin(name)
	}
	if st.Request == nil {
		st.Request = bytes.Clone(request)
	}
	s.seq++
	e.Seq, kept = s.seq, s.room.Take(int64(e.size))
	st.Last, st.touched, st.Ended = e.Seq, now, last
	if kept {
		st.events = append(st.events, e)
		st.bytes += e.size
		for len(st.events) > LogEvents || st.bytes > LogBytes && len(st.events) > 1 {
			s.dropFirst(name, st)
		}
	} else {
		s.dropAll(name, st)
	}
	s.news(name, st)
	return e.Seq, kept, nil
}

// lose records that the newest event of a stream could not be kept.
func (s *streams) lose(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.byName[name]; st != nil {
		s.dropAll(name, st)
		s.news(name, st)
	}
}

// end ends a stream. Errors: ErrNotFound, errDropped.
func (s *streams) end(name string, now int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errDropped
	}
	st := s.byName[name]
	if st == nil {
		return ErrNotFound
	}
	if !st.Ended {
		st.Ended, st.touched = true, now
		s.news(name, st)
	}
	return nil
}

// answers is EventLog.Request. Errors: ErrNotFound, errDropped.
func (s *streams) answers(name string, now int64) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errDropped
	}
	st := s.byName[name]
	if st == nil || st.old(now) {
		return nil, ErrNotFound
	}
	return bytes.Clone(st.Request), nil
}

// read is EventLog.Read, for Redis without the data. Errors: as there, and errDropped.
func (s *streams) read(name string, after uint64, now int64) (events []Event, ended bool,
	more <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.byName[name]
	switch {
	case s.closed:
		return nil, false, nil, errDropped
	case st == nil && s.past > 0 && after <= s.past, st != nil && st.old(now):
		return nil, false, nil, ErrForgotten
	case st == nil || after > st.Last:
		return nil, false, nil, ErrNotFound
	}
	for _, e := range st.events {
		if e.Seq > after {
			events = append(events, e.Event)
		}
	}
	if after < st.Dropped || after != 0 && after <= st.Born {
		err = ErrGap // dropped from the log, or with an earlier stream of this name
	}
	if st.Ended {
		return events, true, nil, err
	}
	if st.more == nil {
		st.more = make(chan struct{})
	}
	return events, false, st.more, err
}

// forget forgets the streams that ended long ago.
func (s *streams) forget(now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, st := range s.byName {
		if st.old(now) {
			s.forgetStream(name, st)
		}
	}
}

// close forgets everything for good.
func (s *streams) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes = nil
	for name, st := range s.byName {
		s.drop(name, st)
	}
	s.closed = true
}

// changed reports whether there is anything to tell Redis.
func (s *streams) changed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changes != nil && (len(s.changes.streams) > 0 || len(s.changes.events) > 0)
}

// putBack restores what Redis could not be told.
func (s *streams) putBack(c changes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range c.streams {
		s.note(name)
	}
	for _, e := range c.events {
		s.deleted(e)
	}
}

// begin creates a stream and makes room for it. The stream that ended first goes first; if
// none has ended, the least recently written one does. The caller holds mu.
func (s *streams) begin(name string) *stream {
	if len(s.byName) >= LogStreams {
		var victim string
		var worst *stream
		for n, st := range s.byName {
			if worst == nil || st.Ended && !worst.Ended || st.Ended == worst.Ended && st.touched < worst.touched {
				victim, worst = n, st
			}
		}
		s.forgetStream(victim, worst)
	}
	if s.byName == nil {
		s.byName = make(map[string]*stream)
	}
	st := &stream{description: description{Born: s.seq}}
	s.byName[name] = st
	return st
}

func (s *streams) forgetStream(name string, st *stream) {
	s.past = max(s.past, st.Last)
	s.drop(name, st)
}

func (s *streams) drop(name string, st *stream) {
	s.dropAll(name, st)
	delete(s.byName, name)
	s.news(name, st)
}

func (s *streams) dropAll(name string, st *stream) {
	for len(st.events) > 0 {
		s.dropFirst(name, st)
	}
	st.events, st.Dropped = nil, st.Last
}

func (s *streams) dropFirst(name string, st *stream) {
	e := st.events[0]
	st.events[0] = logged{}
	st.events = st.events[1:]
	st.Dropped = e.Seq
	st.bytes -= e.size
	s.room.Give(int64(e.size))
	s.deleted(eventName{name, e.Seq})
}

// news wakes all who wait for news of a stream, and notes the change for Redis.
func (s *streams) news(name string, st *stream) {
	st.wake()
	s.note(name)
}

func (s *streams) note(stream string) {
	if s.changes == nil {
		return
	}
	if s.changes.streams == nil {
		s.changes.streams = make(map[string]bool)
	}
	s.changes.streams[stream] = true
}

func (s *streams) deleted(e eventName) {
	if s.changes != nil && len(s.changes.events) < maxDeletions {
		s.changes.events = append(s.changes.events, e)
	}
}

func (st *stream) old(now int64) bool { return st.Ended && now-st.touched >= int64(streamKept) }

func (st *stream) wake() {
	if st.more != nil {
		close(st.more)
		st.more = nil
	}
}
