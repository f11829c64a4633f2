package doorway

import (
	"net/http"
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
		if got := clientOf(addressOf(address)); got != ip {
			t.Errorf("%s counts as %s, want %s", address, got, ip)
		}
	}
}

// TestForwardedFor: of what came through proxies, only that counts which proxies have written.
func TestForwardedFor(t *testing.T) {
	proxies := Config{Proxies: []string{"10.0.0.0/8", "fd00::/8"}}.networks()
	of := func(name string, lines ...string) http.Header { return http.Header{name: lines} }
	for _, tt := range []struct {
		header http.Header
		want   string
	}{
		{http.Header{}, "10.0.0.1"},
		{of("X-Forwarded-For", "192.0.2.7"), "192.0.2.7"},
		{of("X-Forwarded-For", "198.51.100.1, 192.0.2.7, 10.0.0.2"), "192.0.2.7"},
		{of("X-Forwarded-For", "198.51.100.1", "192.0.2.7:4711,10.0.0.2"), "192.0.2.7"},
		{of("X-Forwarded-For", "198.51.100.1, unknown, 10.0.0.2"), "10.0.0.2"},
		{of("X-Forwarded-For", "198.51.100.1, <script>"), "10.0.0.1"},
		{of("X-Forwarded-For", "10.0.0.3, 10.0.0.2"), "10.0.0.3"},
		{of("X-Forwarded-For", ""), "10.0.0.1"},
		{of("X-Forwarded-For", "[2001:db8::1]:80"), "2001:db8::1"},
		{of("X-Forwarded-For", "2001:db8::1%eth0, fd00::1"), "2001:db8::1"},
		{of("X-Forwarded-For", "::ffff:192.0.2.7"), "192.0.2.7"},
		{http.Header{"X-Forwarded-For": {"192.0.2.7"}, "Forwarded": {"for=198.51.100.1"}}, "192.0.2.7"},
		{of("Forwarded", "for=198.51.100.1, For=192.0.2.7;proto=https;by=10.0.0.1"), "192.0.2.7"},
		{of("Forwarded", `proto=http; for="[2001:db8::1]:4711"`), "2001:db8::1"},
		{of("Forwarded", `for=192.0.2.7;host="a, for=198.51.100.1"`), "192.0.2.7"},
		{of("Forwarded", "for=_hidden, for=10.0.0.2"), "10.0.0.2"},
		{of("Forwarded", "proto=https"), "10.0.0.1"},
	} {
		if got := nameOf(forwardedFor(tt.header, netip.MustParseAddr("10.0.0.1"), proxies)); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.header, got, tt.want)
		}
	}
}
