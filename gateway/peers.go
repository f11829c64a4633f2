package gateway

import (
	"context"
	"errors"

	"github.com/gatehouse-mcp/gatehouse/gateway/front"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/session"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// peers are the other replicas, for upstreams whose sessions only one of them can have.
type peers struct {
	session.Mailbox
	forward func(ctx context.Context, replica, tag string, c *mcp.Call) (*mcp.Reply, error)
}

// Forward makes a call in a session that another replica has. See upstream.Peers.
func (p *peers) Forward(ctx context.Context, replica, tag string, c *mcp.Call) (*mcp.Reply, error) {
	reply, err := p.forward(ctx, replica, tag, c)
	switch {
	case errors.Is(err, front.ErrNotThere):
		err = upstream.ErrNotThere
	case errors.Is(err, front.ErrUnheard):
		err = upstream.ErrUnheard
	case errors.Is(err, front.ErrLost):
		err = upstream.ErrLost
	}
	return reply, err
}

// forward has the front take a call to another replica. None is made before it is there.
func (g *Gateway) forward(ctx context.Context, replica, tag string, c *mcp.Call) (*mcp.Reply, error) {
	return g.front.Forward(ctx, replica, tag, c)
}

// direct makes a call of another replica in the session of this one that has the tag.
func (g *Gateway) direct(ctx context.Context, tag string, c *mcp.Call) (*mcp.Reply, error) {
	for _, m := range g.members() {
		if m.mcp == nil {
			continue
		}
		if reply, err := m.mcp.Serve(ctx, tag, c); !errors.Is(err, upstream.ErrNotThere) {
			return reply, err
		}
	}
	return nil, front.ErrNotThere
}

// yield has other replicas open the sessions that only one of them can have.
func (g *Gateway) yield(context.Context) error {
	for _, m := range g.members() {
		if m.mcp != nil {
			m.mcp.Yield()
		}
	}
	return nil
}
