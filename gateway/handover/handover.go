package handover

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Way is a pipeline, down to the upstreams. When the pipeline ends, its calls of
// subscriptions/listen must end by themselves.
type Way struct {
	// Handler handles the calls.
	Handler mcp.Handler
	// Lists is Handler for what the gateway reads for itself. It also answers, from its
	// caches, after the pipeline has ended.
	Lists mcp.Handler
	// Holds reports whether a caller of an earlier Way is still good on this one.
	Holds func(context.Context, *mcp.Caller) bool
}

// Switch is an mcp.Handler that passes calls to the current Way.
type Switch struct{ now atomic.Pointer[Way] }

// New makes a Switch to a way.
func New(w *Way) *Switch {
	s := &Switch{}
	s.now.Store(w)
	return s
}

// Set replaces the current Way. The owner then ends the old one.
func (s *Switch) Set(w *Way) { s.now.Store(w) }

// Handle passes a call to the current Way. If that ends before the call has run, the call
// is made on its successor, unless callers have to sign in anew there: a call may have waited
// for an approval for long.
func (s *Switch) Handle(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	way := s.now.Load()
	if c.Method == mcp.MethodListen {
		return s.listen(ctx, c, way)
	}
	for {
		reply, err := way.Handler.Handle(ctx, c)
		if err == nil || !closedBefore(err) || ctx.Err() != nil {
			return reply, err
		}
		next := s.now.Load()
		if next == way || !next.Holds(ctx, &c.Caller) {
			return nil, err
		}
		way = next
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
