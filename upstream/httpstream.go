package upstream

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// httpStream is the response to a POST or a GET.
type httpStream struct {
	t      *streamable
	owner  *identity // nil for an answer that is hardly looked at
	resp   *http.Response
	events *wire.EventReader // nil for a JSON answer
	batch  []wire.Message    // messages that came in one array and are not delivered yet
	life   *deadline         // nil for a standing stream
	alive  func()            // of a standing stream: called with what comes; may be nil
	after  string            // of a standing stream: the event after which it goes on
	retry  time.Duration
	read   bool // the JSON body was read
	over   bool // the response was delivered
	ended  bool // all of the body was read
	// passing says that the result is passed on and not kept.
	passing bool
	// release gives the memory of the JSON body back; nil when it is not used again.
	release func()
	outline *mcp.Outline // of the response
	meter   mcp.Meter    // of what is being read
	own     *mcp.Room    // of what is no answer to a call; nil for none yet
}

func (s *httpStream) Release() func() { return s.release }

func (s *httpStream) Taken() <-chan struct{} { return nil }

func (s *httpStream) Outline() *mcp.Outline { return s.outline }

// Read reads the body, for the event reader and for JSON bodies.
func (s *httpStream) Read(p []byte) (int, error) {
	n, err := s.resp.Body.Read(p)
	if err == io.EOF {
		s.ended = true
	}
	switch {
	case n == 0:
		return 0, err
	case s.life != nil:
		s.life.touch()
	case s.alive != nil:
		s.alive()
	}
	if !s.meter.Read(s.room(), n) {
		return 0, errNoRoom
	}
	return n, err
}

// room is what is read is taken from: that of the call, or one that goes with the stream.
func (s *httpStream) room() *mcp.Room {
	if s.life != nil {
		if room := s.life.room.Load(); room != nil {
			return room
		}
	}
	if s.own == nil && s.owner != nil {
		s.own = s.t.outside(s.owner)
	}
	return s.own
}

func (s *httpStream) Next() (wire.Message, error) {
	for {
		if len(s.batch) > 0 {
			m := s.batch[0]
			s.batch = s.batch[1:]
			s.over = s.over || m.Kind == wire.Response
			return m, nil
		}
		data, err := s.document()
		if err != nil {
			return wire.Message{}, err
		}
		if wire.IsBatch(data) { // only 2025-03-26 has them; understood from everybody
			if s.batch, err = scanBatch(data); err != nil {
				return wire.Message{}, err
			}
			continue
		}
		m, err := scan(data)
		if err != nil {
			return wire.Message{}, err
		}
		s.over, s.outline = m.Kind == wire.Response, m.Outline
		s.measured(s.over)
		return m, nil
	}
}

// measured ends the measuring of a message. A response is kept, for as long as its call
// has room for it.
func (s *httpStream) measured(keep bool) {
	left := 0
	if s.events != nil {
		left = s.events.Buffered()
	}
	s.meter.Next(s.room(), left, keep)
}

// document returns the next JSON document: the body, or the next event's data.
func (s *httpStream) document() ([]byte, error) {
	if s.events == nil {
		if s.read {
			return nil, io.EOF
		}
		s.read = true
		s.meter.Length = s.resp.ContentLength
		var body []byte
		var err error
		if s.passing {
			body, s.release, err = readBody(s, s.resp.ContentLength, s.t.limit)
		} else {
			body, err = wire.ReadAll(s, s.resp.ContentLength, s.t.limit)
		}
		return body, readError(err)
	}
	for {
		event, err := s.events.Next()
		if err != nil {
			return nil, readError(err)
		}
		if event.Retry > 0 {
			s.retry = event.Retry
		}
		if len(event.Data) == 0 || event.Name != "" && event.Name != "message" {
			s.measured(false)
			continue // a priming event, or none of ours
		}
		return event.Data, nil
	}
}

func readError(err error) error {
	switch {
	case err == nil, errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return err
	case errors.Is(err, wire.ErrTooLarge):
		return errTooLarge
	case errors.Is(err, errNoRoom):
		return errNoRoom
	}
	return fmt.Errorf("%w: %w", errBroken, err)
}

func (s *httpStream) LastEventID() string {
	if s.events == nil {
		return ""
	}
	return or(s.events.LastID(), s.after)
}

func (s *httpStream) Retry() time.Duration { return s.retry }

// Close gives the answer up; of an event stream that has delivered its response the
// rest, if any, is drained, so that the connection can be used again.
func (s *httpStream) Close() {
	if s.over && !s.ended && s.events != nil {
		if s.life != nil {
			s.life.pause() // the caller has its answer and may go
		}
		s.t.spawn(s.finish)
		return
	}
	// A body that was read to its end has returned its connection already.
	s.resp.Body.Close()
	s.end()
}

func (s *httpStream) end() {
	s.own.Free()
	if s.life != nil {
		s.life.end()
	}
}

// finish reads what may still come, within reason: a server that goes on for ever
// loses the connection.
func (s *httpStream) finish() {
	if s.resp.ContentLength != 0 {
		timer := time.AfterFunc(drainTime, func() { s.resp.Body.Close() })
		_, _ = io.CopyN(io.Discard, s.resp.Body, drainBytes)
		timer.Stop()
	}
	s.resp.Body.Close()
	s.end()
}

func (s *httpStream) refused() *statusError {
	e := &statusError{Status: s.resp.StatusCode, RetryAfter: readRetryAfter(s.resp.Header, time.Now())}
	timer := time.AfterFunc(10*drainTime, func() { s.resp.Body.Close() })
	body, err := wire.ReadAll(s, s.resp.ContentLength, maxErrorBody)
	timer.Stop()
	s.resp.Body.Close()
	s.end()
	if err == nil && mediaType(s.resp.Header) != typeEvents {
		if m, err := scan(body); err == nil {
			e.Message = m
		} else {
			e.Text = clip(string(body))
		}
	}
	return e
}

func mediaType(h http.Header) string {
	value := h.Get("Content-Type")
	if value == typeJSON || value == typeEvents {
		return value
	}
	mediaType, _, err := mime.ParseMediaType(value)
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return ""
	}
	return mediaType
}

// scan reads one message of a server.
func scan(data []byte) (wire.Message, error) {
	m, err := wire.ScanUpstream(data)
	if err != nil {
		return m, fmt.Errorf("%w: %v", errGarbage, err) // an error of ours, not one to show
	}
	return m, nil
}

func scanBatch(data []byte) ([]wire.Message, error) {
	messages, errs, err := wire.ScanBatch(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", errGarbage, err)
	}
	for _, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("%w: %v", errGarbage, err)
		}
	}
	return messages, nil
}

// maxRetryAfter bounds for how long a server can have a user wait.
const maxRetryAfter = 300 * time.Second

// readRetryAfter reads how long a server wants to be left alone: seconds, or a date by its
// own clock. 0 is for what is neither, and for what is over.
func readRetryAfter(h http.Header, now time.Time) time.Duration {
	value := h.Get("Retry-After")
	seconds, err := strconv.ParseUint(value, 10, 64)
	switch {
	case err == nil:
		return time.Duration(min(seconds, uint64(maxRetryAfter/time.Second))) * time.Second
	case errors.Is(err, strconv.ErrRange):
		return maxRetryAfter
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	if theirs, err := http.ParseTime(h.Get("Date")); err == nil {
		now = theirs
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}
