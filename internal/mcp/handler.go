package mcp

import "context"

// Handler answers calls. An error that the client may read is an *Error; the edge turns any
// other error into "internal error". The context carries cancellation and deadline.
type Handler interface {
	Handle(context.Context, *Call) (*Reply, error)
}

// HandlerFunc is a function as a Handler.
type HandlerFunc func(context.Context, *Call) (*Reply, error)

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, c *Call) (*Reply, error) { return f(ctx, c) }

// Middleware wraps a Handler.
type Middleware func(Handler) Handler

// Chain wraps h in the middlewares; the first one is outermost.
func Chain(h Handler, middlewares ...Middleware) Handler {
	for i := len(middlewares) - 1; i >= 0; i-- {
		h = middlewares[i](h)
	}
	return h
}

// Aside runs a function on another stack than its caller's, for callers that then wait for long: a
// stack stays as large as it was needed, and there are many that wait.
func Aside(do func()) {
	done := make(chan any, 1)
	go func() {
		defer func() { done <- recover() }()
		do()
	}()
	if cause := <-done; cause != nil {
		panic(cause)
	}
}
