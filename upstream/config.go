package upstream

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth/outbound"
	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/largeresults"
	"github.com/gatehouse-mcp/gatehouse/internal/loopback"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport/stdio/sandbox"
)

// Config is the configuration of one MCP server. A reload that changes any of it replaces
// the Upstream; running calls end on the old one.
type Config struct {
	// Name names the server in public names, policy, logs and errors, and in front of its questions to users
	// ("crm asks: ..."). Letters, digits and single '-', starting with a letter; "gatehouse" is reserved.
	// Required and unique.
	Name string `yaml:"name"`
	// URL is the endpoint of a server on HTTP: https, or http to a loopback address,
	// without user information. Exactly one of url, command and skills is required.
	URL string `yaml:"url" secret:"path"`
	// AllowPlaintext allows http to addresses that are not loopback. Default false.
	AllowPlaintext bool `yaml:"allow_plaintext"`
	// Transport is auto, streamable, sse (the older HTTP+SSE) or stdio. Default auto: stdio for a command;
	// for a url streamable, or sse if the server does not support that.
	Transport string `yaml:"transport"`
	// HTTPClient selects the client for a server at an http URL: own, the default, or standard, Go's
	// net/http, which takes more CPU and tolerates sloppier answers. For https it is always standard.
	HTTPClient string `yaml:"http_client"`
	// Revision pins the protocol revision, such as 2025-06-18; the server is then not asked for it. Default
	// "": it is asked.
	Revision string `yaml:"revision"`
	// Headers are sent with every HTTP request. They cannot set the headers of the protocol
	// itself, nor the one that auth sets. Default none.
	Headers map[string]mcp.Secret `yaml:"headers"`
	// TLS has the certificates for connections to the server, and to its token endpoint or authorization
	// server. The files are read again for each connection.
	TLS egress.TLS `yaml:"tls"`
	// Proxy is the proxy for these connections: its URL, environment, or none. Default: the gateway's. A URL
	// is also used where the server is on a loopback address.
	Proxy mcp.Secret `yaml:"proxy" secret:"user"`

	// Auth is how the gateway authenticates to a server on HTTP (docs/credentials.md). The gateway never
	// sends the credentials of its own clients. Default none.
	Auth outbound.Config `yaml:"auth"`

	// Command is the program and its arguments, started without a shell.
	Command []string `yaml:"command"`
	// Env is added to the environment of the process. From the gateway's environment it
	// inherits only PATH, HOME, USER, LANG, TZ and TMPDIR. Default none.
	Env map[string]mcp.Secret `yaml:"env"`
	// Dir is the working directory of the process, relative to the configuration file. Default: that of the
	// gateway.
	Dir string `yaml:"dir"`
	// AllowNewPrivileges lets the program gain privileges that the gateway has not, as sudo and programs of
	// snap need. Only Linux can refuse them. Not with sandbox. Default false.
	AllowNewPrivileges bool `yaml:"allow_new_privileges"`
	// Sandbox is the box in which Linux keeps the program (docs/operations.md#a-sandbox); "{}" has all
	// defaults. Default: no box, the program may do what the gateway's user may.
	Sandbox *sandbox.Config `yaml:"sandbox"`
	// Shared lets all clients share one process of a stateful stdio server. The server then cannot ask them
	// anything or send them log messages. Default false: a process for each client session.
	Shared bool `yaml:"shared"`

	// LoopbackLinks lets the server send users to loopback pages on their own computer, by http
	// too. Default false: only https pages elsewhere.
	LoopbackLinks bool `yaml:"loopback_links"`

	// Skills is a directory of skills (docs/skills.md) in place of a server, relative to the configuration
	// file. Only name, prefix and enabled may be combined with it.
	Skills string `yaml:"skills"`

	// Prefix is put in front of the names of this server's tools, prompts and skills. Default: the name and
	// the separator. "" leaves names and URIs unchanged, for one upstream only.
	Prefix *string `yaml:"prefix"`
	// Enabled set to false leaves the server out. Default true.
	Enabled *bool `yaml:"enabled"`
	// Disclosure is how the server's tools are described to clients.
	Disclosure Disclosure `yaml:"disclosure"`
	// Results says what clients are sent of tool results that are too large for a model
	// (docs/configuration.md#large-results).
	Results largeresults.Settings `yaml:"results"`
	// Pinning says what happens to what is not approved of the server.
	Pinning Pinning `yaml:"pinning"`

	// Timeout bounds how long the gateway waits.
	Timeout Timeout `yaml:"timeout"`
	// Limits bound memory and load.
	Limits Limits `yaml:"limits"`
}

