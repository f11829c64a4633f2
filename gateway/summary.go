package gateway

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/disclosure"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// Summary is what a configuration means, for people. It holds no secrets.
type Summary struct {
	Listen    string // host:port
	Endpoint  string // URL
	Auth      string // mode
	Accepted  []auth.Accepted
	Hosts     []string
	Origins   []string
	Upstreams []UpstreamSummary
	// Disclosure says to whom tools are described in short, and Prompt is what the system
	// prompt of their agents should tell; "" where all is described in full.
	Disclosure string
	Prompt     string
}

// UpstreamSummary is what the configuration says of one upstream.
type UpstreamSummary struct {
	Name      string
	Enabled   bool
	Transport string // as configured or concluded
	Target    string // URL without its query, or the program
	Prefix    string // of names of tools and prompts
}

// Summary describes c, which has to be valid.
func (c Config) Summary() Summary {
	c = c.withDefaults()
	s := Summary{
		Listen:   c.Listen,
		Endpoint: c.PublicURL,
		Auth:     cmp.Or(c.Auth.Mode, auth.ModeNone),
		Accepted: c.Auth.Accepted(c.PublicURL),
		Hosts:    slices.Concat(alwaysHosts, c.hosts()),
		Origins:  append([]string{"the endpoint's own"}, c.HTTP.AllowedOrigins...),
	}
	if c.progressive() {
		s.Disclosure, s.Prompt = c.disclosureSummary(), disclosure.Prompt
	}
	for _, u := range c.Upstreams {
		s.Upstreams = append(s.Upstreams, UpstreamSummary{
			Name:      u.Name,
			Enabled:   enabled(u),
			Transport: transportOf(u),
			Target:    target(u),
			Prefix:    c.prefix(u),
		})
	}
	return s
}

func transportOf(u upstream.Config) string {
	switch {
	case u.Transport != "" && u.Transport != "auto":
		return u.Transport
	case u.URL != "":
		return "streamable"
	case u.Skills != "":
		return "skills"
	}
	return "stdio"
}

// target leaves out what may be secret: a query, and the arguments of a program.
func target(u upstream.Config) string {
	if u.Skills != "" {
		return u.Skills
	}
	if u.URL == "" {
		return strings.Join(u.Command[:1], "")
	}
	parsed, err := url.Parse(u.URL)
	if err != nil {
		return "a URL that cannot be read"
	}
	parsed.RawQuery = ""
	return parsed.String()
}
