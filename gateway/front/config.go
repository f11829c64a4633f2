package front

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// Defaults of Config.
const (
	DefaultStreamAfter = 5 * time.Second
	DefaultKeepAlive   = 15 * time.Second
	DefaultAskTimeout  = 5 * time.Minute
	DefaultStreams     = 20
	DefaultInFlight    = 512 << 20
)

// mostRequest is the most that max_request_bytes may be: a body is held in memory.
const mostRequest = 1 << 30

// Config is the section "http". Its zero value means the defaults. All of it is
// read at start; a reload does not change it.
type Config struct {
	// MaxRequestBytes bounds a request's body, 4 MiB by default, at most 1 GiB.
	MaxRequestBytes int64 `yaml:"max_request_bytes"`
	// MaxInFlightBytes bounds what request bodies and results of 64 KiB and more hold at a
	// time, those of one user half of it. What there is no room for is refused, a
	// request by 503. Each byte that is counted stands for up to four in memory. Default
	// 512 MiB, or an eighth of GOMEMLIMIT where that is set and is less.
	MaxInFlightBytes int64 `yaml:"max_in_flight_bytes"`
	// StreamAfter is how long a call may take before its answer becomes an event
	// stream, such as 5s, the default.
	StreamAfter time.Duration `yaml:"stream_after"`
	// KeepAlive is how often an idle stream gets a comment, 15s by default.
	KeepAlive time.Duration `yaml:"keep_alive"`
	// AskTimeout is how long a client may take to answer a question of a server,
	// 5m by default.
	AskTimeout time.Duration `yaml:"ask_timeout"`
	// StreamsPerUser is how many event streams that last one user may have open: those
	// of sessions, of subscriptions/listen and of HTTP+SSE together. A GET for a session
	// that has one takes its place. Without authentication there is one user, and no such
	// bound. Default 20.
	StreamsPerUser int `yaml:"streams_per_user"`
	// AllowedOrigins are the origins of web pages that may call, such as
	// https://app.example.com. Default none but the endpoint's own.
	AllowedOrigins []string `yaml:"allowed_origins"`
	// AllowedHosts are names, without port, by which requests may name this server
	// in Host, beside localhost, 127.0.0.1 and ::1.
	AllowedHosts []string `yaml:"allowed_hosts"`
	// Clients are those that are served: ClientsAll, the default, or ClientsStateless,
	// who have no sessions (2026-07-28 and later).
	Clients string `yaml:"clients"`
	// SSEPath is the path of the event stream for clients that know no more than HTTP+SSE
	// (2024-11-05), such as /sse; they POST to that path with /messages at its end. "off"
	// serves none. Default: sse in place of the last segment of the endpoint's path.
	SSEPath string `yaml:"sse_path"`
}

// SSEOff is the value of Config.SSEPath that serves no HTTP+SSE.
const SSEOff = "off"

// Values of Config.Clients.
const (
	ClientsAll       = "all"
	ClientsStateless = "stateless"
)

// Validate reports everything that is wrong.
func (c Config) Validate() error {
	var errs []error
	if c.Clients != "" && c.Clients != ClientsAll && c.Clients != ClientsStateless {
		errs = append(errs, fmt.Errorf("clients: %q is neither %s nor %s", c.Clients, ClientsAll, ClientsStateless))
	}
	if c.MaxRequestBytes < 0 {
		errs = append(errs, fmt.Errorf("max_request_bytes: %d is negative", c.MaxRequestBytes))
	}
	if c.MaxRequestBytes > mostRequest {
		errs = append(errs, fmt.Errorf("max_request_bytes: %d is more than %d", c.MaxRequestBytes, mostRequest))
	}
	if most := max(c.MaxRequestBytes, wire.DefaultMaxRequest); c.MaxInFlightBytes != 0 && c.MaxInFlightBytes < 2*most {
		errs = append(errs, fmt.Errorf("max_in_flight_bytes: %d is less than two requests of max_request_bytes, %d", c.MaxInFlightBytes, 2*most))
	}
	if c.StreamsPerUser < 0 {
		errs = append(errs, fmt.Errorf("streams_per_user: %d is negative", c.StreamsPerUser))
	}
	for _, d := range []struct {
		key   string
		value time.Duration
	}{{"stream_after", c.StreamAfter}, {"keep_alive", c.KeepAlive}, {"ask_timeout", c.AskTimeout}} {
		if d.value < 0 {
			errs = append(errs, fmt.Errorf("%s: %s is negative", d.key, d.value))
		}
	}
	for i, origin := range c.AllowedOrigins {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != origin {
			errs = append(errs, fmt.Errorf("allowed_origins[%d]: %q is not an origin: want scheme://host or scheme://host:port", i, origin))
		}
	}
	for i, host := range c.AllowedHosts {
		if host == "" || strings.ContainsAny(host, "/@*? ") || strings.Count(host, ":") == 1 {
			errs = append(errs, fmt.Errorf("allowed_hosts[%d]: %q is not a host name: want it without scheme and port", i, host))
		}
	}
	return errors.Join(errs...)
}

// withDefaults fills in what was left out.
func (c Config) withDefaults() Config {
	c.MaxRequestBytes = cmp.Or(c.MaxRequestBytes, wire.DefaultMaxRequest)
	c.MaxInFlightBytes = cmp.Or(c.MaxInFlightBytes, DefaultInFlight)
	c.StreamAfter = cmp.Or(c.StreamAfter, DefaultStreamAfter)
	c.KeepAlive = cmp.Or(c.KeepAlive, DefaultKeepAlive)
	c.AskTimeout = cmp.Or(c.AskTimeout, DefaultAskTimeout)
	c.StreamsPerUser = cmp.Or(c.StreamsPerUser, DefaultStreams)
	return c
}
