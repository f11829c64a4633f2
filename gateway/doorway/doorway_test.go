package doorway

import (
	"net/netip"
	"testing"
)

// TestOneAddressLeavesHalf: by default, one address leaves half of the connections to others.
func TestOneAddressLeavesHalf(t *testing.T) {
	for max, want := range map[int]int{0: 5000, 1: 1, 7: 4} {
		if got := (Config{Max: max}).WithDefaults().PerAddress; got != want {
			t.Errorf("of %d: %d, want %d", max, got, want)
		}
	}
}

func TestClientOf(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1:80":                "192.0.2.1",
		"[::ffff:192.0.2.1]:80":       "192.0.2.1",
		"[2001:db8:1:2:3:4:5:6]:80":   "2001:db8:1:2::",
		"[2001:db8:1:2:ffff::]:81":    "2001:db8:1:2::",
		"[fe80::1%eth0]:80":           "fe80::",
		"[::1]:80":                    "::",
		"@":                           "",
		"/run/gatehouse/gateway.sock": "",
	} {
		var ip netip.Addr
		if want != "" {
			ip = netip.MustParseAddr(want)
		}
		if got := clientOf(addressOf(named(address))); got != ip {
			t.Errorf("%s counts as %s, want %s", address, got, ip)
		}
	}
}

// named is an address with this text.
type named string

func (n named) Network() string { return "tcp" }
func (n named) String() string  { return string(n) }
