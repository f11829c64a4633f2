package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/accounts"
	"github.com/gatehouse-mcp/gatehouse/auth/apikey"
	"github.com/gatehouse-mcp/gatehouse/auth/vault"
	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/gateway/console"
	"github.com/gatehouse-mcp/gatehouse/gateway/doorway"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/loadskill"
	"github.com/gatehouse-mcp/gatehouse/gateway/front"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/sse2024"
	"github.com/gatehouse-mcp/gatehouse/gateway/hooks"
	"github.com/gatehouse-mcp/gatehouse/gateway/observe"
	"github.com/gatehouse-mcp/gatehouse/gateway/pinning"
	"github.com/gatehouse-mcp/gatehouse/gateway/view"
	"github.com/gatehouse-mcp/gatehouse/internal/audit"
	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
	"github.com/gatehouse-mcp/gatehouse/internal/tlsfiles"
	"github.com/gatehouse-mcp/gatehouse/internal/tracing"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/session"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

const (
	defaultShutdownTimeout = 30 * time.Second
	mostDelay              = 10 * time.Minute
)

// Config is the whole configuration. Only upstreams have no default. A reload applies every
// change except those that needsRestart reports.
type Config struct {
	// Listen is the address of the endpoint: host:port, where port 0 takes a free port; unix:/path, a socket
	// for the user and the group of the gateway; or systemd, the socket that a socket unit passes, and
	// systemd:NAME if it passes several, by FileDescriptorName. Without authentication it has to be a
	// loopback address or a socket. Default 127.0.0.1:8080.
	Listen string `yaml:"listen"`
	// TLS has the certificates of the endpoint. New connections use a changed file within seconds. Default:
	// plain HTTP, as behind a proxy that ends TLS.
	TLS tlsfiles.Server `yaml:"tls"`
	// PublicURL is the URL that clients use, for example at a proxy that ends TLS. The endpoint has exactly
	// its path. Default http://<listen>/mcp, or https with tls.
	PublicURL string `yaml:"public_url"`
	// Auth identifies callers (docs/configuration.md#who-may-connect).
	Auth auth.Config `yaml:"auth"`
	// Sessions keeps what clients of the revisions up to 2025-11-25 have between requests.
	Sessions session.Config `yaml:"sessions"`
	// Vault has the keys for the tokens of users' own accounts at servers (upstreams[].auth.type user_oauth).
	// docs/credentials.md#changing-the-key says how they are changed.
	Vault vault.Config `yaml:"vault"`
	// State has what outlives a gateway without Redis (docs/operations.md#state-of-a-gateway-alone).
	State State `yaml:"state"`
	// Accounts has the pages where users sign in at servers with accounts of their own: /account at the
	// scheme and host of public_url.
	Accounts accounts.Config `yaml:"accounts"`
	// Replicas lets gateways with one session store find each other. Each session has one owner among them,
	// and the others forward its requests to the owner over TLS (docs/operations.md#replicas).
	Replicas cluster.Config `yaml:"replicas"`
	// Policy decides what callers may do (docs/policy.md), and "gatehouse explain" says why. Required with
	// auth.mode oauth and keys. Without authentication and without this section, everything is allowed.
	Policy policy.Config `yaml:"policy"`
	// Limits bound how often something is used. A call has to fit all that apply to it, or gets 429 with
	// Retry-After. Default none.
	Limits policy.Limits `yaml:"limits"`
	// Hooks inspect the content of calls, in this order: arguments before a server gets them, and results
	// before a client does (docs/hooks.md). Default none.
	Hooks hooks.Config `yaml:"hooks"`
	// Upstreams are the MCP servers, in the order in which lists show them. At least one is
	// required, unless other files are included.
	Upstreams []upstream.Config `yaml:"upstreams"`
	// Defaults are keys that each upstream takes which does not have them itself, inside of a section, too.
	// Directories of skills take none.
	Defaults upstream.Defaults `yaml:"defaults"`
	// Include lists patterns of further files with upstreams, rules of policy and views; their paths start at
	// the directory of this file. They follow in the order of their names. Default none.
	Include []string `yaml:"include"`
	// Teams own the included files, each bound to what its team may name
	// (docs/configuration.md#several-files-and-teams). Default: the files may have whatever this one may.
	Teams []Team `yaml:"teams"`
	// Proxy is the proxy for https, and http beyond loopback addresses, to upstreams, issuers, token
	// endpoints and documents of clients: its URL, http or https, with user and password if it wants them,
	// percent-encoded; environment, for HTTPS_PROXY, HTTP_PROXY and NO_PROXY; or none. Default environment.
	Proxy mcp.Secret `yaml:"proxy" secret:"user"`
	// Naming makes the public names of tools and prompts (docs/names.md).
	Naming catalog.Config `yaml:"naming"`
	// Disclosure says how tools are described to clients (docs/disclosure.md). Default: in full.
	Disclosure Disclosure `yaml:"disclosure"`
	// Views are further endpoints, each with a selection of what policy allows: a small list for each job
	// (docs/views.md). Default none.
	Views []view.Config `yaml:"views"`
	// Pinning holds upstreams to their approved definitions (docs/pinning.md). Default: off.
	Pinning pinning.Config `yaml:"pinning"`
	// Skills offers skills to hosts that know no form of them (docs/skills.md).
	Skills loadskill.Config `yaml:"skills"`
	// HTTP bounds requests to the endpoint and its answers.
	HTTP front.Config `yaml:"http"`
	// Connections bounds the connections of clients.
	Connections doorway.Config `yaml:"connections"`
	// Audit says where records of decisions go, one for each call, allowed or refused (docs/audit.md).
	// Default: nothing is recorded.
	Audit audit.Config `yaml:"audit"`
	// Tracing says where traces of calls go (docs/tracing.md). Default: nothing is traced.
	Tracing tracing.Config `yaml:"tracing"`
	// Telemetry is what the gateway reports about itself.
	Telemetry Telemetry `yaml:"telemetry"`
	// Admin has the listener for operators, with the API and the console.
	Admin Admin `yaml:"admin"`
	// ShutdownDelay is the time for which the gateway continues after the signal to stop, so that
	// load balancers notice the stop by /readyz. Meanwhile, new sessions are refused and everything
	// else is served. Default 0s, at most 10m.
	ShutdownDelay time.Duration `yaml:"shutdown_delay" zero:"no delay, the default"`
	// ShutdownTimeout is the time for which running calls may continue after that. Default 30s.
	ShutdownTimeout time.Duration `yaml:"shutdown_timeout"`

	// Written has the values with references, as the file has them, by their paths, such as
	// "upstreams[2].url".
	Written map[string]string `yaml:"-"`
	// Included are the files that Include has found.
	Included []string `yaml:"-"`
}

