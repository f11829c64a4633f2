package front

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// peeked is how much of a body that is too large is looked through for its id.
const peeked = 4 << 10

// readBody reads a request's body within its limits. With a refusal comes the id
// of the request, if it was seen.
func (f *Front) readBody(rc *http.ResponseController, r *http.Request) ([]byte, mcp.Raw, *refusal) {
	// A ResponseWriter without deadlines, as tests have, does without.
	_ = rc.SetReadDeadline(time.Now().Add(f.bodyTime))
	limit := f.cfg.MaxRequestBytes
	if r.ContentLength > limit {
		ref := refuseLarge(limit)
		if r.Header.Get("Expect") != "" { // the body was not sent yet: let it stay there
			return nil, nil, ref
		}
		prefix := make([]byte, peeked)
		n, _ := io.ReadFull(r.Body, prefix)
		return nil, wire.PeekID(prefix[:n]), ref
	}
	input := seen{r: r.Body}
	var from io.Reader = r.Body
	if r.ContentLength < 0 {
		from = &input
	}
	body, err := wire.ReadAll(from, r.ContentLength, limit)
	if err == nil {
		_ = rc.SetReadDeadline(time.Time{})
		return body, nil, nil
	}
	switch {
	case errors.Is(err, wire.ErrTooLarge):
		return nil, wire.PeekID(input.prefix), refuseLarge(limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, wire.PeekID(input.prefix), refuseSlow()
	}
	return nil, wire.PeekID(input.prefix), refuseCut()
}

// seen remembers the first bytes of what it reads.
type seen struct {
	r      io.Reader
	prefix []byte
}

func (s *seen) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if room := peeked - len(s.prefix); room > 0 {
		s.prefix = append(s.prefix, p[:min(n, room)]...)
	}
	return n, err
}
