package stream

import (
	"net/http"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// MaxUnsent bounds what waits for a client that reads slowly, in bytes. A stream that would
// need more loses an event that may be lost, or breaks. It is also how much is written at a
// time.
const MaxUnsent = 1 << 20

const (
	// keptUnsent is the largest buffer that an idle stream keeps.
	keptUnsent = 16 << 10
	// eventRoom is about what the framing of an event adds.
	eventRoom = 64
	// gather is the shortest time between two writes to a client that is in no hurry:
	// the events of a burst share one. enough is how much does not wait.
	gather = 5 * time.Millisecond
	enough = 64 << 10
)

// Stream is an event stream that is being written to a client. Sending never
// waits: what is sent goes into a buffer, and a goroutine that lives as long as
// there is something to write writes, with one flush for all that had come.
type Stream struct {
	writer *Writer
	w      http.ResponseWriter
	rc     *http.ResponseController
	event  string // the name of its events

	mu      sync.Mutex // guards the fields below; never held over I/O
	changed sync.Cond  // writing went false, or there is room again
	unsent  []byte
	spare   []byte // the buffer that is not in use
	writing bool   // somebody writes to w
	waiting bool   // later will write what gathers
	hurry   bool   // some of it is waited for, and does not gather
	later   *time.Timer
	wrote   time.Time // when the last write ended, or the stream began
	ended   bool
	broken  bool
	conn    *conn         // once it was hijacked
	gone    chan struct{} // closed when broken; nil when nobody asked
	beat    *time.Timer
}

// Send sends an event. It reports false when there is no room for it, or nobody to
// read it any more.
func (s *Stream) Send(id string, data []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.put(id, data)
}

// Force sends an event that is waited for and must not be lost: it does not gather, and
// waits for room as long as the client reads.
func (s *Stream) Force(data []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.ended && !s.broken && !s.room(data) {
		s.changed.Wait()
	}
	s.hurry = true
	return s.put("", data)
}

// Offer is Force that does not wait: false when there is no room.
func (s *Stream) Offer(data []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hurry = true
	return s.put("", data)
}

// room is called with mu held. However large it is, one event has it.
func (s *Stream) room(data []byte) bool {
	return len(s.unsent) == 0 || len(s.unsent)+len(data)+eventRoom <= MaxUnsent
}

// put is called with mu held.
func (s *Stream) put(id string, data []byte) bool {
	if s.ended || s.broken || !s.room(data) {
		return false
	}
	s.unsent = wire.AppendEvent(s.unsent, id, s.event, data)
	s.wake()
	return true
}

// Raw sends lines that are no event.
func (s *Stream) Raw(lines []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended && !s.broken {
		s.unsent = append(s.unsent, lines...)
		s.wake()
	}
}

// Usable reports whether events may still reach the client.
func (s *Stream) Usable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.ended && !s.broken
}

// Open sends the headers at once, with a comment if nothing else is there to send:
// some clients wait for the first byte.
func (s *Stream) Open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.broken {
		return
	}
	if len(s.unsent) == 0 && !s.writing {
		s.unsent = wire.AppendComment(s.unsent, "")
	}
	s.hurry = true
	s.wake()
}

// wake is called with mu held, when there is something to write.
func (s *Stream) wake() {
	if s.writing || s.waiting && len(s.unsent) < enough && !s.hurry {
		return // whoever writes next takes it along
	}
	if pause := gather - time.Since(s.wrote); pause > 0 && len(s.unsent) < enough && !s.hurry {
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

// writeGathered writes what waited for more to come.
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

// drain writes what there is, and has what came meanwhile written in its turn.
func (s *Stream) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.unsent
	s.unsent, s.spare, s.hurry = s.spare[:0], nil, false
	s.changed.Broadcast()
	s.mu.Unlock()
	ok := s.write(out)
	s.mu.Lock()
	s.writing, s.wrote = false, time.Now()
	if !ok {
		s.fail()
	}
	if cap(out) <= keptUnsent {
		s.spare = out[:0]
	}
	if len(s.unsent) > 0 && !s.ended {
		s.wake()
	}
	s.changed.Broadcast()
}

// write is called by the one who is writing, without mu.
func (s *Stream) write(out []byte) bool {
	err := s.writer.Write(s.w, s.rc, out)
	if err == nil {
		err = s.rc.Flush()
		s.writer.Metrics.unread(err)
	}
	return err == nil
}

// fail is called with mu held.
func (s *Stream) fail() {
	if s.broken {
		return
	}
	s.broken, s.unsent, s.waiting = true, nil, false
	if s.gone != nil {
		close(s.gone)
	}
}

// Broken is closed when the client cannot be written to any more.
func (s *Stream) Broken() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone == nil {
		s.gone = make(chan struct{})
		if s.broken {
			close(s.gone)
		}
	}
	return s.gone
}

// End writes what is left and then, if there is any, one more event. It waits until
// all is written, or the client is given up: nothing is written after it returns.
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
	out, broken := s.unsent, s.broken
	s.unsent, s.writing = nil, true
	s.mu.Unlock()
	if !broken {
		if last != nil {
			out = wire.AppendEvent(out, id, s.event, last)
		}
		broken = !s.write(out) // also of nothing: what net/http writes after it needs time too
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

// Cut ends the stream with nothing more: half of it must not look whole.
func (s *Stream) Cut() {
	s.mu.Lock()
	s.fail()
	s.mu.Unlock()
	s.End("", nil)
}

// Flushed waits until the client has taken all that was sent so far, and reports
// whether it did.
func (s *Stream) Flushed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.writing || s.waiting {
		s.changed.Wait()
	}
	return !s.broken
}

// tick runs when it may have been quiet for long enough, and sees to it that a comment
// goes out if it was.
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
			s.unsent = wire.AppendComment(s.unsent, "keep-alive")
			s.wake()
		}
	}
	s.beat.Reset(next)
	s.mu.Unlock()
	if onBeat != nil {
		onBeat()
	}
}
