package gateway

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
)

const (
	defaultConnections = 10_000
	defaultIdleTimeout = 60 * time.Second
	// networkBits is how much of an IPv6 address counts as one client: whoever has one
	// address has all of its network.
	networkBits = 64
)

// Connections is the section "connections": those of clients to the endpoint.
type Connections struct {
	// Max is how many may be open at a time. For a further one the oldest that has brought
	// no whole request yet is closed, else one that has been idle for long. When all are in
	// use, further clients wait: the system keeps them in its queue. Default 10000.
	Max int `yaml:"max"`
	// PerAddress is how many of one client address may be open at a time, of IPv6 of one
	// network of 64 bits. For a further one the oldest of this address that has brought no
	// whole request yet is closed, else the further one itself, at once. Default: half of
	// Max.
	PerAddress int `yaml:"per_address"`
	// Proxies are the addresses, or networks such as 10.0.0.0/8, of proxies and balancers
	// in front of the gateway, from which the connections of many clients come. PerAddress
	// does not apply to them. Nothing that they say of their clients is read. Default none.
	Proxies []string `yaml:"proxies"`
	// IdleTimeout is after what time without a request a connection is closed. Default
	// 60s.
	IdleTimeout time.Duration `yaml:"idle_timeout"`
}

// Validate reports everything that is wrong.
func (c Connections) Validate() error {
	var errs []error
	if c.Max < 0 {
		errs = append(errs, fmt.Errorf("max: %d is negative", c.Max))
	}
	if c.PerAddress < 0 {
		errs = append(errs, fmt.Errorf("per_address: %d is negative", c.PerAddress))
	}
	for i, proxy := range c.Proxies {
		if _, err := networkOf(proxy); err != nil {
			errs = append(errs, fmt.Errorf("proxies[%d]: %q is neither an address nor a network such as 10.0.0.0/8", i, proxy))
		}
	}
	if c.IdleTimeout < 0 {
		errs = append(errs, fmt.Errorf("idle_timeout: %s is negative", c.IdleTimeout))
	}
	return errors.Join(errs...)
}

// withDefaults fills in what was left out.
func (c Connections) withDefaults() Connections {
	if c.Max == 0 {
		c.Max = defaultConnections
	}
	if c.PerAddress == 0 {
		c.PerAddress = (c.Max + 1) / 2
	}
	if c.IdleTimeout == 0 {
		c.IdleTimeout = defaultIdleTimeout
	}
	return c
}

// networkOf reads an address or a network.
func networkOf(text string) (netip.Prefix, error) {
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

// networks are those of the proxies.
func (c Connections) networks() (networks []netip.Prefix) {
	for _, proxy := range c.Proxies {
		if network, err := networkOf(proxy); err == nil { // Validate has looked
			networks = append(networks, network)
		}
	}
	return networks
}

// addressOf is the IP address of a connection, the zero one where it has none.
func addressOf(a net.Addr) netip.Addr {
	from, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{}
	}
	return from.Addr().Unmap().WithZone("")
}

// clientOf is what connections from an address are counted by. All that have none count
// as one.
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
