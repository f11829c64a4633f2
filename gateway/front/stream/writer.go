package stream

import (
	"net/http"
	"sync"
	"time"
)

// ContentType is the media type of event streams.
const ContentType = "text/event-stream"

// Writer writes to all clients of an endpoint. Its exported fields are set before its first
// use.
type Writer struct {
	KeepAlive time.Duration // after which an idle stream gets a comment
	Timeout   time.Duration // for a client to take what is written at a time
	Metrics   Metrics
	Panicked  func(cause any) // is told of panics of those who serve a stream that lasts

	hijacked sync.Map // *conn: those of streams that last
}

// Write writes a part of an answer, in pieces with a time for each: a slow client is not a
// dead one.
func (w *Writer) Write(rw http.ResponseWriter, rc *http.ResponseController, part []byte) error {
	for {
		w.Deadline(rc) // also for nothing: what net/http writes after it needs time, too
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

// Deadline begins the time that a client has for the next write. A ResponseWriter without
// deadlines, as tests have, does without.
func (w *Writer) Deadline(rc *http.ResponseController) {
	_ = rc.SetWriteDeadline(time.Now().Add(w.Timeout))
}

var (
	contentStream = []string{ContentType}
	noCache       = []string{"no-cache"}
	noBuffering   = []string{"no"}
)

// Begin answers with the headers of an event stream whose events have this name, "" for
// "message". A comment goes out whenever nothing was written for a while, and onBeat is
// called at least as often, if there is one.
func (w *Writer) Begin(rw http.ResponseWriter, rc *http.ResponseController, event string, onBeat func()) *Stream {
	h := rw.Header()
	h["Content-Type"] = contentStream
	h["Cache-Control"] = noCache
	h["X-Accel-Buffering"] = noBuffering
	rw.WriteHeader(http.StatusOK)
	// The first events gather as later ones do: there may be more where they came from.
	s := &Stream{writer: w, w: rw, rc: rc, event: event, wrote: time.Now()}
	w.Metrics.Open.Inc()
	s.changed.L = &s.mu
	s.mu.Lock()
	s.beat = time.AfterFunc(w.KeepAlive, func() { s.tick(onBeat) })
	s.mu.Unlock()
	return s
}
