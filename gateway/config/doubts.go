package config

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/loopback"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
	"github.com/gatehouse-mcp/gatehouse/policy"
)

// whoDoubts reports sets of callers that are empty, because callers are not identified.
func whoDoubts(c Config) (doubts problems.List) {
	if c.Auth.Identifies() {
		return nil
	}
	nobody := func(path string, who policy.Who) {
		doubts.When(!who.IsZero(), "%s: who: nobody is %s: without authentication (auth.mode) nobody says who they are",
			path, who)
	}
	for i, r := range c.Policy.Rules {
		nobody(fmt.Sprintf("policy.rules[%d]", i), r.Who)
	}
	for i, l := range c.Limits {
		nobody(fmt.Sprintf("limits[%d]", i), l.Who)
	}
	for i, h := range c.Hooks {
		nobody(fmt.Sprintf("hooks[%d]", i), h.Who)
	}
	for i, v := range c.Views {
		nobody(fmt.Sprintf("views[%d]", i), v.Who)
	}
	return doubts
}

// secretDoubt reports a program that may find secrets of others in the environment of what started
// the gateway; secrets are the keys of those that come from there. A box keeps a program from
// environments and from files; its own secrets are its own.
func secretDoubt(c Config, secrets []string) error {
	for i, u := range c.Upstreams {
		if !Enabled(u) || len(u.Command) == 0 || u.Sandbox != nil {
			continue
		}
		own := fmt.Sprintf("upstreams[%d].", i)
		for _, key := range secrets {
			if !strings.HasPrefix(key, own) {
				return fmt.Errorf("%s: command: without sandbox, this program may find %s in the environment of the "+
					"process that started the gateway: use ${file:...}, and sandbox, which keeps the program from both "+
					"(docs/operations.md)", UpstreamKey(i, u), key)
			}
		}
	}
	return nil // one is enough to say so
}

// loopDoubts reports upstreams that are the gateway itself.
func loopDoubts(c Config) (doubts problems.List) {
	for i, u := range c.Upstreams {
		doubts.When(Enabled(u) && u.URL != "" && serves(c, u.URL),
			"%s: url: is this gateway itself, which refuses its own requests", UpstreamKey(i, u))
	}
	return doubts
}

// serves reports whether a URL leads to an endpoint of the gateway, as far as its configuration tells.
func serves(c Config, raw string) bool {
	c = c.WithDefaults()
	u, err := url.Parse(raw)
	public, invalid := url.Parse(c.PublicURL)
	host, port, _ := net.SplitHostPort(c.Listen)
	if err != nil || invalid != nil {
		return false
	}
	paths := []string{c.Path(), c.SSEPath()}
	for _, v := range c.Views {
		paths = append(paths, ViewPath(c, v))
	}
	here := u.Port() == port && (strings.EqualFold(u.Hostname(), host) ||
		loopback.Host(u.Hostname()) && (everyHost(host) || loopback.Host(host)))
	return slices.Contains(paths, u.Path) && (here || strings.EqualFold(u.Host, public.Host))
}
