package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
)

// Config is the section "replicas". All of it is read at start.
type Config struct {
	// Listen is where other replicas reach this one, such as 0.0.0.0:8082. It must not be
	// open to anybody else. Needed with sessions.store: redis, unless Alone.
	Listen string `yaml:"listen"`
	// Advertise is the address that the others connect to, such as ${env:POD_IP}:8082.
	// Default: Listen, if that names one host.
	Advertise string `yaml:"advertise"`
	// Alone says that no other replica shares this Redis: there is no link, and what
	// another one left behind is taken over at once. Default false.
	Alone bool `yaml:"alone"`
}

// IsZero reports whether nothing is configured.
func (c Config) IsZero() bool { return c == Config{} }

// Validate reports everything that is wrong.
func (c Config) Validate() error {
	var errs []error
	if c.Alone && (c.Listen != "" || c.Advertise != "") {
		errs = append(errs, errors.New("alone: there is nobody for listen and advertise: leave them out, or alone"))
	}
	if c.Listen != "" {
		host, _, err := splitAddress(c.Listen)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("listen: %w", err))
		case c.Advertise == "" && !oneHost(host):
			errs = append(errs, fmt.Errorf("advertise: needed, as listen (%s) names no host that others could connect to: write such as ${env:POD_IP}:8082", c.Listen))
		}
	}
	if c.Advertise != "" {
		host, port, err := splitAddress(c.Advertise)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("advertise: %w", err))
		case !oneHost(host) || port == 0:
			errs = append(errs, fmt.Errorf("advertise: %q: want the host and port that other replicas connect to", c.Advertise))
		case c.Listen == "":
			errs = append(errs, errors.New("advertise: it is of use beside listen only"))
		}
	}
	return errors.Join(errs...)
}

// splitAddress reads host:port, where the host may be empty.
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

// oneHost reports whether a host is one to connect to, and not all of this machine.
func oneHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host != "" && (err != nil || !ip.IsUnspecified())
}

// Deps are what a Cluster works with.
type Deps struct {
	// DB is the Redis that the replicas share. With nil this is a gateway alone, which
	// keeps its sessions in memory. The caller closes it, after the Cluster.
	DB *redisdb.DB
	// Key is sessions.key, and Accepted are the previous ones. Needed for the link.
	Key      []byte
	Accepted [][]byte
	// Idle is how long Redis keeps a home that nobody uses. Needed with DB.
	Idle time.Duration
	// Revision is that of the configuration, for others to read in the lease.
	Revision string
	// OnLost is told that another replica owns a home now: what is held for it here has
	// to be dropped, and nobody told. It may be called by several goroutines at a time, and
	// must not wait for a call of the Cluster. nil: nobody is told.
	OnLost func(home string)
	// InUse reports whether something still runs for a home that no request has come for:
	// it is kept as long as that. It must return at once. nil: nothing does.
	InUse func(home string) bool
	// Log and Metrics may be nil.
	Log     *slog.Logger
	Metrics *Metrics
}

// times are how long things take. Tests have shorter ones.
type times struct {
	lease time.Duration // how long a replica counts as present after it renewed its lease
	beat  time.Duration // how often that is
	look  time.Duration // bounds one renewal, and one question to a peer
	dial  time.Duration // bounds connecting to a peer
	greet time.Duration // bounds being connected to
	again time.Duration // how often an unknown certificate makes us look for a new replica, which waits: well below dial
	idle  time.Duration // a connection that is quiet for so long is asked whether it lives
	ping  time.Duration // and has so long to answer
}

func usualTimes() times {
	return times{lease: 10 * time.Second, beat: 2 * time.Second, look: time.Second, dial: time.Second, greet: 5 * time.Second,
		again: time.Second / 4, idle: 5 * time.Second, ping: 5 * time.Second}
}
