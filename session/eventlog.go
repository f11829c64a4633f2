package session

import (
	"bytes"
	"context"
	"slices"
	"sort"
	"sync"
	"time"
)

const (
	// streamKept is how long a stream is remembered after its end.
	streamKept = 5 * time.Minute
	// maxLogBytes bounds all event logs of a store; those of one user have half of it. An
	// event for which there is no room is not kept, and whoever reads it later learns of a
	// gap.
	maxLogBytes = 256 << 20
)

// memoryLog is the EventLog of a Memory. The logs hang on the sessions themselves,
// so that no log outlives its session.
type memoryLog struct{ m *Memory }

// streams are the event logs of one session.
type streams struct {
	mu     sync.Mutex // guards the fields below and every stream
	byName map[string]*stream
	seq    uint64 // of the newest event of any stream
	bytes  int64  // what all the streams hold
	closed bool   // the session has ended
}

type stream struct {
	events  []Event
	bytes   int
	request []byte // what the stream answers; nil for nothing, or what is not known
	born    uint64 // streams.seq when the stream began
	last    uint64 // its newest event, kept or not
	dropped uint64 // its newest event that is no longer kept
	ended   bool
	touched int64         // when it was last written, or ended
	more    chan struct{} // closed at the next change; nil when nobody waits
}

// Append adds an event; see EventLog.
func (l memoryLog) Append(_ context.Context, key, name string, data []byte) (uint64, error) {
	return l.add(key, name, nil, data, false)
}

// Begin adds the first event of a stream that answers a request; see EventLog.
func (l memoryLog) Begin(_ context.Context, key, name string, request, data []byte) (uint64, error) {
	return l.add(key, name, request, data, false)
}

// Finish adds the last event; see EventLog.
func (l memoryLog) Finish(_ context.Context, key, name string, data []byte) (uint64, error) {
	return l.add(key, name, nil, data, true)
}

func (l memoryLog) add(key, name string, request, data []byte, last bool) (uint64, error) {
	e, err := l.session(key)
	if err != nil {
		return 0, err
	}
	now := l.m.now()
	s := &e.streams
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, ErrNotFound
	}
	st := s.byName[name]
	if st != nil && st.ended {
		return 0, ErrEnded
	}
	before := s.bytes
	if st == nil {
		st = s.begin(name, now)
	}
	if st.request == nil {
		st.request = bytes.Clone(request)
	}
	s.seq++
	st.touched, st.ended = now, last
	more := int64(len(data))
	room := l.m.logBytes.Load()+more <= maxLogBytes && e.owner.logBytes.Load()+more <= e.owner.mostLog
	s.bytes += int64(st.add(Event{Seq: s.seq, Data: bytes.Clone(data)}, room))
	l.m.logged(e, s.bytes-before)
	st.wake()
	return s.seq, nil
}

// End says that nothing more comes; see EventLog.
func (l memoryLog) End(_ context.Context, key, name string) error {
	e, err := l.session(key)
	if err != nil {
		return err
	}
	s := &e.streams
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.byName[name]
	if st == nil {
		return ErrNotFound
	}
	if !st.ended {
		st.ended = true
		st.touched = l.m.now()
		st.wake()
	}
	return nil
}

// Request returns what a stream answers; see EventLog.
func (l memoryLog) Request(_ context.Context, key, name string) ([]byte, error) {
	e, err := l.session(key)
	if err != nil {
		return nil, err
	}
	s := &e.streams
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.byName[name]
	if st == nil || st.old(l.m.now()) {
		return nil, ErrNotFound
	}
	return bytes.Clone(st.request), nil
}

// Read returns the events after a position; see EventLog.
func (l memoryLog) Read(_ context.Context, key, name string, after uint64) ([]Event, bool, <-chan struct{}, error) {
	e, err := l.session(key)
	if err != nil {
		return nil, false, nil, err
	}
	s := &e.streams
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.byName[name]
	if st == nil || st.old(l.m.now()) || after > st.last {
		return nil, false, nil, ErrNotFound
	}
	first := sort.Search(len(st.events), func(i int) bool { return st.events[i].Seq > after })
	events := slices.Clone(st.events[first:])
	if after < st.dropped || after != 0 && after <= st.born {
		err = ErrGap // dropped from the log, or with an earlier stream of this name
	}
	if st.ended {
		return events, true, nil, err
	}
	if st.more == nil {
		st.more = make(chan struct{})
	}
	return events, false, st.more, err
}

// session finds the session of a key, without restarting its idle time.
func (l memoryLog) session(key string) (*entry, error) {
	if l.m.closed.Load() {
		return nil, ErrUnavailable
	}
	user, id := splitKey(key)
	s := l.m.shard(id)
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := s.entries[name{user, id}]
	if e == nil || !e.alive(l.m.now(), l.m.cfg.IdleTimeout) {
		return nil, ErrNotFound
	}
	return e, nil
}

// close forgets everything for good and returns how many bytes that were.
func (s *streams) close() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	freed := s.bytes
	for _, st := range s.byName {
		st.wake()
	}
	s.byName, s.bytes, s.closed = nil, 0, true
	return freed
}

// forget drops the streams that ended long ago and returns how many bytes that
// were.
func (s *streams) forget(now int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.bytes
	s.forgetOld(now)
	return before - s.bytes
}

func (s *streams) forgetOld(now int64) {
	for n, st := range s.byName {
		if st.old(now) {
			s.drop(n, st)
		}
	}
}

func (s *streams) drop(name string, st *stream) {
	st.wake()
	s.bytes -= int64(st.bytes)
	delete(s.byName, name)
}

// begin adds a stream, and makes room for it: the first to go is the one that ended
// first, and if none has, the one that was written longest ago.
func (s *streams) begin(name string, now int64) *stream {
	s.forgetOld(now)
	if len(s.byName) >= LogStreams {
		var victim string
		var worst *stream
		for n, st := range s.byName {
			if worst == nil || st.ended && !worst.ended || st.ended == worst.ended && st.touched < worst.touched {
				victim, worst = n, st
			}
		}
		s.drop(victim, worst)
	}
	if s.byName == nil {
		s.byName = make(map[string]*stream)
	}
	st := &stream{born: s.seq}
	s.byName[name] = st
	return st
}

// add keeps an event, if there is room, drops the oldest ones above the bounds, and
// returns by how many bytes the stream has grown.
func (st *stream) add(e Event, room bool) int {
	before := st.bytes
	st.last = e.Seq
	if !room {
		st.events, st.bytes, st.dropped = nil, 0, e.Seq
		return -before
	}
	st.events = append(st.events, e)
	st.bytes += len(e.Data)
	for len(st.events) > LogEvents || st.bytes > LogBytes && len(st.events) > 1 {
		st.dropped = st.events[0].Seq
		st.bytes -= len(st.events[0].Data)
		st.events[0] = Event{}
		st.events = st.events[1:]
	}
	return st.bytes - before
}

func (st *stream) old(now int64) bool { return st.ended && now-st.touched >= int64(streamKept) }

func (st *stream) wake() {
	if st.more != nil {
		close(st.more)
		st.more = nil
	}
}