// Defaults are keys that each upstream takes which does not have them itself; directories of skills take
// none. Inside of a section, too, an upstream's own keys stay.
type Defaults struct {
	// Headers are for servers at a URL, as in upstreams.
	Headers map[string]mcp.Secret `yaml:"headers" for:"url"`
	// TLS is for servers at a URL, as in upstreams.
	TLS egress.TLS `yaml:"tls" for:"url"`
	// Sandbox is for programs, as in upstreams.
	Sandbox *sandbox.Config `yaml:"sandbox" for:"command"`
	// Disclosure is as in upstreams.
	Disclosure Disclosure `yaml:"disclosure"`
	// Results is as in upstreams.
	Results largeresults.Settings `yaml:"results"`
	// Timeout is as in upstreams.
	Timeout Timeout `yaml:"timeout"`
	// Limits is as in upstreams.
	Limits Limits `yaml:"limits"`
}

// Disclosure is how the tools of one server are described; see gateway/feature/disclosure.
type Disclosure struct {
	// Mode is full or progressive. Default: the mode of the section "disclosure".
	Mode string `yaml:"mode"`
	// Summaries are short descriptions of tools, by the server's own names, at most 400 bytes each. They
	// replace the beginning of the server's descriptions. Default none.
	Summaries map[string]string `yaml:"summaries"`
}

// Pinning overrides the section "pinning" for one server; see gateway/pinning.
type Pinning struct {
	// Mode is off, warn or block. Default: the mode of the section "pinning".
	Mode string `yaml:"mode"`
}

// Timeout is how long an upstream may take. The values are durations such as 10s.
type Timeout struct {
	// Connect bounds reaching the server and the handshake with it. Default 10s; 60s for a command, since
	// package runners download before they start.
	Connect time.Duration `yaml:"connect"`
	// Call is how long a call may be silent. Everything that the server sends, such as progress,
	// restarts the time. Default 60s.
	Call time.Duration `yaml:"call"`
	// Total bounds a call however much its server sends. The time that it waits for the
	// user does not count. Default 10m.
	Total time.Duration `yaml:"total"`
	// Ask is how long a call waits for the user's answer. Default 5m.
	Ask time.Duration `yaml:"ask"`
	// Idle is how long the session of a client without a session of its own stays open
	// without a call. Default 10m.
	Idle time.Duration `yaml:"idle"`
}

// Limits bound what one upstream may use.
type Limits struct {
	// ResultBytes is the size of the largest answer that is accepted. Default 16MiB, at most 1GiB.
	ResultBytes int64 `yaml:"result_bytes"`
	// Items is how many items each list of the server may have: tools, prompts, resources, templates
	// and skills. Further ones are left out. Default 20000, at most 100000.
	Items int `yaml:"items"`
	// Concurrent is how many calls run at a time. Another 4000 wait; further calls are
	// refused. Default 1000, for a stdio server 100.
	Concurrent int `yaml:"concurrent"`
	// ConcurrentPerUser is how many of them one user may run. Another 2000 of that user wait. Default: half
	// of Concurrent; without authentication, no such bound.
	ConcurrentPerUser int `yaml:"concurrent_per_user"`
	// Sessions is how many sessions (processes, for a stdio server) are open at a time. Of those that others
	// leave free, one user may have half. Default 10000, for a stdio server 200.
	Sessions int `yaml:"sessions"`
	// AsksPerUser is how many calls of one user may wait for answers. Default 20; without authentication,
	// Concurrent.
	AsksPerUser int `yaml:"asks_per_user"`
	// QuestionsPerMinute is how many questions of the server one client (its session) gets in a minute, and
	// at once. A request for sampling or roots counts as a tenth of one. Further ones are refused. Default
	// 600, at most 100000.
	QuestionsPerMinute int `yaml:"questions_per_minute"`
}