// Telemetry is the section "telemetry".
type Telemetry struct {
	// Log configures the log, which goes to standard error.
	Log observe.LogConfig `yaml:"log"`
	// Metrics says where the metrics go once a minute (OpenTelemetry), besides /metrics. Default: nowhere.
	Metrics tracing.Collector `yaml:"metrics"`
}

// Admin is the section "admin".
type Admin = console.Section

// Validate returns all mistakes, each prefixed with the path of its key.
func (c Config) Validate() error {
	given := c
	c = c.WithDefaults()
	var found problems.List
	if err := checkListen(c.Listen); err != nil {
		found.At("listen", err)
	} else if kind, _ := doorway.Kind(c.Listen); kind == doorway.TCP { // a socket is local, and systemd's is not known yet
		found.At("listen", c.Auth.CheckListener(c.Listen))
	}
	found.At("tls", c.TLS.Validate())
	found.Join(checkAddresses(c.Listen, c.Replicas.Listen, c.Admin.Listen, c.TLS.ACME, c.Admin.TLS.ACME)...)
	found.At("proxy", egress.CheckProxy(c.Proxy))
	found.At("auth", c.Auth.Validate())
	if err := checkPublicURL(c.PublicURL); err != nil && given.PublicURL != "" {
		found.At("public_url", err)
	} else {
		found.At("public_url", c.Auth.CheckPublicURL(c.PublicURL))
	}
	found.At("sessions", c.Sessions.Validate())
	found.Join(checkState(c)...)
	found.At("replicas", c.checkReplicas())
	found.When(c.Policy.IsZero() && c.Auth.Identifies(),
		"policy: auth.mode %s needs it; if everyone with a %s may use everything, write policy: {default: allow}",
		c.Auth.Mode, proofs[c.Auth.Mode])
	issuers := c.CallerIssuers()
	found.At("auth.keys", apikey.CheckViews("entries", c.Auth.Keys.Entries, c.viewNames()))
	found.At("policy", c.Policy.Validate())
	found.At("policy", c.Policy.CheckIssuers(issuers))
	if rule, ok := c.Policy.NeedsApprovers(); ok && !c.Admin.Operated() {
		found.Add("policy: %s: approvers: nobody could decide: they need admin.listen, and admin.api or admin.console (docs/admin-api.md)", rule)
	}
	found.At("limits", c.Limits.Validate())
	found.At("limits", c.Limits.CheckIssuers(issuers))
	found.At("hooks", c.Hooks.Validate())
	found.At("hooks", c.Hooks.CheckIssuers(issuers))
	found.At("naming", c.Naming.Validate())
	found.At("disclosure", c.Disclosure.validate(issuers))
	found.At("pinning", c.Pinning.Validate())
	checkViews(c, &found)
	found.When(c.Auth.Server.Enabled && ofServer(c.Path()), "public_url: path %q: auth.server has it", c.Path())
	found.When(HasAccounts(c.Upstreams) && accounts.Serves(c.Path()),
		"public_url: path %q: the pages of users' accounts at servers (auth.type user_oauth) are there", c.Path())
	found.At("http", c.HTTP.Validate())
	found.At("http.sse_path", c.checkSSEPath())
	found.At("connections", c.Connections.Validate())
	found.At("audit", given.Audit.Validate())
	found.When(c.Audit.Key != "" && c.Audit.Key == c.Sessions.Key,
		"audit.key: is that of sessions.key, too: give each its own, so that whoever reads one has not got the other")
	found.Join(checkAccounts(c, c.Sessions.Key, c.Audit.Key))
	found.At("accounts", c.Accounts.Check(c.Auth.Servers(),
		HasAccounts(c.Upstreams) && !c.Auth.Server.Enabled && c.Admin.Console.SignIn.IsZero()))
	found.At("tracing", given.Tracing.Validate())
	found.At("telemetry.log", c.Telemetry.Log.Validate())
	if !c.Telemetry.Metrics.IsZero() {
		found.At("telemetry.metrics", c.Telemetry.Metrics.Validate())
	}
	_, approvers := c.Policy.NeedsApprovers()
	found.Join(c.Admin.Check(console.Around{Issuers: c.Auth.Servers(), Approvers: approvers, CheckListen: checkListen})...)
	found.When(c.ShutdownDelay < 0 || c.ShutdownDelay > mostDelay,
		"shutdown_delay: %s: want 0s to %s", c.ShutdownDelay, mostDelay)
	found.At("shutdown_timeout", problems.Negative(c.ShutdownTimeout))
	found.Join(checkTeams(c))
	c.checkUpstreams(&found)
	found.Join(checkBoxes(c)...)
	return found.Err()
}

