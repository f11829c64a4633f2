package config

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/accounts"
	"github.com/gatehouse-mcp/gatehouse/auth/outbound"
	"github.com/gatehouse-mcp/gatehouse/auth/vault"
	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/clients"
	"github.com/gatehouse-mcp/gatehouse/gateway/configtext"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/disclosure"
	"github.com/gatehouse-mcp/gatehouse/gateway/pinning"
	"github.com/gatehouse-mcp/gatehouse/internal/audit"
	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/session"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// Summary describes a configuration for people. It contains no secrets.
type Summary struct {
	admin.State // except the result of reading the file

	Keys      int             `json:"keys"` // API keys
	Accepted  []auth.Accepted `json:"accepted,omitempty"`
	Included  []string        `json:"included,omitempty"` // files
	Hosts     []string        `json:"hosts"`
	Origins   []string        `json:"origins"`
	TLS       string          `json:"tls,omitempty"`        // of the endpoint
	AdminTLS  string          `json:"admin_tls,omitempty"`  // of the listener for operators
	Operators string          `json:"operators"`            // their address
	Pinning   string          `json:"pinning,omitempty"`    // which upstreams are pinned, and to what; "" for none
	Hooks     []string        `json:"hooks,omitempty"`      // their names
	Console   string          `json:"console,omitempty"`    // its address
	OwnServer string          `json:"own_server,omitempty"` // the gateway's own authorization server
	Accounts  string          `json:"accounts,omitempty"`   // of users at upstreams
	Vault     string          `json:"vault,omitempty"`      // what seals their tokens
	Kept      string          `json:"kept,omitempty"`       // the directory of the state; "" with Redis or for none
	Tracing   string          `json:"tracing,omitempty"`    // where traces go
	Metrics   string          `json:"metrics,omitempty"`    // where metrics go
	Proxy     string          `json:"proxy,omitempty"`      // its address, environment or none; "" if not set
	Memory    string          `json:"memory,omitempty"`     // the limit of serve if it runs in this container; "" for none
	// Redirects are for upstreams with users' own accounts where an operator has registered the gateway.
	Redirects []Redirect `json:"redirects,omitempty"`
	// Clients say how known clients get in at the gateway's own authorization server, if there is one.
	Clients []clients.Entry `json:"clients,omitempty"`
	// Disclosure names the clients that get short descriptions of tools. Prompt is a text for the
	// system prompt of their agents. Both are "" if everything is described in full.
	Disclosure string `json:"disclosure,omitempty"`
	Prompt     string `json:"prompt,omitempty"`
}

// auditSummary names the sinks of records, "" for none.
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

