package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/problems"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
)

// Config is the section "replicas". It is read only at start.
type Config struct {
	// Listen is the address where other replicas reach this one, such as 0.0.0.0:8082; port 0 takes a free
	// port. Nothing else may reach it. Required with sessions.store: redis, unless Alone is set.
	Listen string `yaml:"listen"`
	// Advertise is the address that other replicas connect to, such as ${env:POD_IP}: with its port
	// (IPv6 in brackets), or with that of Listen. Default: Listen, if that names one host.
	Advertise string `yaml:"advertise"`
	// Alone says that no other replica has this Redis and prefix; set it in place of Listen. There is no
	// link, and this replica takes over at once what an earlier one left behind. Default false.
	Alone bool `yaml:"alone"`
}

// IsZero reports whether nothing is configured.
func (c Config) IsZero() bool { return c == Config{} }

// Validate returns everything that is wrong.
func (c Config) Validate() error {
	var found problems.List
	found.When(c.Alone && (c.Listen != "" || c.Advertise != ""),
		"alone: there is nobody for listen and advertise: leave them out, or alone")
	if c.Listen != "" {
		host, _, err := splitAddress(c.Listen)
		switch {
		case err != nil:
			found.Add("listen: %w", err)
		case c.Advertise == "" && !oneHost(host):
			found.Add("advertise: needed, as listen (%s) names no host that others could connect to: "+
				"write such as ${env:POD_IP}", c.Listen)
		}
	}
	if c.Advertise != "" {
		_, listens, _ := splitAddress(c.Listen)
		host, port, err := splitAddress(c.advertised(max(listens, 1))) // with port 0, any port is as good
		switch {
		case err != nil:
			found.Add("advertise: %w", err)
		case !oneHost(host) || port == 0:
			found.Add("advertise: %q: want the host that other replicas connect to, with or without a port", c.Advertise)
		case host == c.Advertise && strings.Contains(host, ":") && strings.HasSuffix(host, fmt.Sprintf(":%d", listens)):
			found.Add("advertise: %q: is its end a port? Put an IPv6 address in brackets, or leave the port out", c.Advertise)
		case c.Listen == "":
			found.Add("advertise: it is of use beside listen only")
		}
	}
	return found.Err()
}

// advertised is Advertise with a port: its own, or the one at which this replica listens.
func (c Config) advertised(listens int) string {
	bare := strings.TrimSuffix(strings.TrimPrefix(c.Advertise, "["), "]")
	if _, err := netip.ParseAddr(bare); err == nil || !strings.Contains(c.Advertise, ":") {
		return net.JoinHostPort(bare, strconv.Itoa(listens))
	}
	return c.Advertise
}

// splitAddress splits host:port. The host may be empty.
func splitAddress(address string) (host string, port int, err error) {
	host, digits, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, fmt.Errorf("%q: want host:port", address)
	}
	number, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("%q: the port is no number up to 65535", address)
	}
	return host, int(number), nil
}

// oneHost reports whether a host names one host to connect to, and not all interfaces of this
// machine.
func oneHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host != "" && (err != nil || !ip.IsUnspecified())
}

// Deps are the dependencies of a Cluster.
type Deps struct {
	// DB is the Redis that the replicas share. If it is nil, this is a gateway alone, which
	// keeps its sessions in memory. The caller closes DB after the Cluster.
	DB *redisdb.DB
	// Key is sessions.key; Accepted are the previous keys. Required for the link.
	Key      []byte
	Accepted [][]byte
	// Idle is how long Redis keeps an unused home. Required with DB.
	Idle time.Duration
	// Revision is the configuration's revision. Other replicas read it in the lease.
	Revision string
	// Version is the version of the program. Other replicas read it in the lease.
	Version string
	// Asked serves what other replicas Ask for. It is trusted with whatever operators may do. If
	// nil, this replica does not answer.
	Asked http.Handler
	// Log and Metrics may be nil.
	Log     *slog.Logger
	Metrics *Metrics
}

// times are the intervals and time limits of a Cluster. Tests use shorter ones.
type times struct {
	lease    time.Duration // how long a replica counts as present after a renewal of its lease
	beat     time.Duration // the interval between renewals
	look     time.Duration // bounds one renewal, and one request to ask a peer
	dial     time.Duration // bounds connecting to a peer
	patience time.Duration // how long a peer may give no answer before it counts as unreachable: less than a lease
	greet    time.Duration // bounds the handshake of an incoming connection
	again    time.Duration // the shortest time between two looks that unknown certificates cause: well below dial
	idle     time.Duration // after this time without traffic, a connection is pinged
	ping     time.Duration // how long the answer to a ping may take
}

func usualTimes() times {
	return times{
		lease: 10 * time.Second, beat: 2 * time.Second, look: time.Second, dial: time.Second,
		patience: 5 * time.Second, greet: 5 * time.Second, again: time.Second / 4,
		idle: 5 * time.Second, ping: 5 * time.Second,
	}
}

// network is how replicas reach each other. A test has one in memory.
type network interface {
	listen(address string) (net.Listener, error)
	dial(ctx context.Context, address string) (net.Conn, error)
}

type tcp struct{}

func (tcp) listen(address string) (net.Listener, error) { return net.Listen("tcp", address) }

func (tcp) dial(ctx context.Context, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}
