package front

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// peeked is how many bytes of an oversized body are searched for its id.
const peeked = 4 << 10

// errFull means that there is no room for a large message.
var errFull = errors.New("front: no room for a large message")

// peek returns the id of a message that will not be read, if it is near the beginning.
func (f *Front) peek(rc *http.ResponseController, r *http.Request) mcp.Raw {
	if r.Header.Get("Expect") != "" { // the body was not sent yet and need not be
		return nil
	}
	_ = rc.SetReadDeadline(time.Now().Add(f.bodyTime)) // this remains set, since net/http reads the rest
	prefix := make([]byte, peeked)
	n, _ := io.ReadFull(r.Body, prefix)
	return wire.PeekID(prefix[:n])
}

// readBody reads the body of a request within its limits; a large body needs room. With a
// refusal it keeps the id of the message, if it saw it.
func (p *posted) readBody(f *Front) *refuse.Refusal {
	length, limit := p.R.ContentLength, f.cfg.MaxRequestBytes
	if length > limit {
		p.Message.ID = f.peek(p.RC, p.R)
		return refuse.Large(limit)
	}
	// A ResponseWriter without deadlines, as in tests, has no limit.
	_ = p.RC.SetReadDeadline(time.Now().Add(f.bodyTime))
	var from io.Reader = p.R.Body
	var input *seen // of a body that may be large
	if length < 0 || length >= mcp.CountedBytes {
		room := f.Memory.Room(p.Caller)
		p.room = &room
		input = &seen{r: p.R.Body, room: p.room, meter: mcp.Meter{Length: length}}
		from = input
	}
	var err error
	if p.body, err = wire.ReadAll(from, length, limit); err == nil {
		_ = p.RC.SetReadDeadline(time.Time{})
		return nil
	}
	if input != nil {
		p.Message.ID = wire.PeekID(input.prefix)
	}
	switch {
	case errors.Is(err, errFull):
		return refuse.Full()
	case errors.Is(err, wire.ErrTooLarge):
		return refuse.Large(limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return refuse.Slow()
	}
	return refuse.Cut()
}

// seen keeps the first bytes of what it reads, and takes room for all of it.
type seen struct {
	r      io.Reader
	prefix []byte
	room   *mcp.Room
	meter  mcp.Meter
}

func (s *seen) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if room := peeked - len(s.prefix); room > 0 {
		s.prefix = append(s.prefix, p[:min(n, room)]...)
	}
	if !s.meter.Read(s.room, n) {
		return 0, errFull
	}
	return n, err
}