// pinningSummary names the pinned upstreams.
func pinningSummary(c Config) string {
	var parts []string
	for _, mode := range []string{pinning.Block, pinning.Warn} {
		var names []string
		for _, u := range c.Upstreams {
			if Enabled(u) && PinMode(c, u) == mode {
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

// vaultSummary describes what seals users' tokens.
func (c Config) vaultSummary() string {
	switch keys := c.Vault.Keys; {
	case c.Vault.Transit != vault.Transit{}:
		return fmt.Sprintf("sealed by the transit engine at %s", c.Vault.Transit.URL)
	case len(keys) > 0:
		return fmt.Sprintf("sealed with the key %s, of %d", keys[0].ID, len(keys))
	case c.StateDirectory() != "":
		return "sealed with the key in " + c.StateDirectory()
	}
	return "a random key, until the process ends: accounts are lost then"
}

// Redirect is a redirect URI that an operator has to register for a client of the gateway.
type Redirect struct {
	Upstream string `json:"upstream"`
	URI      string `json:"uri"`
	Client   string `json:"client"`
	At       string `json:"at"` // the authorization server
}

// Summary describes c, which must be valid.
func (c Config) Summary() Summary {
	c = c.WithDefaults()
	s := Summary{
		State: admin.State{
			Listen:   c.Listen,
			Endpoint: c.PublicURL,
			Auth:     cmp.Or(c.Auth.Mode, auth.ModeNone),
			Sessions: cmp.Or(c.Sessions.Store, session.StoreMemory),
			Policy:   c.policySummary(),
			Audit:    auditSummary(c.Audit),
		},
		Keys:       len(c.Auth.Keys.All()),
		Accepted:   c.Auth.Accepted(c.PublicURL),
		Included:   c.Included,
		Hosts:      slices.Concat(alwaysHosts, c.Hosts()),
		Origins:    append([]string{"the endpoint's own"}, c.HTTP.AllowedOrigins...),
		TLS:        c.TLS.String(),
		AdminTLS:   c.Admin.TLS.String(),
		Operators:  cmp.Or(c.Admin.Listen, "not served: there is no admin.listen"),
		Pinning:    pinningSummary(c),
		Kept:       c.StateDirectory(),
		Disclosure: c.disclosureSummary(),
		Proxy:      egress.Named(c.Proxy),
	}
	for _, h := range c.Hooks {
		s.Hooks = append(s.Hooks, h.Name)
	}
	if !c.Admin.Console.IsZero() {
		s.Console = c.Admin.At() + "/console/"
	}
	if c.Auth.Server.Enabled {
		provider := c.Auth.Server.WithDefaults(c.Auth, c.PublicURL).Provider
		s.OwnServer = fmt.Sprintf("%s, users sign in at %s", accounts.Origin(c.PublicURL), provider)
	}
	if names := WithAccounts(c.Upstreams); names != nil {
		s.Accounts = fmt.Sprintf("at %s, users see theirs at %s", strings.Join(names, ", "),
			accounts.Origin(c.PublicURL)+accounts.Root)
		s.Vault = c.vaultSummary()
	}
	if !c.Tracing.IsZero() {
		s.Tracing = configtext.ServerURL(cmp.Or(c.Written["tracing.endpoint"], c.Tracing.Endpoint))
	}
	if metrics := c.Telemetry.Metrics; !metrics.IsZero() {
		s.Metrics = configtext.ServerURL(cmp.Or(c.Written["telemetry.metrics.endpoint"], metrics.Endpoint))
	}
	if memory := c.Memory(); memory.From != "" {
		s.Memory = memory.String()
	}
	for _, l := range c.Limits {
		s.Limits = append(s.Limits, l.Name)
	}
	if s.Disclosure != "" {
		s.Prompt = disclosure.Prompt
	}
	for _, u := range c.Upstreams {
		prefix, _ := c.Naming.Prefix(u.Name, u.Prefix)
		s.Servers = append(s.Servers, admin.ConfiguredOne{
			Name:      u.Name,
			Enabled:   Enabled(u),
			Transport: TransportOf(u),
			Target:    c.Target(u),
			Auth:      cmp.Or(u.Auth.Type, "none"),
			Prefix:    prefix,
			Sandbox:   u.Sandbox.String(),
		})
		if u.Auth.Type == outbound.TypeUserOAuth && u.Auth.ClientID != "" {
			s.Redirects = append(s.Redirects, Redirect{u.Name, accounts.Origin(c.PublicURL) + accounts.CallbackPath(u.Name),
				u.Auth.ClientID, u.Auth.AuthorizationServer})
		}
	}
	if c.Auth.Server.Enabled {
		s.Clients = clients.Entries(ownServer(c.Auth.Server))
	}
	urls := ViewURLs(c)
	for _, v := range c.Views {
		s.Views = append(s.Views, admin.ConfiguredView{Name: v.Name, URL: urls[v.Name], Show: v.Show})
	}
	return s
}

// policySummary describes the default effect of policy, and the number of its rules.
func (c Config) policySummary() string {
	rules := c.Rules()
	count := fmt.Sprintf("%d rules", len(rules.Rules))
	switch len(rules.Rules) {
	case 0:
		count = "no rules"
	case 1:
		count = "1 rule"
	}
	return fmt.Sprintf("default %s, %s", cmp.Or(rules.Default, policy.DefaultDeny), count)
}

// TransportOf returns the transport of an upstream, as configured or deduced.
func TransportOf(u upstream.Config) string {
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

// runners are programs that fetch and run a package: their first argument that is not an option
// names it.
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

// Late returns why an upstream may not have answered in time.
func Late(u upstream.Config) string {
	if runs(u) == "" {
		return "no answer in time"
	}
	return "no answer in time: " + filepath.Base(u.Command[0]) +
		" may still be fetching the package; run the command once by hand, or raise --timeout and timeout.connect"
}

// Target returns the URL or program of an upstream, without what may be secret: what references stand for, a
// query, a path by which a server knows its callers, and arguments.
func (c Config) Target(u upstream.Config) string {
	u = c.asWritten(u)
	switch {
	case u.Skills != "":
		return u.Skills
	case u.URL != "":
		return configtext.ServerURL(u.URL)
	}
	return strings.TrimSpace(strings.Join(u.Command[:1], "") + " " + runs(u))
}

// asWritten returns an upstream with its references in place of what they stand for, where it says what it is.
func (c Config) asWritten(u upstream.Config) upstream.Config {
	at := slices.IndexFunc(c.Upstreams, func(other upstream.Config) bool { return other.Name == u.Name })
	written := func(value, key string) string {
		return cmp.Or(c.Written[fmt.Sprintf("upstreams[%d].%s", at, key)], value)
	}
	u.URL, u.Skills, u.Command = written(u.URL, "url"), written(u.Skills, "skills"), slices.Clone(u.Command)
	for i, arg := range u.Command {
		u.Command[i] = written(arg, fmt.Sprintf("command[%d]", i))
	}
	return u
}

// Disclosure is the section "disclosure": how tools are described to clients. The mode of a
// client overrides the mode of an upstream, which overrides the general mode.
type Disclosure struct {
	disclosure.Config `yaml:",inline"`
	// Clients are callers with a mode of their own, whatever other modes say. The first entry that fits a
	// caller decides. Default none.
	Clients []DisclosureClient `yaml:"clients"`
}

// DisclosureClient is the mode for some callers.
type DisclosureClient struct {
	// Who selects these callers, as in rules of policy. Required.
	Who policy.Who `yaml:"who"`
	// Mode is full or progressive. Required.
	Mode string `yaml:"mode"`
}

// maxDisclosureClients bounds the list of clients.
const maxDisclosureClients = 1000

func (d Disclosure) validate(issuers []string) error {
	var found problems.List
	found.Join(d.Config.Validate())
	if len(d.Clients) > maxDisclosureClients {
		found.Add("clients: %d are more than %d", len(d.Clients), maxDisclosureClients)
		return found.Err()
	}
	for i, c := range d.Clients {
		path := fmt.Sprintf("clients[%d]", i)
		found.At(path+": who", c.Who.Validate(), c.Who.CheckIssuers(issuers))
		found.When(c.Mode == "", "%s: mode: is needed: full or progressive", path)
		found.At(path+": mode", disclosure.CheckMode(c.Mode))
	}
	return found.Err()
}

// checkDisclosure returns mistakes in the settings for one upstream.
func checkDisclosure(u upstream.Disclosure) error {
	var found problems.List
	found.At("disclosure: mode", disclosure.CheckMode(u.Mode))
	for _, tool := range slices.Sorted(maps.Keys(u.Summaries)) {
		found.At(fmt.Sprintf("disclosure: summaries[%s]", tool), disclosure.CheckSummary(u.Summaries[tool]))
	}
	return found.Err()
}

// disclosureSummary describes the modes for people, "" if everything is described in full.
func (c Config) disclosureSummary() string {
	const most = 10 // clients
	modes, text := []string{c.Disclosure.Mode}, cmp.Or(c.Disclosure.Mode, disclosure.ModeFull)
	for _, u := range c.Upstreams {
		if u.Disclosure.Mode != "" && Enabled(u) {
			modes, text = append(modes, u.Disclosure.Mode), text+fmt.Sprintf(", %s %s", u.Name, u.Disclosure.Mode)
		}
	}
	for i, client := range c.Disclosure.Clients {
		modes = append(modes, client.Mode)
		if i < most {
			text += fmt.Sprintf(", clients[%d] %s", i, client.Mode)
		}
	}
	if len(c.Disclosure.Clients) > most {
		text += ", ..."
	}
	if !slices.Contains(modes, disclosure.ModeProgressive) {
		return ""
	}
	return text
}

// ShowsInFull reports whether some clients get the tools of an upstream in full.
func (c Config) ShowsInFull(u upstream.Config) bool {
	if cmp.Or(u.Disclosure.Mode, c.Disclosure.Mode) != disclosure.ModeProgressive {
		return true
	}
	return slices.ContainsFunc(c.Disclosure.Clients,
		func(client DisclosureClient) bool { return client.Mode == disclosure.ModeFull })
}

// CheckDescriptions reads the directory of descriptions, if there is one, and returns how many
// tools have one. The error names all bad files.
func (c Config) CheckDescriptions() (int, error) {
	if c.Disclosure.Descriptions == "" {
		return 0, nil
	}
	all, err := disclosure.ReadDescriptions(c.Disclosure.Descriptions)
	if err != nil {
		return 0, fmt.Errorf("disclosure: descriptions: %w", err)
	}
	return len(all), nil
}
