package front

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// peeked is how much of a body that is too large is looked through for its id.
const peeked = 4 << 10

// errFull: there is no room for a large message.
var errFull = errors.New("front: no room for a large message")

// readBody reads the body of a request within its limits, a large one as far as there is
// room for it. With a refusal comes the id of the request, if it was seen.
func (p *posted) readBody(f *Front) (body []byte, id mcp.Raw, ref *refuse.Refusal) {
	rc, r := p.rc, p.r
	// A ResponseWriter without deadlines, as tests have, does without.
	_ = rc.SetReadDeadline(time.Now().Add(f.bodyTime))
	limit := f.cfg.MaxRequestBytes
	if r.ContentLength > limit {
		ref := refuse.Large(limit)
		if r.Header.Get("Expect") != "" { // the body was not sent yet: let it stay there
			return nil, nil, ref
		}
		prefix := make([]byte, peeked)
		n, _ := io.ReadFull(r.Body, prefix)
		return nil, wire.PeekID(prefix[:n]), ref
	}
	var from io.Reader = r.Body
	var input *seen // of a body that may be large
	if r.ContentLength < 0 || r.ContentLength >= mcp.CountedBytes {
		room := f.memory.Room(p.caller)
		p.room = &room
		input = &seen{r: r.Body, room: p.room, meter: mcp.Meter{Length: r.ContentLength}}
		from = input
	}
	body, err := wire.ReadAll(from, r.ContentLength, limit)
	if err == nil {
		_ = rc.SetReadDeadline(time.Time{})
		return body, nil, nil
	}
	if input != nil {
		id = wire.PeekID(input.prefix)
	}
	switch {
	case errors.Is(err, errFull):
		return nil, id, refuse.Full()
	case errors.Is(err, wire.ErrTooLarge):
		return nil, id, refuse.Large(limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, id, refuse.Slow()
	}
	return nil, id, refuse.Cut()
}

// seen remembers the first bytes of what it reads, and takes room for all of it.
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