// proofs name the credential that identifies callers, by auth.mode.
var proofs = map[string]string{auth.ModeOAuth: "token", auth.ModeKeys: "key"}

// UpstreamNames returns the names of all upstreams.
func (c Config) UpstreamNames() (names []string) {
	for _, u := range c.Upstreams {
		names = append(names, u.Name)
	}
	return names
}

// Issuers returns the issuers of accepted tokens.
func (c Config) Issuers() (urls []string) {
	for _, iss := range c.Auth.Issuers {
		urls = append(urls, iss.URL)
	}
	return urls
}

// CallerIssuers returns the issuers of callers, including that of API keys.
func (c Config) CallerIssuers() []string {
	if c.Auth.Keys.IsZero() {
		return c.Issuers()
	}
	return append(c.Issuers(), mcp.KeyIssuer)
}

func (c Config) checkUpstreams(found *problems.List) {
	found.When(len(c.Upstreams) == 0 && len(c.Include) == 0, "upstreams: at least one is needed")
	names, prefixes := map[string]int{}, map[string]int{}
	for i, u := range c.Upstreams {
		path := UpstreamKey(i, u)
		found.At(path, u.Validate(), checkDisclosure(u.Disclosure))
		found.At(path+": pinning", pinning.CheckMode(u.Pinning.Mode))
		found.When(u.Auth.Issuer != "" && !slices.Contains(c.Issuers(), u.Auth.Issuer),
			"%s: auth: issuer: %q is none of auth.issuers, so nobody comes with a token of it", path, u.Auth.Issuer)
		if first, taken := names[strings.ToLower(u.Name)]; taken && u.Name != "" {
			found.Add("%s: name: upstreams[%d] is called %q already; names differ in more than case", path, first,
				c.Upstreams[first].Name)
			continue // their prefixes are equal for the same reason
		}
		names[strings.ToLower(u.Name)] = i
		found.When(strings.Contains(u.Name, c.Naming.Separator),
			"%s: name: %q contains the separator %q", path, u.Name, c.Naming.Separator)
		if !Enabled(u) {
			continue
		}
		prefix, err := c.Naming.Prefix(u.Name, u.Prefix)
		if u.Name != "" {
			found.At(path, err)
		}
		if first, taken := prefixes[prefix]; taken {
			found.Add("%s: prefix: %q is the prefix of %q already", path, prefix, c.Upstreams[first].Name)
			continue
		}
		prefixes[prefix] = i
	}
}

