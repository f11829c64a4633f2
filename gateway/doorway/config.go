package doorway

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/problems"
)

// DefaultIdleTimeout limits the time of a connection without a request.
const DefaultIdleTimeout = 60 * time.Second

const (
	defaultMax = 10_000
	// networkBits is the part of an IPv6 address that identifies a client: a client with one
	// address has all of its network.
	networkBits = 64
)

// Config is the section "connections". It bounds the connections of clients to the
// endpoint.
type Config struct {
	// Max bounds the open connections. To make room for a new one, the gateway closes the oldest that has not
	// sent a whole request yet, or else one that has been idle for long. If all are in use, the new one waits
	// in the system's queue. Each takes a file descriptor, and so does each to an upstream. Default 10000.
	Max int `yaml:"max"`
	// PerAddress bounds those of one client address; for IPv6, of one network of 64 bits. To make room for a
	// new one, the gateway closes the oldest of them that has not sent a whole request yet, or else the new
	// one. Default: half of Max.
	PerAddress int `yaml:"per_address"`
	// Proxies are the addresses, or networks such as 10.0.0.0/8, of proxies and balancers in front of the
	// gateway; unix stands for all that connect to a socket (listen: unix:/path). They carry connections of
	// many clients, so PerAddress does not apply to them. Records and the log have the address that they
	// write to the end of X-Forwarded-For or, without that, of Forwarded. Default none.
	Proxies []string `yaml:"proxies"`
	// ProxyProtocol says that connections from Proxies begin with a header of the PROXY protocol, version
	// 1 or 2, which names their client: PerAddress and records are about that. Those without one are
	// refused. From all others, such a header is a bad request. Default false.
	ProxyProtocol bool `yaml:"proxy_protocol"`
	// IdleTimeout is the time after which a connection without a request is closed. Default 60s.
	IdleTimeout time.Duration `yaml:"idle_timeout"`
}

// Validate returns all mistakes in the section.
func (c Config) Validate() error {
	var found problems.List
	found.At("max", problems.Negative(c.Max))
	found.At("per_address", problems.Negative(c.PerAddress))
	for i, proxy := range c.Proxies {
		if _, err := networkOf(proxy); err != nil {
			found.Add("proxies[%d]: %q is neither an address nor a network such as 10.0.0.0/8, nor unix", i, proxy)
		}
	}
	found.When(c.ProxyProtocol && len(c.Proxies) == 0, "proxy_protocol: proxies names none that could send it")
	found.At("idle_timeout", problems.Negative(c.IdleTimeout))
	return found.Err()
}

// WithDefaults fills in the defaults.
func (c Config) WithDefaults() Config {
	c.Max = cmp.Or(c.Max, defaultMax)
	c.PerAddress = cmp.Or(c.PerAddress, (c.Max+1)/2)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, DefaultIdleTimeout)
	return c
}

// networkOf parses an address or a network. That of unix is the zero Prefix.
func networkOf(text string) (netip.Prefix, error) {
	if text == Unix {
		return netip.Prefix{}, nil
	}
	if network, err := netip.ParsePrefix(text); err == nil {
		return network.Masked(), nil
	}
	address, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	address = address.Unmap()
	return address.Prefix(address.BitLen())
}

// networks returns the networks of the proxies.
func (c Config) networks() (networks []netip.Prefix) {
	for _, proxy := range c.Proxies {
		if network, err := networkOf(proxy); err == nil { // Validate has checked them
			networks = append(networks, network)
		}
	}
	return networks
}

// Proxied reports whether an address is that of a proxy.
func (c Config) Proxied(from netip.Addr) bool {
	return isProxy(c.networks(), from)
}

// addressOf returns the IP address in the text of an address with a port, or the zero Addr if it has none.
func addressOf(text string) netip.Addr {
	from, err := netip.ParseAddrPort(text)
	if err != nil {
		return netip.Addr{}
	}
	return from.Addr().Unmap().WithZone("")
}

// isProxy reports whether an address is in one of the networks. Whatever connects to a socket has none.
func isProxy(networks []netip.Prefix, from netip.Addr) bool {
	return slices.ContainsFunc(networks, func(n netip.Prefix) bool {
		return n.Contains(from) || !n.IsValid() && !from.IsValid()
	})
}

// clientOf returns the address under which connections from an address are counted. All connections
// without an address count as one client.
func clientOf(ip netip.Addr) netip.Addr {
	if ip.Is6() {
		network, err := ip.Prefix(networkBits)
		if err != nil {
			return netip.Addr{}
		}
		return network.Addr()
	}
	return ip
}