// TransportSkills is Status.Transport of a directory of skills.
const TransportSkills = "skills"

const (
	clientOwn      = "own"
	clientStandard = "standard"

	transportAuto       = "auto"
	transportStreamable = "streamable"
	transportSSE        = "sse"
	transportStdio      = "stdio"

	maxQueuedCalls = 4000 // wait for Limits.Concurrent other calls; half of them of one user
	mostQuestions  = 100_000
	mostResult     = 1 << 30 // bytes
	mostItems      = 100_000
)

var (
	namePattern  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*(-[A-Za-z0-9]+)*$`)
	tokenPattern = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
)

// Validate reports everything that is wrong with the configuration, as one joined error.
func (c Config) Validate() error {
	var found problems.List
	found.When(!namePattern.MatchString(c.Name),
		"name: %q: want letters, digits and single '-', starting with a letter", c.Name)
	found.When(strings.EqualFold(c.Name, "gatehouse"),
		"name: %q is the gateway's own: it is in front of what it asks users itself", c.Name)
	if c.Skills != "" {
		c.checkSkills(&found)
	} else {
		c.checkTransport(&found)
	}
	found.When(c.Revision != "" && wire.Lookup(c.Revision) == nil,
		"revision: %q is not a protocol revision; want one of %s", c.Revision, revisionNames())
	folded := make(map[string]bool, len(c.Headers))
	for name, value := range c.Headers {
		found.When(folded[strings.ToLower(name)], "headers: %s: is there twice, in another case", name)
		folded[strings.ToLower(name)] = true
		switch {
		case !tokenPattern.MatchString(name):
			found.Add("headers: %q is not a header name", name)
		case ownHeader(name):
			found.Add("headers: %s: is set by the gateway itself", name)
		case strings.EqualFold(name, "Idempotency-Key"), strings.EqualFold(name, "X-Idempotency-Key"):
			// net/http takes it as permission to repeat a POST, too.
			found.Add("headers: %s: would be the same for all calls, which are not the same call", name)
		case strings.ContainsFunc(string(value), func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			found.Add("headers: %s: has control characters", name)
		}
	}
	c.checkAuth(&found)
	found.At("results", c.Results.Validate())
	for name, value := range c.Env {
		found.When(name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(string(value), "\x00"),
			"env: %q cannot be an environment variable", name)
	}
	if c.Sandbox != nil {
		found.At("sandbox", c.Sandbox.Validate())
		found.When(c.AllowNewPrivileges, "allow_new_privileges: not in a sandbox, which gives none")
	}
	found.At("timeout: connect", problems.Negative(c.Timeout.Connect))
	found.At("timeout: call", problems.Negative(c.Timeout.Call))
	found.At("timeout: total", problems.Negative(c.Timeout.Total))
	found.At("timeout: ask", problems.Negative(c.Timeout.Ask))
	found.At("timeout: idle", problems.Negative(c.Timeout.Idle))
	found.At("limits: result_bytes", problems.Negative(c.Limits.ResultBytes))
	found.At("limits: items", problems.Negative(c.Limits.Items))
	found.At("limits: concurrent", problems.Negative(c.Limits.Concurrent))
	found.At("limits: concurrent_per_user", problems.Negative(c.Limits.ConcurrentPerUser))
	found.At("limits: sessions", problems.Negative(c.Limits.Sessions))
	found.At("limits: asks_per_user", problems.Negative(c.Limits.AsksPerUser))
	found.At("limits: questions_per_minute", problems.Negative(c.Limits.QuestionsPerMinute))
	found.When(c.Limits.ResultBytes > mostResult,
		"limits: result_bytes: %d is more than %d", c.Limits.ResultBytes, mostResult)
	found.When(c.Limits.Items > mostItems, "limits: items: %d is more than %d", c.Limits.Items, mostItems)
	found.When(c.Limits.QuestionsPerMinute > mostQuestions,
		"limits: questions_per_minute: %d is more than %d", c.Limits.QuestionsPerMinute, mostQuestions)
	return found.Err()
}

func (c Config) checkTransport(found *problems.List) {
	_, known := transports[c.Transport]
	rev := wire.Lookup(c.Revision)
	switch {
	case c.URL == "" && len(c.Command) == 0:
		found.Add("url, command or skills: one of them is needed")
	case c.URL != "" && len(c.Command) > 0:
		found.Add("url and command: only one of them can be given")
	case c.URL != "":
		found.Join(checkURL(c.URL, c.AllowPlaintext))
	case c.Command[0] == "":
		found.Add("command: the program's name is empty")
	case strings.Contains(strings.Join(c.Command, ""), "\x00"):
		found.Add("command: has a NUL character")
	}
	found.When(!known && c.Transport != "" && c.Transport != transportAuto,
		"transport: %q: want one of %s", c.Transport, transportNames())
	switch {
	case c.HTTPClient != "" && c.HTTPClient != clientOwn && c.HTTPClient != clientStandard:
		found.Add("http_client: %q: want %s or %s", c.HTTPClient, clientOwn, clientStandard)
	case c.HTTPClient != "" && len(c.Command) > 0:
		found.Add("http_client: is for a url")
	}
	found.When(c.URL != "" && (len(c.Env) > 0 || c.Dir != "" || c.AllowNewPrivileges || c.Sandbox != nil || c.Shared),
		"env, dir, allow_new_privileges, sandbox, shared: are for a command")
	found.When(len(c.Command) > 0 && (len(c.Headers) > 0 || c.AllowPlaintext),
		"headers, allow_plaintext: are for a url")
	found.At("tls", c.TLS.Validate())
	found.At("proxy", egress.CheckProxy(c.Proxy))
	found.When(len(c.Command) > 0 && (!c.TLS.IsZero() || c.Proxy != ""),
		"tls, proxy: are for a url; a command gets its proxy by env, such as HTTPS_PROXY")
	hosts := []string{c.URL, c.Auth.TokenURL, c.Auth.Grant.TokenURL, c.Auth.AuthorizationServer, string(c.Proxy)}
	secure := func(u string) bool { return strings.HasPrefix(u, "https:") }
	found.When(c.URL != "" && !c.TLS.IsZero() && !slices.ContainsFunc(hosts, secure),
		"tls: is for https, with which the url does not begin")
	found.When(c.Transport == transportStdio && c.URL != "", "transport: stdio needs a command, not a url")
	found.When((c.Transport == transportStreamable || c.Transport == transportSSE) && len(c.Command) > 0,
		"transport: %s needs a url, not a command", c.Transport)
	found.When(c.Transport == transportSSE && rev != nil && !rev.Stateful,
		"revision: %s is not spoken over sse", c.Revision)
}

// checkSkills refuses settings that only make sense for a server.
func (c Config) checkSkills(found *problems.List) {
	found.When(c.URL != "" || len(c.Command) > 0, "skills, url and command: only one of them can be given")
	found.When(strings.Contains(c.Skills, "\x00"), "skills: has a NUL character")
	for _, key := range []struct {
		name string
		set  bool
	}{
		{"transport", c.Transport != ""}, {"revision", c.Revision != ""}, {"http_client", c.HTTPClient != ""},
		{"allow_plaintext", c.AllowPlaintext}, {"headers", len(c.Headers) > 0}, {"auth", c.Auth.HeaderName() != ""},
		{"tls", !c.TLS.IsZero()}, {"proxy", c.Proxy != ""}, {"env", len(c.Env) > 0},
		{"dir", c.Dir != ""}, {"allow_new_privileges", c.AllowNewPrivileges},
		{"sandbox", c.Sandbox != nil}, {"shared", c.Shared},
		{"loopback_links", c.LoopbackLinks},
		{"timeout", c.Timeout != Timeout{}}, {"limits", c.Limits != Limits{}},
		{"results", c.Results.Inline != 0 || c.Results.Keep != 0 || c.Results.Tools != nil},
	} {
		found.When(key.set, "%s: is for a server, not for a directory of skills", key.name)
	}
}

// Route says how the server, and what belongs to it, is reached.
func (c Config) Route() egress.Config { return egress.Config{TLS: c.TLS, Proxy: c.Proxy, URL: c.URL} }

// proxy returns the address of the proxy for the server, "" for none.
func (c Config) proxy() string {
	u, err := url.Parse(c.URL)
	if err != nil || c.URL == "" {
		return ""
	}
	proxy, err := egress.New(c.Route()).Proxy(u)
	if err != nil || proxy == nil {
		return ""
	}
	return proxy.Address()
}

func (c Config) checkAuth(found *problems.List) {
	name := c.Auth.HeaderName()
	switch err := c.Auth.Validate(); {
	case err != nil:
		found.Add("auth: %w", err)
	case name == "":
	case len(c.Command) > 0:
		found.Add("auth: is for a url; a command gets its credentials by env")
	default:
		found.When(ownHeader(name), "auth: header: %s is set by the gateway itself", name)
		for other := range c.Headers {
			found.When(strings.EqualFold(other, name),
				"headers[%s]: auth sets it already; leave one of the two out", other)
		}
	}
}

// checkURL does not repeat the URL in its errors: it may hold credentials.
func checkURL(raw string, plaintext bool) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "":
		return errors.New("url: is not an absolute URL, such as https://mcp.example.com/mcp")
	case u.User != nil:
		return errors.New("url: user and password do not belong in the URL; use headers")
	case u.Fragment != "":
		return errors.New("url: has a fragment")
	case u.Scheme == "https", u.Scheme == "http" && (plaintext || loopback.Host(u.Hostname())):
		return nil
	case u.Scheme == "http":
		return errors.New("url: http is only for loopback addresses; use https, or set allow_plaintext: true")
	}
	return fmt.Errorf("url: scheme %q: want https or http", u.Scheme)
}

// ownHeader reports whether only the gateway may set this header.
func ownHeader(name string) bool {
	switch lower := strings.ToLower(name); lower {
	case "accept", "content-type", "content-length", "content-encoding", "transfer-encoding", "connection",
		"host", "last-event-id", "te", "trailer", "upgrade", "expect", "keep-alive", "cookie", "via":
		return true
	default:
		return strings.HasPrefix(lower, "mcp-")
	}
}

func revisionNames() string {
	var names []string
	for _, r := range wire.Revisions() {
		names = append(names, r.Name)
	}
	return strings.Join(names, ", ")
}

// WithDefaults returns the configuration with every default filled in.
func (c Config) WithDefaults() Config {
	if c.Transport == "" || c.Transport == transportAuto {
		c.Transport = transportStreamable
		if len(c.Command) > 0 {
			c.Transport = transportStdio
		}
	}
	sessions, connect, concurrent := 10_000, 10*time.Second, 1000
	if c.Transport == transportStdio {
		sessions, connect, concurrent = 200, 60*time.Second, 100 // package runners fetch before they start
	}
	c.Timeout.Connect = cmp.Or(c.Timeout.Connect, connect)
	c.Timeout.Call = cmp.Or(c.Timeout.Call, 60*time.Second)
	c.Timeout.Total = cmp.Or(c.Timeout.Total, 10*time.Minute)
	c.Timeout.Ask = cmp.Or(c.Timeout.Ask, 5*time.Minute)
	c.Timeout.Idle = cmp.Or(c.Timeout.Idle, 10*time.Minute)
	c.Limits.ResultBytes = cmp.Or(c.Limits.ResultBytes, wire.DefaultMaxResult)
	c.Limits.Items = cmp.Or(c.Limits.Items, 20_000)
	c.Limits.Concurrent = cmp.Or(c.Limits.Concurrent, concurrent)
	c.Limits.ConcurrentPerUser = cmp.Or(c.Limits.ConcurrentPerUser, (c.Limits.Concurrent+1)/2)
	c.Limits.Sessions = cmp.Or(c.Limits.Sessions, sessions)
	c.Limits.QuestionsPerMinute = cmp.Or(c.Limits.QuestionsPerMinute, 600)
	return c
}

// asks returns how many calls of a caller may wait for answers at a time.
func (l Limits) asks(c *mcp.Caller) int {
	if admit.User(c) == "" {
		return cmp.Or(l.AsksPerUser, l.Concurrent)
	}
	return cmp.Or(l.AsksPerUser, 20)
}
