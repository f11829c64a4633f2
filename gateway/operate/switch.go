package operate

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Upstream is a server behind a switch.
type Upstream interface {
	mcp.Handler
	// Name is the configured name.
	Name() string
}

// Off names the operator who has disabled a server, and the time.
type Off struct {
	By string
	At time.Time
}

// Switch disables a server. The zero Switch is on. It may be used concurrently.
type Switch struct {
	off atomic.Pointer[Off] // nil: it is on

	mu      sync.Mutex // guards listens, and setting off
	listens map[*context.CancelCauseFunc]struct{}
}

// errOff ends listening to a server that is disabled.
var errOff = errors.New("the upstream is disabled")

// Disable stops new calls to the server, and ends listening to it. Running calls go on to their
// end. It reports whether the server was enabled.
func (s *Switch) Disable(by string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.off.CompareAndSwap(nil, &Off{by, time.Now()}) {
		return false
	}
	for end := range s.listens {
		(*end)(errOff)
	}
	return true
}

// Enable undoes Disable. It reports whether the server was disabled.
func (s *Switch) Enable() bool { return s.off.Swap(nil) != nil }

// Off returns the operator who has disabled the server, nil while it is enabled.
func (s *Switch) Off() *Off { return s.off.Load() }

// Guard returns a server that refuses calls while it is disabled.
func (s *Switch) Guard(server Upstream) Upstream { return guarded{server, s} }

type guarded struct {
	server Upstream
	by     *Switch
}

// Name returns the name of the server.
func (g guarded) Name() string { return g.server.Name() }

// Handle makes a call, unless the server is disabled.
func (g guarded) Handle(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	if g.by.Off() != nil {
		return nil, mcp.ErrDisabled(g.Name())
	}
	if c.Method != mcp.MethodListen {
		return g.server.Handle(ctx, c)
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	if !g.by.listening(&end) {
		return nil, mcp.ErrDisabled(g.Name())
	}
	defer g.by.listened(&end)
	reply, err := g.server.Handle(ctx, c)
	if errors.Is(context.Cause(ctx), errOff) {
		return nil, mcp.ErrDisabled(g.Name())
	}
	return reply, err
}

// listening counts a call that listens, unless the server is disabled.
func (s *Switch) listening(end *context.CancelCauseFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.off.Load() != nil {
		return false
	}
	if s.listens == nil {
		s.listens = make(map[*context.CancelCauseFunc]struct{})
	}
	s.listens[end] = struct{}{}
	return true
}

func (s *Switch) listened(end *context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listens, end)
}
