package wire

import (
	"errors"
	"io"
)

// Limits of what is read, in bytes unless stated otherwise.
const (
	// MaxDepth is how deep objects and arrays may nest, the envelope included.
	MaxDepth = 256
	// MaxMembers bounds the members of an object that the gateway reads itself; arguments
	// and results are not among these.
	MaxMembers = 256
	// MaxID bounds a request id as written, its quotes included.
	MaxID = 256
	// MaxMethod bounds a method's name.
	MaxMethod = 256
	// MaxBatch is the largest number of messages in a batch (2025-03-26).
	MaxBatch = 50
	// MaxEventID bounds an event's id; longer ones are ignored.
	MaxEventID = 1024
	// DefaultMaxRequest bounds a request body.
	DefaultMaxRequest = 4 << 20
	// DefaultMaxResult bounds an upstream's answer, be it a body, an event or a line.
	DefaultMaxResult = 16 << 20
)

// ErrTooLarge means that the input exceeds its limit.
var ErrTooLarge = errors.New("wire: too large")

// firstRead is the most that ReadAll allocates because of a size hint, before any byte has
// arrived.
const firstRead = 64 << 10

// ReadAll reads all of r, or returns ErrTooLarge after max bytes. A sizeHint, such as a
// Content-Length, saves reallocations; it is trusted only as far as bytes arrive. A hint of
// zero or below is ignored.
func ReadAll(r io.Reader, sizeHint, max int64) ([]byte, error) {
	return ReadInto(nil, r, sizeHint, max)
}

// ReadInto is ReadAll into the memory of buf, as far as that suffices. The content of buf
// is lost.
func ReadInto(buf []byte, r io.Reader, sizeHint, max int64) ([]byte, error) {
	if sizeHint > max {
		return nil, ErrTooLarge
	}
	size := int64(512)
	if sizeHint > 0 {
		size = sizeHint + 1 // one more, to reach the end without growing
	}
	if size = min(size, firstRead, max+1); int64(cap(buf)) < size {
		buf = make([]byte, 0, size)
	}
	buf = buf[:0]
	for empty := 0; ; {
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) > max:
			return nil, ErrTooLarge
		case err == io.EOF:
			return buf, nil
		case err != nil:
			return nil, err
		case n == 0:
			if empty++; empty > maxEmptyReads {
				return nil, io.ErrNoProgress
			}
			continue
		}
		empty = 0
		if len(buf) == cap(buf) {
			next := 4 * int64(cap(buf))
			if sizeHint >= int64(cap(buf)) {
				next = min(next, sizeHint+1)
			}
			buf = append(make([]byte, 0, min(next, max+1)), buf...)
		}
	}
}

// maxEmptyReads is how often a reader may return nothing before it counts as stuck.
const maxEmptyReads = 100
