package mcp

import "context"

// Handler answers calls. An error that the client may read is an *Error; any other
// becomes "internal error" at the edge. The context carries cancellation, deadline
// and trace.
type Handler interface {
	Handle(context.Context, *Call) (*Reply, error)
}

// HandlerFunc is a function as a Handler.
type HandlerFunc func(context.Context, *Call) (*Reply, error)

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, c *Call) (*Reply, error) { return f(ctx, c) }

// Middleware puts behaviour around a Handler.
type Middleware func(Handler) Handler

// Chain puts the middlewares around h: the first one is outermost.
func Chain(h Handler, middlewares ...Middleware) Handler {
	for i := len(middlewares) - 1; i >= 0; i-- {
		h = middlewares[i](h)
	}
	return h
}
