package gateway

import (
	"cmp"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/disclosure"
	"github.com/gatehouse-mcp/gatehouse/gateway/pinning"
	"github.com/gatehouse-mcp/gatehouse/internal/audit"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// Summary is what a configuration means, for people. It contains no secrets.
type Summary struct {
	Listen    string // host:port
	Endpoint  string // URL
	Auth      string // mode
	Accepted  []auth.Accepted
	Hosts     []string
	Origins   []string
	Sessions  string // where they are kept
	Policy    string // what it denies or allows, and by how many rules
	Limits    []string
	Operators string // their address
	Audit     string // where records go; "" for nowhere
	Pinning   string // which upstreams are pinned, and to what; "" for none
	Upstreams []UpstreamSummary
	Views     []ViewSummary
	// Disclosure says to whom tools are described in short. Prompt is what the system prompt
	// of their agents should say. Both are "" if everything is described in full.
	Disclosure string
	Prompt     string
}

// auditSummary says where records go, "" for nowhere.
func auditSummary(c audit.Config) string {
	var sinks []string
	for _, s := range c.Sinks {
		sinks = append(sinks, strings.TrimSpace(s.Type+" "+s.Where()))
	}
	if sinks == nil {
		return ""
	}
	full := "a full queue loses records"
	if c.OnFull == audit.OnFullBlock {
		full = "calls wait for a full queue"
	}
	key := "anchors are not signed"
	if c.Key != "" {
		key = "anchors are signed"
	}
	return strings.Join(sinks, ", ") + "; " + full + "; " + key
}

// pinningSummary says which upstreams are pinned.
func pinningSummary(c Config) string {
	var parts []string
	for _, mode := range []string{pinning.Block, pinning.Warn} {
		var names []string
		for _, u := range c.Upstreams {
			if enabled(u) && pinMode(c, u) == mode {
				names = append(names, u.Name)
			}
		}
		if names != nil {
			parts = append(parts, mode+": "+strings.Join(names, ", "))
		}
	}
	if parts == nil {
		return ""
	}
	return fmt.Sprintf("%s (%s)", strings.Join(parts, "; "), c.Pinning.File)
}

// UpstreamSummary is what the configuration says of one upstream.
type UpstreamSummary struct {
	Name      string
	Enabled   bool
	Transport string // as configured or deduced
	Target    string // URL without its query, or the program
	Auth      string // how the gateway authenticates there
	Prefix    string // of names of tools and prompts
}

// ViewSummary is what the configuration says of one view.
type ViewSummary struct {
	Name string
	URL  string
	Show []string
}

// Summary describes c, which must be valid.
func (c Config) Summary() Summary {
	c = c.withDefaults()
	s := Summary{
		Listen:   c.Listen,
		Endpoint: c.PublicURL,
		Auth:     cmp.Or(c.Auth.Mode, auth.ModeNone),
		Accepted: c.Auth.Accepted(c.PublicURL),
		Hosts:    slices.Concat(alwaysHosts, c.hosts()),
		Origins:  append([]string{"the endpoint's own"}, c.HTTP.AllowedOrigins...),

		Sessions:  cmp.Or(c.Sessions.Store, "memory"),
		Policy:    c.policySummary(),
		Operators: cmp.Or(c.Admin.Listen, "not served: there is no admin.listen"),
		Audit:     auditSummary(c.Audit),
		Pinning:   pinningSummary(c),

		Disclosure: c.disclosureSummary(),
	}
	for _, l := range c.Limits {
		s.Limits = append(s.Limits, l.Name)
	}
	if s.Disclosure != "" {
		s.Prompt = disclosure.Prompt
	}
	for _, u := range c.Upstreams {
		prefix, _ := c.Naming.Prefix(u.Name, u.Prefix)
		s.Upstreams = append(s.Upstreams, UpstreamSummary{
			Name:      u.Name,
			Enabled:   enabled(u),
			Transport: transportOf(u),
			Target:    target(u),
			Auth:      cmp.Or(u.Auth.Type, "none"),
			Prefix:    prefix,
		})
	}
	urls := viewURLs(c)
	for _, v := range c.Views {
		s.Views = append(s.Views, ViewSummary{Name: v.Name, URL: urls[v.Name], Show: v.Show})
	}
	return s
}

// policySummary says what holds if no rule matches, and how many rules there are.
func (c Config) policySummary() string {
	rules := c.rules()
	count := fmt.Sprintf("%d rules", len(rules.Rules))
	switch len(rules.Rules) {
	case 0:
		count = "no rules"
	case 1:
		count = "1 rule"
	}
	return fmt.Sprintf("default %s, %s", cmp.Or(rules.Default, policy.DefaultDeny), count)
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

// runners are programs whose first argument that is not an option names the package that they
// fetch and run.
var runners = []string{"npx", "uvx", "bunx"}

// runs returns the package that a runner runs, "" for other commands.
func runs(u upstream.Config) string {
	if len(u.Command) > 0 && slices.Contains(runners, filepath.Base(u.Command[0])) {
		for _, argument := range u.Command[1:] {
			if !strings.HasPrefix(argument, "-") {
				return argument
			}
		}
	}
	return ""
}

// late says why an upstream may not have answered in time.
func late(u upstream.Config) string {
	if runs(u) == "" {
		return "no answer in time"
	}
	return "no answer in time: " + filepath.Base(u.Command[0]) + " may still be fetching the package; run the command once by hand, or raise --timeout and timeout.connect"
}

// target leaves out what may be secret: a query, and the arguments of a program.
func target(u upstream.Config) string {
	if u.Skills != "" {
		return u.Skills
	}
	if u.URL == "" {
		return strings.TrimSpace(strings.Join(u.Command[:1], "") + " " + runs(u))
	}
	parsed, err := url.Parse(u.URL)
	if err != nil {
		return "a URL that cannot be read"
	}
	parsed.RawQuery = ""
	return parsed.String()
}
