package streamable

import (
	"io"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// Large results that are passed on are read into memory that is used again: to make,
// clear and collect a megabyte costs more than to read it.
const (
	largeBody = 64 << 10
	// keptBody is the largest memory that is kept, so that one huge result does not
	// stay for good.
	keptBody = 4 << 20
)

var bodies = sync.Pool{New: func() any { return new([]byte) }}

// passing reports whether the results of a method go to a client and are then done
// with: lists and what a server says of itself are kept.
func passing(method string) bool {
	return mcp.ListMember(method) == "" && method != mcp.MethodInitialize && method != mcp.MethodDiscover
}

// readBody reads a body as wire.ReadAll does. After release, which is nil for a small
// one, the body's memory belongs to the next reader.
func readBody(r io.Reader, length, limit int64) (body []byte, release func(), err error) {
	if length < largeBody {
		body, err = wire.ReadAll(r, length, limit)
		return body, nil, err
	}
	memory := bodies.Get().(*[]byte)
	if body, err = wire.ReadInto(*memory, r, length, limit); err != nil {
		bodies.Put(memory)
		return nil, nil, err
	}
	if *memory = body; cap(body) > keptBody {
		return body, nil, nil
	}
	return body, func() { bodies.Put(memory) }, nil
}
