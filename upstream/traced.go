package upstream

import (
	"context"
	"net"
	"net/url"
	"strconv"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/safehttp"
	"github.com/gatehouse-mcp/gatehouse/internal/tracing"
)

// traced measures each call as a step of its trail, without the time in the queue. A traced call gets a
// CLIENT span. A call that asks its user has one for each round; the request to the server names the first.
func traced(tracer *tracing.Tracer, at tracing.Peer, era func() (revision string, stateful bool)) mcp.Middleware {
	return func(next mcp.Handler) mcp.Handler {
		return mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
			if !tracer.On() && c.Trail == nil {
				return next.Handle(ctx, c)
			}
			peer := at
			peer.Revision, _ = era()
			span, c := tracer.Client(c, peer)
			defer span.End()
			reply, err := next.Handle(ctx, c)
			span.Outcome(ctx, reply, err)
			return reply, err
		})
	}
}

// peerOf describes the server of a configuration.
func peerOf(cfg Config) tracing.Peer {
	peer := tracing.Peer{Upstream: cfg.Name, Process: cfg.URL == ""}
	if u, err := url.Parse(cfg.URL); err == nil && !peer.Process {
		_, port, _ := net.SplitHostPort(safehttp.Address(u)) // an address always has a port
		peer.Host = u.Hostname()
		peer.Port, _ = strconv.Atoi(port)
	}
	return peer
}