// plainPath matches paths that can be compared byte by byte: no escapes, no dot segments, no empty
// segments.
var plainPath = regexp.MustCompile(`^(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*/?$`)

func checkPublicURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("want an http or https URL, such as https://mcp.example.com/mcp")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return errors.New("user, query and fragment do not belong in it")
	case !plainPath.MatchString(u.EscapedPath()):
		return fmt.Errorf("path %q: want segments of letters, digits and -._~ only", u.EscapedPath())
	case len(u.Path) > 1 && strings.HasSuffix(u.Path, "/"):
		return fmt.Errorf("path %q: take the / at its end away", u.Path)
	}
	return nil
}

// WithDefaults fills in the defaults that other packages need and this one owns.
func (c Config) WithDefaults() Config {
	c.Listen = cmp.Or(c.Listen, defaultListen)
	c.PublicURL = cmp.Or(c.PublicURL, ownURL(c.TLS, c.Listen))
	c.ShutdownTimeout = cmp.Or(c.ShutdownTimeout, defaultShutdownTimeout)
	c.Upstreams, c.Auth.Issuers = shareProxy(c.Proxy, c.Upstreams, c.Auth.Issuers)
	c.Naming = c.Naming.WithDefaults()
	c.Connections = c.Connections.WithDefaults()
	c.Audit = c.Audit.WithDefaults()
	return c
}

// Path returns the path of the endpoint.
func (c Config) Path() string {
	u, err := url.Parse(c.PublicURL)
	if err != nil || u.Path == "" {
		return "/"
	}
	return u.Path
}

// SSEPath returns the path of the HTTP+SSE event stream, front.SSEOff for none. By default it
// stands beside the endpoint, unless the endpoint has one of its paths.
func (c Config) SSEPath() string {
	switch {
	case c.HTTP.Clients == front.ClientsStateless:
		return front.SSEOff
	case c.HTTP.SSEPath != "":
		return c.HTTP.SSEPath
	}
	beside := path.Join(path.Dir(c.Path()), "sse")
	if c.Path() == beside || c.Path() == sse2024.Messages(beside) {
		return front.SSEOff
	}
	return beside
}

func (c Config) checkSSEPath() error {
	p := c.HTTP.SSEPath
	switch {
	case p == "" || p == front.SSEOff:
		return nil
	case c.HTTP.Clients == front.ClientsStateless:
		return fmt.Errorf("%q: with clients: %s there is no HTTP+SSE", p, front.ClientsStateless)
	case !strings.HasPrefix(p, "/") || strings.HasSuffix(p, "/") || !plainPath.MatchString(p):
		return fmt.Errorf("%q: want a path of segments of letters, digits and -._~, such as /sse, or %s", p, front.SSEOff)
	case c.Path() == p || c.Path() == sse2024.Messages(p):
		return fmt.Errorf("%q: the endpoint, public_url, is there already", p)
	}
	return nil
}

// alwaysHosts are the hosts that the front always accepts.
var alwaysHosts = []string{"localhost", "127.0.0.1", "::1"}

