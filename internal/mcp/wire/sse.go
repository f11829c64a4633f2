package wire

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"time"
)

// maxRetry is the longest wait that a server may ask for.
const maxRetry = 30 * time.Second

// Event is one event of a stream (WHATWG HTML, server-sent events). An event without data
// is no message; it only carries ID and Retry.
type Event struct {
	// ID is the id field of this event, "" without one; see EventReader.LastID.
	ID string
	// Name is the event field; "" means "message".
	Name string
	// Data is the data lines joined by LF, valid until the next call of Next.
	Data []byte
	// Retry is the wait before a reconnect, at most 30 seconds; 0 without one.
	Retry time.Duration
}

// EventReader splits an event stream into events. It is not safe for concurrent use.
type EventReader struct {
	buffer
	max    int
	lastID string
	err    error
	begun  bool // the first line was read: no byte order mark any more
	sawCR  bool // an LF that comes now belongs to the CR before it
	joined []byte
}

// NewEventReader reads events of at most maxEvent bytes, counting all their lines.
func NewEventReader(r io.Reader, maxEvent int) *EventReader {
	return &EventReader{buffer: buffer{r: r}, max: maxEvent}
}

// LastID is the id from which to resume the stream: that of the last event with an id that
// Next returned.
func (r *EventReader) LastID() string { return r.lastID }

// Next returns the next event that has any field. It returns io.EOF at the end of the
// stream and drops an incomplete last event, ErrTooLarge for an event above the limit, or
// the error of the reader. After an error it returns the same one again.
func (r *EventReader) Next() (Event, error) {
	if r.err != nil {
		return Event{}, r.err
	}
	event, err := r.next()
	r.err = err
	return event, err
}

func (r *EventReader) next() (Event, error) {
	var e Event
	var setID, any bool
	id := ""
	// Offsets are relative to r.from, where the event begins, because the buffer may move.
	// A single data line stays in place; a second one moves both to joined.
	next, dataFrom, dataTo, lines := 0, 0, 0, 0
	for {
		lineFrom, lineTo, err := r.line(next)
		if err != nil {
			return Event{}, err
		}
		text := r.data[r.from+lineFrom : r.from+lineTo]
		next = lineTo + 1
		if len(text) == 0 || text[0] == ':' {
			if !any { // no event has begun: release what was read
				r.from += next
				next = 0
				continue
			}
			if len(text) > 0 {
				continue
			}
			break
		}
		name, value := field(text)
		switch string(name) {
		case "data":
			if lines++; lines == 1 {
				dataFrom, dataTo = lineTo-len(value), lineTo
			} else {
				if lines == 2 {
					r.joined = append(r.joined[:0], r.data[r.from+dataFrom:r.from+dataTo]...)
				}
				r.joined = append(append(r.joined, '\n'), value...)
			}
		case "id":
			if len(value) > MaxEventID || bytes.IndexByte(value, 0) >= 0 {
				continue
			}
			id, setID = string(value), true
		case "event":
			e.Name = eventName(value)
		case "retry":
			wait, ok := retryTime(value)
			if !ok {
				continue
			}
			e.Retry = wait
		default:
			continue
		}
		any = true
	}
	if setID {
		e.ID, r.lastID = id, id
	}
	e.Data = r.data[r.from+dataFrom : r.from+dataTo : r.from+dataTo]
	if lines > 1 {
		e.Data = r.joined
		if cap(r.joined) > keptBuffer {
			r.joined = nil
		}
	}
	r.from += next
	return e, nil
}

// line finds the line that begins at offset from of the event and reads on until it is
// complete.
func (r *EventReader) line(from int) (lineFrom, lineTo int, err error) {
	for at := from; ; {
		if r.sawCR && r.from+from < r.to {
			r.sawCR = false
			if r.data[r.from+from] == '\n' {
				from++
				at = from
			}
		}
		if n := lineEnd(r.data[min(r.from+at, r.to):r.to]); n >= 0 {
			at += n
			if at > r.max {
				return 0, 0, ErrTooLarge
			}
			r.sawCR = r.data[r.from+at] == '\r'
			if !r.begun {
				r.begun = true
				if bytes.HasPrefix(r.data[r.from+from:r.from+at], []byte("\ufeff")) {
					from += len("\ufeff")
				}
			}
			return from, at, nil
		}
		if at = max(at, r.to-r.from); at > r.max {
			return 0, 0, ErrTooLarge
		}
		if err := r.fill(); err != nil {
			return 0, 0, err
		}
	}
}

// field splits a line at its first colon and drops one space after it.
func field(line []byte) (name, value []byte) {
	name, value, _ = bytes.Cut(line, []byte{':'})
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	return name, value
}

func eventName(value []byte) string {
	switch string(value) { // the common ones without an allocation
	case "message":
		return "message"
	case "endpoint":
		return "endpoint"
	}
	return string(value)
}

func retryTime(digits []byte) (time.Duration, bool) {
	if len(digits) == 0 {
		return 0, false
	}
	ms := int64(0)
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		ms = min(10*ms+int64(c-'0'), maxRetry.Milliseconds())
	}
	return time.Duration(ms) * time.Millisecond, true
}

// AppendEvent appends an event. Data with line ends becomes several data lines, which a
// reader joins by LF. An id or name is left out if it is empty or has a line end.
func AppendEvent(dst []byte, id, name string, data []byte) []byte {
	dst = appendField(dst, "id: ", id)
	dst = appendField(dst, "event: ", name)
	for {
		n := lineEnd(data)
		if n < 0 {
			break
		}
		dst = append(append(append(dst, "data: "...), data[:n]...), '\n')
		if data[n] == '\r' && n+1 < len(data) && data[n+1] == '\n' {
			n++
		}
		data = data[n+1:]
	}
	return append(append(append(dst, "data: "...), data...), '\n', '\n')
}

func appendField(dst []byte, name, value string) []byte {
	if value == "" || strings.ContainsAny(value, "\r\n\x00") {
		return dst
	}
	return append(append(append(dst, name...), value...), '\n')
}

// AppendComment appends a comment. Readers skip it, but it keeps a connection alive.
func AppendComment(dst []byte, text string) []byte {
	dst = append(dst, ':')
	if text != "" && !strings.ContainsAny(text, "\r\n") {
		dst = append(append(dst, ' '), text...)
	}
	return append(dst, '\n', '\n')
}

// AppendRetry appends the wait before a client's reconnect, in whole milliseconds.
func AppendRetry(dst []byte, d time.Duration) []byte {
	dst = strconv.AppendInt(append(dst, "retry: "...), max(0, d.Milliseconds()), 10)
	return append(dst, '\n', '\n')
}
