package safehttp

import (
	"net/netip"
	"slices"
)

// Public reports whether an address belongs to a host of the public Internet, by IANA's
// special-purpose registries (RFC 6890). It also refuses every IPv6 address that embeds an
// IPv4 address, where such a packet really goes.
func Public(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	if !addr.IsValid() {
		return false
	}
	special := special4()
	if addr.Is6() {
		if !netip.MustParsePrefix("2000::/3").Contains(addr) {
			return false // all of global unicast is within; NAT64, ULA, link-local are not
		}
		special = special6()
	}
	return !slices.ContainsFunc(special, func(p string) bool { return netip.MustParsePrefix(p).Contains(addr) })
}

// HostService reports whether an address is link-local or belongs to a cloud's services for
// its machines, such as the metadata service with their credentials. No name has a reason
// to point there.
func HostService(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	if netip.MustParsePrefix("64:ff9b::/96").Contains(addr) { // NAT64 (RFC 6052 §2.1): where it really goes
		b := addr.As16()
		addr = netip.AddrFrom4([4]byte(b[12:]))
	}
	return slices.ContainsFunc(hostServices(), func(p string) bool { return netip.MustParsePrefix(p).Contains(addr) })
}

func hostServices() []string {
	return []string{
		"169.254.0.0/16",         // link-local (RFC 3927); metadata of most clouds
		"fe80::/10",              // link-local (RFC 4291 §2.5.6)
		"100.100.100.200/32",     // Alibaba Cloud
		"168.63.129.16/32",       // Azure
		"192.0.0.192/32",         // Oracle Cloud
		"fd00:ec2::/32",          // AWS
		"fd00:c1::a9fe:a9fe/128", // Oracle Cloud
		"fd20:ce::254/128",       // Google Cloud
		"fd00:42::42/128",        // Scaleway
	}
}

func special4() []string {
	return []string{
		"0.0.0.0/8",        // "this network"
		"10.0.0.0/8",       // private
		"100.64.0.0/10",    // carrier-grade NAT; metadata of some clouds
		"127.0.0.0/8",      // loopback
		"168.63.129.16/32", // the host services of a cloud, though public by its number
		"169.254.0.0/16",   // link-local; metadata of most clouds
		"172.16.0.0/12",    // private
		"192.0.0.0/24",     // protocol assignments; metadata of some clouds
		"192.0.2.0/24",     // documentation
		"192.31.196.0/24",  // AS112
		"192.52.193.0/24",  // automatic multicast tunnelling
		"192.88.99.0/24",   // 6to4 relays
		"192.168.0.0/16",   // private
		"192.175.48.0/24",  // AS112
		"198.18.0.0/15",    // benchmarks
		"198.51.100.0/24",  // documentation
		"203.0.113.0/24",   // documentation
		"224.0.0.0/4",      // multicast
		"240.0.0.0/4",      // reserved, broadcast
	}
}

func special6() []string {
	return []string{
		"2001::/23",         // protocol assignments, Teredo, ORCHID
		"2001:db8::/32",     // documentation
		"2002::/16",         // 6to4
		"2620:4f:8000::/48", // AS112
		"3fff::/20",         // documentation
	}
}
