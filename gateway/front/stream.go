package front

import (
	"net/http"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

const (
	// maxUnsent bounds what waits for a client that reads slowly. A stream that
	// would need more loses an event that may be lost, or breaks.
	maxUnsent = 1 << 20
	// keptUnsent is the largest buffer that an idle stream keeps.
	keptUnsent = 16 << 10
	// eventRoom is about what the framing of an event adds.
	eventRoom = 64
	// gather is the shortest time between two writes to a client that is in no hurry:
	// the events of a burst share one. gathered is how much does not wait.
	gather   = 5 * time.Millisecond
	gathered = 64 << 10
)

// stream is an event stream that is being written to a client. Sending never
// waits: what is sent goes into a buffer, and a goroutine that lives as long as
// there is something to write writes, with one flush for all that had come.
type stream struct {
	w    http.ResponseWriter
	rc   *http.ResponseController
	name string        // of its events, "" for "message"
	time time.Duration // for the client to take a write

	metrics *Metrics

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
	own     *ownConn      // the connection, once it was taken over
	gone    chan struct{} // closed when broken; nil when nobody asked
	beat    *time.Timer
	every   time.Duration
}

// newStream answers with the headers of an event stream and beats: a comment goes
// out whenever nothing was written for a while, and onBeat is called at least as
// often, if there is one.
func (f *Front) newStream(w http.ResponseWriter, rc *http.ResponseController, onBeat func()) *stream {
	h := w.Header()
	h["Content-Type"] = contentStream
	h["Cache-Control"] = noCache
	h["X-Accel-Buffering"] = noBuffering
	w.WriteHeader(http.StatusOK)
	// The first events gather as later ones do: there may be more where they came from.
	s := &stream{w: w, rc: rc, time: f.writeTime, every: f.cfg.KeepAlive, wrote: time.Now(), metrics: f.metrics}
	f.metrics.streams.Inc()
	s.changed.L = &s.mu
	s.mu.Lock()
	s.beat = time.AfterFunc(s.every, func() { s.tick(onBeat) })
	s.mu.Unlock()
	return s
}

var (
	contentJSON   = []string{"application/json"}
	contentStream = []string{"text/event-stream"}
	noCache       = []string{"no-cache"}
	noBuffering   = []string{"no"}
)

// send sends an event. It reports false when there is no room for it, or nobody to
// read it any more.
func (s *stream) send(id string, data []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.put(id, data)
}

// force sends an event that is waited for and must not be lost: it does not gather, and
// waits for room as long as the client reads.
func (s *stream) force(data []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.ended && !s.broken && !s.room(data) {
		s.changed.Wait()
	}
	s.hurry = true
	return s.put("", data)
}

// offer is force that does not wait: false when there is no room.
func (s *stream) offer(data []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hurry = true
	return s.put("", data)
}

// room is called with mu held. However large it is, one event has it.
func (s *stream) room(data []byte) bool {
	return len(s.unsent) == 0 || len(s.unsent)+len(data)+eventRoom <= maxUnsent
}

// put is called with mu held.
func (s *stream) put(id string, data []byte) bool {
	if s.ended || s.broken || !s.room(data) {
		return false
	}
	s.unsent = wire.AppendEvent(s.unsent, id, s.name, data)
	s.wake()
	return true
}

// sendRaw sends lines that are no event.
func (s *stream) sendRaw(lines []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended && !s.broken {
		s.unsent = append(s.unsent, lines...)
		s.wake()
	}
}

// usable reports whether events may still reach the client.
func (s *stream) usable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.ended && !s.broken
}

// open sends the headers at once, with a comment if nothing else is there to send:
// some clients wait for the first byte.
func (s *stream) open() {
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
func (s *stream) wake() {
	if s.writing || s.waiting && len(s.unsent) < gathered && !s.hurry {
		return // whoever writes next takes it along
	}
	if pause := gather - time.Since(s.wrote); pause > 0 && len(s.unsent) < gathered && !s.hurry {
		s.waiting = true
		s.delay(pause)
		return
	}
	s.writing = true
	go s.drain()
}

// delay is called with mu held.
func (s *stream) delay(pause time.Duration) {
	if s.later != nil {
		s.later.Reset(pause)
		return
	}
	s.later = time.AfterFunc(pause, func() {
		s.mu.Lock()
		ours := s.waiting && !s.writing && !s.broken
		s.waiting = false
		s.writing = s.writing || ours
		s.mu.Unlock()
		if ours {
			s.drain()
		}
	})
}

// drain writes what there is, and has what came meanwhile written in its turn.
func (s *stream) drain() {
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
func (s *stream) write(out []byte) bool {
	for { // a deadline for each piece: a slow client is not a dead one
		// A ResponseWriter without deadlines, as tests have, does without.
		_ = s.rc.SetWriteDeadline(time.Now().Add(s.time))
		n := min(len(out), maxUnsent)
		if _, err := s.w.Write(out[:n]); err != nil {
			s.metrics.unread(err)
			return false
		}
		s.metrics.wrote(n)
		if out = out[n:]; len(out) == 0 {
			err := s.rc.Flush()
			s.metrics.unread(err)
			return err == nil
		}
	}
}

// fail is called with mu held.
func (s *stream) fail() {
	if s.broken {
		return
	}
	s.broken, s.unsent, s.waiting = true, nil, false
	if s.gone != nil {
		close(s.gone)
	}
}

// brokenOff is closed when the client cannot be written to any more.
func (s *stream) brokenOff() <-chan struct{} {
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

// end writes what is left and then, if there is any, one more event. It waits until
// all is written, or the client is given up: nothing is written after it returns.
func (s *stream) end(id string, last []byte) {
	s.mu.Lock()
	if !s.ended {
		s.metrics.streams.Dec()
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
			out = wire.AppendEvent(out, id, s.name, last)
		}
		broken = !s.write(out) // also of nothing: what net/http writes after it needs time too
	}
	s.mu.Lock()
	if broken {
		s.fail()
	}
	s.writing = false
	own := s.own
	s.changed.Broadcast()
	s.mu.Unlock()
	if own != nil {
		own.finish(!broken, s.time)
	}
}

// cut ends the stream with nothing more: half of it must not look whole.
func (s *stream) cut() {
	s.mu.Lock()
	s.fail()
	s.mu.Unlock()
	s.end("", nil)
}

// flushed waits until the client has taken all that was sent so far, and reports
// whether it did.
func (s *stream) flushed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.writing || s.waiting {
		s.changed.Wait()
	}
	return !s.broken
}

// tick runs when it may have been quiet for long enough, and sees to it that a comment
// goes out if it was.
func (s *stream) tick(onBeat func()) {
	s.mu.Lock()
	if s.ended || s.broken {
		s.mu.Unlock()
		return
	}
	next := s.every - time.Since(s.wrote)
	if next <= 0 {
		next = s.every
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
