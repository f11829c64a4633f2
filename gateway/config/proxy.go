package config

import (
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/loopback"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// shareProxy gives upstreams and issuers without a proxy of their own that of the gateway, unless they
// are on a loopback address.
func (c *Config) shareProxy() {
	if c.Proxy == "" || egress.CheckProxy(c.Proxy) != nil {
		return
	}
	ofServer := func(own mcp.Secret, at string) mcp.Secret {
		u, err := url.Parse(at)
		switch {
		case own != "" || at == "" || err != nil:
			return own
		case loopback.Host(u.Hostname()):
			return egress.None
		}
		return c.Proxy
	}
	c.Upstreams, c.Auth.Issuers = slices.Clone(c.Upstreams), slices.Clone(c.Auth.Issuers)
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		u.Proxy = ofServer(u.Proxy, u.URL)
	}
	for i := range c.Auth.Issuers {
		if iss := &c.Auth.Issuers[i]; !strings.HasPrefix(iss.URL, "http://") {
			iss.Proxy = ofServer(iss.Proxy, iss.URL)
		}
	}
}
