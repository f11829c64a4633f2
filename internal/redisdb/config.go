package redisdb

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// DefaultPrefix stands in front of all keys.
const DefaultPrefix = "gatehouse:"

// Config is a section "redis". All of it is read at start.
type Config struct {
	// URL says where Redis is: redis://host:6379/0, rediss:// with TLS, or unix:///path.
	// redis+sentinel:// and rediss+sentinel:// name Sentinels, several divided by
	// commas, and ?master= the name that they know the master by; redis+cluster:// and
	// rediss+cluster:// name nodes of a Cluster. User and password may stand in it.
	URL mcp.Secret `yaml:"url"`
	// Username and Password are an ACL user's. They win over what the URL says.
	Username string     `yaml:"username"`
	Password mcp.Secret `yaml:"password"`
	// SentinelUsername and SentinelPassword are for the Sentinels themselves. Default none.
	SentinelUsername string     `yaml:"sentinel_username"`
	SentinelPassword mcp.Secret `yaml:"sentinel_password"`
	// CAFile holds the certificates, in PEM, that sign the server's. Default: those of the
	// system.
	CAFile string `yaml:"ca_file"`
	// CertFile and KeyFile hold the gateway's own certificate and its key, in PEM, for a
	// server that asks for one. They are read for each connection, so that renewed ones are
	// used. Default none.
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
	// Prefix stands in front of all keys, gatehouse: by default. Gateways
	// that share a Redis and are not replicas of each other need different ones.
	Prefix string `yaml:"prefix"`
}

// IsZero reports whether nothing is configured.
func (c Config) IsZero() bool { return c == Config{} }

// Validate reports everything that is wrong. It never shows the URL, which may hold a
// password.
func (c Config) Validate() error {
	var errs []error
	p, err := c.place()
	if err != nil {
		errs = append(errs, fmt.Errorf("url: %w", err))
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		errs = append(errs, errors.New("cert_file and key_file: one needs the other"))
	}
	if err == nil && !p.tls && (c.CAFile != "" || c.CertFile != "" || c.KeyFile != "") {
		errs = append(errs, errors.New("ca_file, cert_file and key_file: they are for rediss, with which the URL does not begin"))
	}
	if strings.ContainsAny(c.Prefix, "{}*?[]\\ ") {
		errs = append(errs, fmt.Errorf("prefix: %q: want no braces, patterns or spaces in it", c.Prefix))
	}
	return errors.Join(errs...)
}

// place is what a URL says.
type place struct {
	network            string // tcp or unix
	addresses          []string
	tls                bool
	cluster            bool
	master             string
	db                 int
	username, password string
}

func (c Config) place() (p place, err error) {
	scheme, rest, found := strings.Cut(string(c.URL), "://")
	if c.URL == "" || !found {
		return p, errors.New("want redis://host:6379, rediss:// for TLS, redis+sentinel:// or redis+cluster://")
	}
	if scheme == "unix" {
		if !strings.HasPrefix(rest, "/") {
			return p, errors.New("want unix:// and an absolute path")
		}
		return place{network: "unix", addresses: []string{rest}}, nil
	}
	p.network = "tcp"
	base, kind, _ := strings.Cut(scheme, "+")
	if base != "redis" && base != "rediss" || kind != "" && kind != "sentinel" && kind != "cluster" {
		return p, errors.New("the scheme is none of redis, rediss, unix, and redis or rediss with +sentinel or +cluster")
	}
	p.tls, p.cluster = base == "rediss", kind == "cluster"
	rest, query, _ := strings.Cut(rest, "?")
	hosts, path, _ := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(hosts, '@'); at >= 0 {
		if p.username, p.password, err = readUser(hosts[:at]); err != nil {
			return p, err
		}
		hosts = hosts[at+1:]
	}
	if p.addresses, err = readHosts(hosts, kind); err != nil {
		return p, err
	}
	if path != "" {
		if p.db, err = strconv.Atoi(path); err != nil || p.db < 0 || p.cluster && p.db != 0 {
			return p, errors.New("the path is not the number of a database (a Cluster has only 0)")
		}
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return p, errors.New("what follows the ? cannot be read")
	}
	p.master = values.Get("master")
	values.Del("master")
	switch {
	case len(values) > 0:
		return p, errors.New("only master may follow the ?")
	case (p.master != "") != (kind == "sentinel"):
		return p, errors.New("redis+sentinel needs ?master= and the name of the master, and nothing else has one")
	case kind == "" && len(p.addresses) > 1:
		return p, errors.New("several hosts are for redis+sentinel:// and redis+cluster://")
	}
	return p, nil
}

func readUser(text string) (username, password string, err error) {
	name, secret, _ := strings.Cut(text, ":")
	if username, err = url.PathUnescape(name); err == nil {
		password, err = url.PathUnescape(secret)
	}
	if err != nil {
		return "", "", errors.New("user and password have to be percent-encoded")
	}
	return username, password, nil
}

func readHosts(hosts, kind string) (addresses []string, err error) {
	port := "6379"
	if kind == "sentinel" {
		port = "26379"
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if name, number, err := net.SplitHostPort(host); err == nil {
			if _, err := strconv.ParseUint(number, 10, 16); err != nil || name == "" {
				return nil, errors.New("a host is not host:port")
			}
			addresses = append(addresses, host)
			continue
		}
		name := strings.Trim(host, "[]")
		if name == "" || strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
			return nil, errors.New("a host is not host:port")
		}
		addresses = append(addresses, net.JoinHostPort(name, port))
	}
	return addresses, nil
}

// client makes the client, which connects to nothing yet, and then as the user.
func (c Config) client(as *user) (redis.UniversalClient, error) {
	p, err := c.place()
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	o := settings()
	o.Addrs, o.DB, o.MasterName, o.IsClusterMode = p.addresses, p.db, p.master, p.cluster
	o.CredentialsProvider = as.credentials
	o.SentinelUsername, o.SentinelPassword = c.SentinelUsername, string(c.SentinelPassword)
	if p.tls {
		if o.TLSConfig, err = c.tls(); err != nil {
			return nil, err
		}
	}
	if p.network == "unix" {
		simple := o.Simple()
		simple.Network = p.network
		return redis.NewClient(simple), nil
	}
	return redis.NewUniversalClient(o), nil
}
