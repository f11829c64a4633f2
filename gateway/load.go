package gateway

import (
	"github.com/gatehouse-mcp/gatehouse/gateway/front"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// Load is what a Gateway holds at the moment.
type Load struct {
	Front     front.Load
	Upstreams []upstream.Status // in the order of the configuration
}

// Load counts.
func (g *Gateway) Load() Load {
	sum := Load{Front: g.front.Load()}
	for _, m := range g.graph().members {
		sum.Upstreams = append(sum.Upstreams, m.Status())
	}
	return sum
}
