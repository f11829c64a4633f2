package handover

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Way is a pipeline, down to the upstreams. When it is over, its calls of
// subscriptions/listen have to end by themselves.
type Way struct {
	// Handler takes the calls.
	Handler mcp.Handler
	// Lists is Handler for what the gateway looks at by itself. It answers after the way
	// is over, too, from what is known.
	Lists mcp.Handler
	// Callers tells apart what mcp.Callers are made by: one that came on one way is good
	// on another with the same Callers. It is compared with ==.
	Callers any
}

// Switch is an mcp.Handler that hands calls to the way that holds.
type Switch struct{ now atomic.Pointer[Way] }

// New makes a Switch to a way.
func New(w *Way) *Switch {
	s := &Switch{}
	s.now.Store(w)
	return s
}

// Set makes another way hold. Then the owner ends the one before.
func (s *Switch) Set(w *Way) { s.now.Store(w) }

// Handle hands a call to the way that holds. Should that be over before the call was
// made, it is made on the one that took its place.
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
		if next == way {
			return nil, err
		}
		way = next
	}
}

// closedBefore reports whether a call did not run, for its upstream was being closed.
func closedBefore(err error) bool {
	e, ok := errors.AsType[*mcp.Error](err)
	if !ok || e.Code != mcp.CodeDraining {
		return false
	}
	executed, _ := e.Data.Member("executed")
	return executed.Text() == string(mcp.ExecutedNo)
}
