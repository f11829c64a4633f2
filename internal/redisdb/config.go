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
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
	"github.com/gatehouse-mcp/gatehouse/internal/tlsfiles"
)

// DefaultPrefix is the default of Config.Prefix.
const DefaultPrefix = "gatehouse:"

// Config is the configuration section "redis". It is read at start; SetUser alone changes
// anything later.
type Config struct {
	// URL is the address of Redis: redis://host:6379/0 or unix:///path;
	// redis+sentinel://host1,host2/0?master=NAME for Sentinels; redis+cluster://host1,host2 for a Cluster.
	// With rediss in place of redis they use TLS. It may contain a user and a password, percent-encoded.
	URL mcp.Secret `yaml:"url" secret:"user"`
	// Username and Password belong to an ACL user. They override those of the URL.
	Username string     `yaml:"username"`
	Password mcp.Secret `yaml:"password"`
	// SentinelUsername and SentinelPassword log in to the Sentinels. Default none.
	SentinelUsername string     `yaml:"sentinel_username"`
	SentinelPassword mcp.Secret `yaml:"sentinel_password"`
	// CAFile has the authorities that sign the server's certificate, in PEM, for a URL with TLS. Default:
	// those of the system.
	CAFile string `yaml:"ca_file"`
	// CertFile and KeyFile are the gateway's own certificate and its key, in PEM, for a server that asks for
	// one. They are read again for each connection. Default none.
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
	// Prefix begins every key. Default gatehouse:. Gateways that share a Redis without being replicas of each
	// other need different prefixes.
	Prefix string `yaml:"prefix"`
}

// IsZero reports whether the section is empty.
func (c Config) IsZero() bool { return c == Config{} }

// Validate reports all errors of the configuration. The error never contains the URL, which
// may hold a password.
func (c Config) Validate() error {
	var found problems.List
	p, err := c.place()
	found.When(err != nil, "url: %w", err)
	found.Join(c.files().Validate())
	found.When(err == nil && !p.tls && !c.files().IsZero(),
		"ca_file, cert_file and key_file: they are for rediss, with which the URL does not begin")
	found.When(strings.ContainsAny(c.Prefix, "{}*?[]\\ "),
		"prefix: %q: want no braces, patterns or spaces in it", c.Prefix)
	return found.Err()
}

func (c Config) files() tlsfiles.Files {
	return tlsfiles.Files{CA: c.CAFile, Cert: c.CertFile, Key: c.KeyFile}
}

// place is a parsed URL.
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

// client makes a client that logs in as the given user. It does not connect yet.
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
		if o.TLSConfig, err = c.files().Config(); err != nil {
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
