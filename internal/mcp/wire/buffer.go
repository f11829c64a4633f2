package wire

import (
	"bytes"
	"io"
	"sync"
)

const (
	firstBuffer = 4 << 10   // streams are mostly idle
	keptBuffer  = 256 << 10 // the most that one large event may leave behind
	fastBuffer  = 1 << 20   // below this size a buffer grows in larger steps
)

// buffer reads from r. Its unread bytes are data[from:to]. A caller that consumes bytes
// advances from; fill makes room by moving the rest or by growing.
type buffer struct {
	r        io.Reader
	data     []byte
	from, to int
	first    *[firstBuffer]byte // where data began; nil for nowhere
}

// firsts holds memory for short streams. Free gives it back.
var firsts = sync.Pool{New: func() any { return new([firstBuffer]byte) }}

// Free gives memory back. What Next returned, and the rest of the stream, is lost.
func (b *buffer) Free() {
	if b.first != nil {
		firsts.Put(b.first)
		b.first, b.data, b.from, b.to = nil, nil, 0, 0
	}
}

// fill reads more bytes and advances to. Unread bytes keep their offset from from.
func (b *buffer) fill() error {
	switch left := b.to - b.from; {
	case left == 0 && len(b.data) <= keptBuffer:
		b.from, b.to = 0, 0
	case left < firstBuffer && len(b.data) > keptBuffer:
		b.move(firstBuffer)
	case b.to == len(b.data) && left > len(b.data)/2:
		if len(b.data) < fastBuffer {
			b.move(4 * len(b.data))
		} else {
			b.move(2 * len(b.data))
		}
	case b.to == len(b.data):
		b.from, b.to = 0, copy(b.data, b.data[b.from:b.to])
	}
	if len(b.data) == 0 {
		b.first = firsts.Get().(*[firstBuffer]byte)
		b.data = b.first[:]
	}
	for range maxEmptyReads {
		n, err := b.r.Read(b.data[b.to:])
		b.to += n
		if n > 0 { // the next read returns the error again
			return nil
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// Buffered returns the number of bytes that were read but not yet returned by Next.
func (b *buffer) Buffered() int { return b.to - b.from }

// move copies the unread bytes into a new array.
func (b *buffer) move(size int) {
	data := make([]byte, size)
	b.from, b.to, b.data = 0, copy(data, b.data[b.from:b.to]), data
}

// lineEnd returns the index of the first CR or LF, or -1. It searches by pieces: streams that use
// only CR would otherwise be searched to their end for each line.
func lineEnd(b []byte) int {
	const piece = 4 << 10
	for at := 0; at < len(b); at += piece {
		part := b[at:min(at+piece, len(b))]
		end := bytes.IndexByte(part, '\n')
		if end < 0 {
			end = len(part)
		}
		if cr := bytes.IndexByte(part[:end], '\r'); cr >= 0 {
			return at + cr
		}
		if end < len(part) {
			return at + end
		}
	}
	return -1
}
