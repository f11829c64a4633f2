package front

import (
	"cmp"
	"net/url"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
)

// Defaults of Config.
const (
	DefaultStreamAfter = 5 * time.Second
	DefaultKeepAlive   = 15 * time.Second
	DefaultAskTimeout  = 5 * time.Minute
	DefaultStreams     = 20
	DefaultInFlight    = 512 << 20
)

// mostRequest is the highest allowed max_request_bytes: a body is held in memory.
const mostRequest = 1 << 30

// Config is the section "http". Its zero value means the defaults. It is read only at start; a
// reload does not change it.
type Config struct {
	// MaxRequestBytes bounds a request's body. Default 4MiB, at most 1GiB.
	MaxRequestBytes int64 `yaml:"max_request_bytes"`
	// MaxInFlightBytes is the room for request bodies and results of 64 KiB or more; one user may have half
	// of it. A message without room is refused, a request with 503. Each byte may take up to four in memory.
	// Default 512MiB, or an eighth of the memory limit if that is less (GOMEMLIMIT, or the container's).
	MaxInFlightBytes int64 `yaml:"max_in_flight_bytes"`
	// StreamAfter is the time after which the answer to a call becomes an event stream. Default 5s.
	StreamAfter time.Duration `yaml:"stream_after"`
	// KeepAlive is the time after which an idle stream gets a comment, so that proxies keep it open. Default
	// 15s.
	KeepAlive time.Duration `yaml:"keep_alive"`
	// AskTimeout limits the time a client with a session takes to answer a server's question. Default 5m.
	AskTimeout time.Duration `yaml:"ask_timeout"`
	// StreamsPerUser bounds the long-lived event streams that one user may have open: those of sessions, of
	// subscriptions/listen and of HTTP+SSE together. A GET for a session that has a stream takes its place.
	// Default 20; without authentication, no bound.
	StreamsPerUser int `yaml:"streams_per_user"`
	// AllowedOrigins are the origins of web pages that may call, such as
	// https://app.example.com. The endpoint's own origin is always allowed. Default none.
	AllowedOrigins []string `yaml:"allowed_origins"`
	// AllowedHosts are host names, without port, that requests may have in Host, in addition to localhost,
	// 127.0.0.1, ::1 and the hosts in listen and public_url. Default none.
	AllowedHosts []string `yaml:"allowed_hosts"`
	// Clients selects the clients to serve: all, the default, or stateless, those without sessions
	// (2026-07-28 and later). Others then get an error.
	Clients string `yaml:"clients"`
	// SSEPath is the path of the event stream for clients of HTTP+SSE (2024-11-05). They POST to that path
	// with /messages appended. "off" disables it. Default: the endpoint's path with sse as its last segment.
	SSEPath string `yaml:"sse_path"`
}

// SSEOff is the value of Config.SSEPath that disables HTTP+SSE.
const SSEOff = "off"

// Values of Config.Clients.
const (
	ClientsAll       = "all"
	ClientsStateless = "stateless"
)

// Validate returns all mistakes in the section.
func (c Config) Validate() error {
	var found problems.List
	found.When(c.Clients != "" && c.Clients != ClientsAll && c.Clients != ClientsStateless,
		"clients: %q is neither %s nor %s", c.Clients, ClientsAll, ClientsStateless)
	found.At("max_request_bytes", problems.Negative(c.MaxRequestBytes))
	found.When(c.MaxRequestBytes > mostRequest, "max_request_bytes: %d is more than %d", c.MaxRequestBytes, mostRequest)
	if most := max(c.MaxRequestBytes, wire.DefaultMaxRequest); c.MaxInFlightBytes != 0 && c.MaxInFlightBytes < 2*most {
		found.Add("max_in_flight_bytes: %d is less than two requests of max_request_bytes, %d", c.MaxInFlightBytes, 2*most)
	}
	found.At("streams_per_user", problems.Negative(c.StreamsPerUser))
	found.At("stream_after", problems.Negative(c.StreamAfter))
	found.At("keep_alive", problems.Negative(c.KeepAlive))
	found.At("ask_timeout", problems.Negative(c.AskTimeout))
	for i, origin := range c.AllowedOrigins {
		u, err := url.Parse(origin)
		found.When(err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != origin,
			"allowed_origins[%d]: %q is not an origin: want scheme://host or scheme://host:port", i, origin)
	}
	for i, host := range c.AllowedHosts {
		found.When(host == "" || strings.ContainsAny(host, "/@*? ") || strings.Count(host, ":") == 1,
			"allowed_hosts[%d]: %q is not a host name: want it without scheme and port", i, host)
	}
	return found.Err()
}

func (c Config) withDefaults() Config {
	c.MaxRequestBytes = cmp.Or(c.MaxRequestBytes, wire.DefaultMaxRequest)
	c.StreamAfter = cmp.Or(c.StreamAfter, DefaultStreamAfter)
	c.KeepAlive = cmp.Or(c.KeepAlive, DefaultKeepAlive)
	c.AskTimeout = cmp.Or(c.AskTimeout, DefaultAskTimeout)
	c.StreamsPerUser = cmp.Or(c.StreamsPerUser, DefaultStreams)
	return c
}
