package stream

import (
	"net/http"
	"sync"
	"time"
)

// ContentType is the media type of event streams.
const ContentType = "text/event-stream"

// Writer writes to all clients of an endpoint. Its exported fields are set before its first use.
type Writer struct {
	KeepAlive time.Duration // after this time an idle stream gets a comment
	Timeout   time.Duration // limit for a client to take one write
	Metrics   Metrics
	Panicked  func(cause any) // takes panics in the serve of a long-lived stream

	hijacked sync.Map // *conn: those of long-lived streams
}

// Write writes a part of an answer, in pieces with a time limit each: a slow client is not a dead one.
func (w *Writer) Write(rw http.ResponseWriter, rc *http.ResponseController, part []byte) error {
	for {
		w.Deadline(rc) // also for nothing: what net/http writes afterwards needs time, too
		n, err := rw.Write(part[:min(len(part), MaxUnsent)])
		if err != nil {
			w.Metrics.unread(err)
			return err
		}
		w.Metrics.Sent.Add(float64(n))
		if part = part[n:]; len(part) == 0 {
			return nil
		}
	}
}

// Deadline starts the time limit for the next write. A ResponseWriter without deadlines, as in
// tests, has no limit.
func (w *Writer) Deadline(rc *http.ResponseController) {
	_ = rc.SetWriteDeadline(time.Now().Add(w.Timeout))
}

var (
	contentStream = []string{ContentType}
	noCache       = []string{"no-cache"}
	noBuffering   = []string{"no"}
)

// Begin answers with the headers of an event stream; event names its events, "" for "message". A
// comment is sent whenever nothing was written for a while, and onBeat, if it is not nil, is called
// at least as often.
func (w *Writer) Begin(rw http.ResponseWriter, rc *http.ResponseController, event string, onBeat func()) *Stream {
	h := rw.Header()
	h["Content-Type"] = contentStream
	h["Cache-Control"] = noCache
	h["X-Accel-Buffering"] = noBuffering
	rw.WriteHeader(http.StatusOK)
	// The first events gather as later ones do: more may follow them.
	s := &Stream{writer: w, w: rw, rc: rc, event: event, wrote: time.Now()}
	w.Metrics.Open.Inc()
	s.changed.L = &s.mu
	s.mu.Lock()
	s.beat = time.AfterFunc(w.KeepAlive, func() { s.tick(onBeat) })
	s.mu.Unlock()
	return s
}
