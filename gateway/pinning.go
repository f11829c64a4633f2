package gateway

import (
	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/pinning"
	"github.com/gatehouse-mcp/gatehouse/internal/pin"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// guards returns how upstreams are wrapped for the catalog, and what is approved of them. collect,
// if not nil, takes all definitions, and nothing is guarded; else found takes what is not approved.
func guards(cfg config.Config, collect func(string, pin.Definition), found func(pinning.Finding)) (func(catalog.Upstream, upstream.Config) catalog.Upstream, pin.Lock, error) {
	if collect != nil {
		return func(u catalog.Upstream, _ upstream.Config) catalog.Upstream {
			return pinning.Collector{Server: u, Collect: collect}
		}, nil, nil
	}
	lock, err := config.NeededLock(cfg)
	if err != nil {
		return nil, nil, err
	}
	return func(u catalog.Upstream, c upstream.Config) catalog.Upstream {
		mode := config.PinMode(cfg, c)
		if mode == pinning.Off {
			return u
		}
		return pinning.New(u, mode, lock.Of(c.Name), found)
	}, lock, nil
}
