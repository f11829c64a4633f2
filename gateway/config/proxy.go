package config

import (
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/loopback"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// shareProxy gives upstreams and issuers without a proxy of their own that of the gateway, unless they
// are on a loopback address.
func shareProxy(proxy mcp.Secret, servers []upstream.Config, issuers []auth.Issuer) ([]upstream.Config, []auth.Issuer) {
	if proxy == "" || egress.CheckProxy(proxy) != nil {
		return servers, issuers
	}
	of := func(own mcp.Secret, at string) mcp.Secret {
		u, err := url.Parse(at)
		switch {
		case own != "" || at == "" || err != nil:
			return own
		case loopback.Host(u.Hostname()):
			return egress.None
		}
		return proxy
	}
	servers, issuers = slices.Clone(servers), slices.Clone(issuers)
	for i := range servers {
		servers[i].Proxy = of(servers[i].Proxy, servers[i].URL)
	}
	for i := range issuers {
		if !strings.HasPrefix(issuers[i].URL, "http://") {
			issuers[i].Proxy = of(issuers[i].Proxy, issuers[i].URL)
		}
	}
	return servers, issuers
}
