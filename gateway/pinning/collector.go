package pinning

import (
	"context"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/pin"
)

// Collector is a server that has its definitions collected, to be approved.
type Collector struct {
	Server
	// Collect takes each definition, every time it comes. It may be called concurrently.
	Collect func(upstream string, d pin.Definition)
}

// Handle passes a call on, and collects what its answer defines.
func (c Collector) Handle(ctx context.Context, call *mcp.Call) (*mcp.Reply, error) {
	reply, err := c.Server.Handle(ctx, call)
	if err != nil || reply == nil {
		return reply, err
	}
	if kind, ok := pin.KindOf(call.Method); ok && reply.List != nil {
		for _, item := range reply.List.Items {
			c.Collect(c.Name(), pin.Definition{Kind: kind, Name: item.Name, Raw: pin.Canonical(item.Raw)})
		}
	}
	if text, ok := reply.Result.Member("instructions"); ok && call.Method == mcp.MethodDiscover && text.Text() != "" {
		c.Collect(c.Name(), pin.Definition{Kind: pin.Instructions, Raw: pin.Canonical(text)})
	}
	return reply, nil
}
