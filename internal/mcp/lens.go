package mcp

import (
	"context"
	"sync"
)

// Lens is what the caller of a call sees of all servers at one moment; gateway/catalog makes it. It
// never changes, and is safe for concurrent use.
type Lens interface {
	// Target returns what a public name of a kind, one of the Kind constants, stands for. ok is false
	// for a name that the caller cannot use. It waits for a server that may have the name.
	Target(ctx context.Context, kind, public string) (to Target, ok bool)
	// Schema returns the input schema of a tool, nil for one that cannot be known. Ask only about tools
	// that the caller may see: it may ask their server.
	Schema(ctx context.Context, public string) *Schema
	// Structured reports whether results of a tool need structured content. Unknown counts as yes.
	Structured(tool Target) bool
	// Now returns what the caller sees at this moment.
	Now() Lens
}

// Through returns a middleware that puts a lens into each call.
func Through(lens func(*Call) Lens) Middleware {
	return func(next Handler) Handler {
		return HandlerFunc(func(ctx context.Context, c *Call) (*Reply, error) {
			c = c.Clone()
			c.Lens = lens(c)
			return next.Handle(ctx, c)
		})
	}
}

// Schema is the input schema of a tool, with what its reader has made of it.
type Schema struct {
	Text Raw

	once sync.Once
	read any
}

// Read returns what a reader makes of the text. All callers have to pass the same reader, which runs
// once.
func (s *Schema) Read(read func(Raw) any) any {
	s.once.Do(func() { s.read = read(s.Text) })
	return s.read
}