// Hosts returns the hosts, apart from alwaysHosts, by which requests may address this server:
// the configured ones, and those in the addresses of the configuration.
func (c Config) Hosts() []string {
	hosts := slices.Clone(c.HTTP.AllowedHosts)
	add := func(host string) {
		if host != "" && !slices.Contains(alwaysHosts, host) && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	if u, err := url.Parse(c.PublicURL); err == nil {
		add(strings.ToLower(u.Hostname()))
	}
	if host, _, err := net.SplitHostPort(c.Listen); err == nil && host != doorway.Unix && host != doorway.Systemd {
		add(strings.ToLower(host))
	}
	return hosts
}

// UpstreamKey returns the path of the key of an upstream.
func UpstreamKey(i int, u upstream.Config) string {
	if u.Name == "" {
		return fmt.Sprintf("upstreams[%d]", i)
	}
	return fmt.Sprintf("upstreams[%d] (%s)", i, u.Name)
}

// Enabled reports whether an upstream is in use.
func Enabled(u upstream.Config) bool { return u.Enabled == nil || *u.Enabled }

// resolvePaths makes relative paths absolute, starting at the directory of the configuration
// file. A command without a slash stays as it is: it is looked up in PATH.
func (c *Config) resolvePaths(dir string) {
	absolute := func(paths ...*string) {
		for _, path := range paths {
			if *path != "" && !filepath.IsAbs(*path) {
				*path = filepath.Join(dir, *path)
			}
		}
	}
	c.Pinning.File = cmp.Or(c.Pinning.File, pinning.DefaultFile)
	redis, transit, metrics := &c.Sessions.Redis, &c.Vault.Transit, &c.Telemetry.Metrics
	absolute(&c.Auth.Keys.File, &c.Disclosure.Descriptions, &c.Pinning.File, &c.State.Directory)
	absolute(append(c.TLS.Paths(), c.Admin.TLS.Paths()...)...)
	absolute(&redis.CAFile, &redis.CertFile, &redis.KeyFile, &c.Tracing.CAFile, &c.Tracing.CertFile, &c.Tracing.KeyFile)
	absolute(&metrics.CAFile, &metrics.CertFile, &metrics.KeyFile)
	absolute(&transit.TokenFile, &transit.CAFile, &transit.CertFile, &transit.KeyFile)
	c.Auth.Server.Clientele().ResolvePaths(func(path *string) { absolute(path) })
	for i := range c.Audit.Sinks {
		s := &c.Audit.Sinks[i]
		absolute(&s.Path, &s.CAFile, &s.CertFile, &s.KeyFile)
	}
	for _, h := range c.Hooks {
		if s := h.HTTP; s != nil {
			absolute(&s.CAFile, &s.CertFile, &s.KeyFile)
		}
	}
	for i := range c.Auth.Issuers {
		absolute(c.Auth.Issuers[i].TLS.Paths()...)
	}
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		absolute(&u.Dir, &u.Skills)
		absolute(u.TLS.Paths()...)
		if len(u.Command) > 0 && strings.Contains(u.Command[0], "/") {
			absolute(&u.Command[0])
		}
		if box := u.Sandbox; box != nil {
			for _, paths := range [][]string{box.Read, box.Write} {
				for i := range paths {
					absolute(&paths[i])
				}
			}
		}
	}
}

// checkReplicas returns mistakes in the section "replicas".
func (c Config) checkReplicas() error {
	shared := c.Sessions.Store == session.StoreRedis
	switch {
	case shared && c.Replicas.Listen == "" && !c.Replicas.Alone:
		return errors.New("listen: needed with sessions.store: redis, because replicas forward requests to each other there, such as 0.0.0.0:8082; where this gateway is the only one with this Redis, say alone: true")
	case !shared && c.Replicas != (cluster.Config{}):
		return errors.New("only for replicas that share their sessions: say sessions.store: redis, or take the section away")
	}
	return c.Replicas.Validate()
}

// Rules returns the policy in force. Without authentication and without a policy, everything is
// allowed to everyone who reaches the loopback listener.
func (c Config) Rules() policy.Config {
	if c.Policy.IsZero() && !c.Auth.Identifies() {
		return policy.Config{Default: policy.DefaultAllow}
	}
	return c.Policy
}
