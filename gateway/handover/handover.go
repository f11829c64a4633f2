package handover

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Pipeline leads calls through all stages down to the upstreams. When it ends, its calls of
// subscriptions/listen must end by themselves.
type Pipeline struct {
	// Handler handles the calls.
	Handler mcp.Handler
	// Lists is the Handler for lists that the gateway reads for itself. It also answers, from its
	// caches, after the pipeline has ended.
	Lists mcp.Handler
	// Holds reports whether a caller of an earlier Pipeline is still valid on this one.
	Holds func(context.Context, *mcp.Caller) bool
}

// Switch is an mcp.Handler that passes calls to the current Pipeline.
type Switch struct{ now atomic.Pointer[Pipeline] }

// New makes a Switch to a pipeline.
func New(w *Pipeline) *Switch {
	s := &Switch{}
	s.now.Store(w)
	return s
}

// Set replaces the current Pipeline. The owner then ends the old one.
func (s *Switch) Set(w *Pipeline) { s.now.Store(w) }

// Handle passes a call to the current Pipeline. If that ends before the call has run, the call is
// made on its successor, unless callers have to sign in again there: a call may have waited for an
// approval for long.
func (s *Switch) Handle(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	pipeline := s.now.Load()
	if c.Method == mcp.MethodListen {
		return s.listen(ctx, c, pipeline)
	}
	for {
		reply, err := pipeline.Handler.Handle(ctx, c)
		if err == nil || !closedBefore(err) || ctx.Err() != nil {
			return reply, err
		}
		next := s.now.Load()
		if next == pipeline || !next.Holds(ctx, &c.Caller) {
			return nil, err
		}
		pipeline = next
	}
}

// closedBefore reports whether a call did not run because its upstream was closing.
func closedBefore(err error) bool {
	e, ok := errors.AsType[*mcp.Error](err)
	if !ok || e.Code != mcp.CodeDraining {
		return false
	}
	executed, _ := e.Data.Member("executed")
	return executed.Text() == string(mcp.ExecutedNo)
}
