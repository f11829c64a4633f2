package operate

import (
	"context"
	"errors"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// server answers calls once it is told to; listening ends with its context.
type server struct{ entered, answer chan struct{} }

func (*server) Name() string { return "crm" }

func (s *server) Handle(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	if s.entered != nil {
		s.entered <- struct{}{}
	}
	if c.Method == mcp.MethodListen {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if s.answer != nil {
		<-s.answer
	}
	return &mcp.Reply{Result: mcp.Raw("{}")}, ctx.Err()
}

// TestSwitch: a disabled server gets no calls; those that run end as they would, and listening
// ends at once.
func TestSwitch(t *testing.T) {
	u := &server{entered: make(chan struct{}), answer: make(chan struct{})}
	s := &Switch{}
	g := s.Guard(u)
	ran, listened := make(chan error), make(chan error)
	call := func(method string, to chan error) {
		_, err := g.Handle(t.Context(), &mcp.Call{Method: method})
		to <- err
	}
	go call(mcp.MethodToolsCall, ran)
	<-u.entered
	go call(mcp.MethodListen, listened)
	<-u.entered
	s.Disable("bob")
	refused := func(err error) {
		t.Helper()
		if e, ok := errors.AsType[*mcp.Error](err); !ok || e.Name != failure.UpstreamDisabled ||
			e.Data.At("executed").Text() != "no" {
			t.Errorf("refused with %v", err)
		}
	}
	refused(<-listened)
	for _, method := range []string{mcp.MethodToolsCall, mcp.MethodToolsList, mcp.MethodListen, mcp.MethodDiscover} {
		_, err := g.Handle(t.Context(), &mcp.Call{Method: method})
		refused(err)
	}
	close(u.answer)
	if err := <-ran; err != nil {
		t.Errorf("a call that ran: %v", err)
	}
	u.entered = nil
	s.Enable()
	if _, err := g.Handle(t.Context(), &mcp.Call{Method: mcp.MethodToolsCall}); err != nil {
		t.Error(err)
	}
	if n := len(s.listens); n != 0 {
		t.Errorf("%d are remembered as listening", n)
	}
}
