package stream

import (
	"net/http"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// MaxUnsent bounds the bytes that wait for a client that reads slowly. A stream that would
// need more loses an event that may be lost, or breaks. It also bounds each write.
const MaxUnsent = 1 << 20

const (
	// keptBuffer is the largest buffer that is used again, in bytes.
	keptBuffer = 16 << 10
	// eventRoom is the approximate number of bytes that the framing adds to an event.
	eventRoom = 64
	// Gather is the shortest time between two writes of events that are not urgent: the events of a
	// burst share one write. Enough is the number of bytes that do not wait.
	Gather = 5 * time.Millisecond
	Enough = 64 << 10
)

// Stream is an event stream that is being written to a client. Send never waits: it fills a
// buffer. A goroutine that lives as long as there is something to write writes the buffer,
// with one flush for everything that has come.
type Stream struct {
	writer *Writer
	w      http.ResponseWriter
	rc     *http.ResponseController
	event  string // the name of its events

	mu      sync.Mutex // guards the fields below; never held over I/O
	changed sync.Cond  // writing became false, or there is room again
	unsent  *[]byte    // nil for nothing
	writing bool       // a goroutine writes to w
	waiting bool       // later will write what gathers
	hurry   bool       // some of it is urgent and does not gather
	later   *time.Timer
	wrote   time.Time // when the last write ended, or the stream began
	ended   bool
	broken  bool
	conn    *conn  // after it was hijacked
	gone    func() // is called when broken; nil unless the stream is long-lived
	beat    *time.Timer
}

// Send sends an event. It returns false if there is no room for it, or the client is gone.
func (s *Stream) Send(id string, data []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.put(id, data)
}

// Force sends an urgent event that must not be lost: it does not gather, and it waits for room
// as long as the client reads. It returns false if the client is gone.
func (s *Stream) Force(id string, data []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.ended && !s.broken && !s.room(data) {
		s.changed.Wait()
	}
	s.hurry = true
	return s.put(id, data)
}

// Offer is Force without the wait: it returns false if there is no room.
func (s *Stream) Offer(data []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hurry = true
	return s.put("", data)
}

// room reports whether there is room for an event: an empty buffer takes any single one. The caller holds mu.
func (s *Stream) room(data []byte) bool {
	return s.waits() == 0 || s.waits()+len(data)+eventRoom <= MaxUnsent
}

// waits returns the number of waiting bytes. The caller holds mu.
func (s *Stream) waits() int {
	if s.unsent == nil {
		return 0
	}
	return len(*s.unsent)
}

// buffer returns the waiting bytes, for more to be appended. The caller holds mu.
func (s *Stream) buffer() *[]byte {
	if s.unsent == nil {
		s.unsent = buffers.Get().(*[]byte)
	}
	return s.unsent
}

// buffers holds memory for waiting bytes, so that an idle stream has none.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// giveBack returns a buffer to the pool after its content was sent.
func giveBack(b *[]byte) {
	if cap(*b) <= keptBuffer {
		*b = (*b)[:0]
		buffers.Put(b)
	}
}

// put adds an event to the buffer. The caller holds mu.
func (s *Stream) put(id string, data []byte) bool {
	if s.ended || s.broken || !s.room(data) {
		return false
	}
	b := s.buffer()
	*b = wire.AppendEvent(*b, id, s.event, data)
	s.wake()
	return true
}

// Raw sends lines that are not an event.
func (s *Stream) Raw(lines []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended && !s.broken {
		b := s.buffer()
		*b = append(*b, lines...)
		s.wake()
	}
}

// Usable reports whether events may still reach the client.
func (s *Stream) Usable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.ended && !s.broken
}

// Open sends the headers at once, with a comment if there is nothing else to send: some
// clients wait for the first byte.
func (s *Stream) Open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.broken {
		return
	}
	if s.waits() == 0 && !s.writing {
		b := s.buffer()
		*b = wire.AppendComment(*b, "")
	}
	s.hurry = true
	s.wake()
}

// wake arranges a write of the buffer, which is not empty. The caller holds mu.
func (s *Stream) wake() {
	if s.writing || s.waiting && s.waits() < Enough && !s.hurry {
		return // the next write takes it along
	}
	if pause := Gather - time.Since(s.wrote); pause > 0 && s.waits() < Enough && !s.hurry {
		s.waiting = true
		if s.later == nil {
			s.later = time.AfterFunc(pause, s.writeGathered)
		} else {
			s.later.Reset(pause)
		}
		return
	}
	s.writing = true
	go s.drain()
}

// writeGathered writes the events that waited for more.
func (s *Stream) writeGathered() {
	s.mu.Lock()
	ours := s.waiting && !s.writing && !s.broken
	s.waiting = false
	s.writing = s.writing || ours
	s.mu.Unlock()
	if ours {
		s.drain()
	}
}

// drain writes the buffer, for a caller that has set writing, and arranges a write of what has come in the meantime.
func (s *Stream) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.buffer() // which may be empty: what waited for the timer was urgent later
	s.unsent, s.hurry = nil, false
	s.changed.Broadcast()
	s.mu.Unlock()
	err := s.writer.Write(s.w, s.rc, *out)
	if err == nil {
		err = s.rc.Flush()
		s.writer.Metrics.unread(err)
	}
	giveBack(out)
	s.mu.Lock()
	s.writing, s.wrote = false, time.Now()
	if err != nil {
		s.fail()
	}
	if s.unsent != nil && !s.ended {
		s.wake()
	}
	s.changed.Broadcast()
}

// fail marks the stream as broken. The caller holds mu.
func (s *Stream) fail() {
	if s.broken {
		return
	}
	s.broken, s.unsent, s.waiting = true, nil, false
	if s.gone != nil {
		s.gone()
	}
}

// End writes the waiting events and then, if there is one, a last event. It waits until everything
// is written, but for what net/http has in its buffer, or the client is given up.
func (s *Stream) End(id string, last []byte) {
	s.mu.Lock()
	if !s.ended {
		s.writer.Metrics.Open.Dec()
	}
	s.ended, s.waiting = true, false
	s.beat.Stop()
	if s.later != nil {
		s.later.Stop()
	}
	for s.writing {
		s.changed.Wait()
	}
	out, broken := s.buffer(), s.broken
	s.unsent, s.writing = nil, true
	s.mu.Unlock()
	if !broken {
		if last != nil {
			*out = wire.AppendEvent(*out, id, s.event, last)
		}
		// Without a flush: net/http sends it in one piece with the end of the answer. That needs
		// time even if there is nothing else to write.
		broken = s.writer.Write(s.w, s.rc, *out) != nil
		giveBack(out)
	}
	s.mu.Lock()
	if broken {
		s.fail()
	}
	s.writing = false
	s.changed.Broadcast()
	s.mu.Unlock()
	if s.conn != nil {
		s.conn.finish(!broken)
	}
}

// tick runs at intervals, and sends a comment if the stream has been quiet for long enough.
func (s *Stream) tick(onBeat func()) {
	s.mu.Lock()
	if s.ended || s.broken {
		s.mu.Unlock()
		return
	}
	next := s.writer.KeepAlive - time.Since(s.wrote)
	if next <= 0 {
		next = s.writer.KeepAlive
		if !s.writing {
			b := s.buffer()
			*b = wire.AppendComment(*b, "keep-alive")
			s.wake()
		}
	}
	s.beat.Reset(next)
	s.mu.Unlock()
	if onBeat != nil {
		onBeat()
	}
}
