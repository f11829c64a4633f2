package safehttp

import (
	"net/netip"
	"testing"
)

// Fetches of OAuth refuse addresses that are not of the public Internet.
func TestPublic(t *testing.T) {
	tests := []struct {
		name string
		want bool
		addr []string
	}{
		{"public", true, []string{"1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0",
			"172.15.255.255",
			"172.32.0.0", "168.63.129.17", "169.253.255.255", "192.0.1.0", "198.17.255.255", "198.20.0.0", "223.255.255.255",
			"2001:200::1", "2606:4700:4700::1111", "2a00:1450:4001::8a", "::ffff:8.8.8.8"}},
		{"unspecified", false, []string{"0.0.0.0", "0.1.2.3", "::"}},
		{"loopback", false, []string{"127.0.0.1", "127.255.255.254", "::1"}},
		{"private", false, []string{"10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.0.1"}},
		{"shared by carriers", false, []string{"100.64.0.1", "100.100.100.200", "100.127.255.255"}},
		{"link-local", false, []string{"169.254.0.1", "169.254.169.254", "fe80::1", "fe80::1%eth0", "febf::1", "fec0::1"}},
		{"a cloud's services", false, []string{"168.63.129.16", "192.0.0.192", "fd00:ec2::254"}},
		{"unique local", false, []string{"fc00::1", "fdff:ffff::1"}},
		{"multicast and broadcast", false, []string{"224.0.0.1", "239.255.255.255", "255.255.255.255", "240.0.0.1",
			"ff02::1", "ff0e::1"}},
		{"assignments, benchmarks, documentation", false,
			[]string{"192.0.0.8", "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.19.255.255",
				"198.51.100.1", "203.0.113.1", "2001:2::1", "2001:db8::1", "3fff::1", "100::1"}},
		{"IPv4 in IPv6: mapped", false, []string{"::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254"}},
		{"IPv4 in IPv6: compatible", false, []string{"::127.0.0.1", "::8.8.8.8"}},
		{"IPv4 in IPv6: NAT64", false, []string{"64:ff9b::a9fe:a9fe", "64:ff9b::808:808", "64:ff9b:1::a00:1"}},
		{"IPv4 in IPv6: 6to4", false, []string{"2002:7f00:1::", "2002:a9fe:a9fe::1", "2002:808:808::1"}},
		{"IPv4 in IPv6: Teredo", false, []string{"2001::1", "2001:0:7f00:1::"}},
		{"beyond global unicast", false, []string{"4000::1", "5f00::1", "1fff::1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, addr := range tt.addr {
				if got := Public(netip.MustParseAddr(addr)); got != tt.want {
					t.Errorf("%s: got %t, want %t", addr, got, tt.want)
				}
			}
		})
	}
	if Public(netip.Addr{}) {
		t.Error("no address at all is public")
	}
}

// Addresses that an upstream's name must not point to. Private addresses are
// allowed, because most upstreams have one.
func TestHostService(t *testing.T) {
	for want, addrs := range map[bool][]string{
		true: {"169.254.169.254", "169.254.170.2", "169.254.0.0", "169.254.255.255", "::ffff:169.254.169.254",
			"64:ff9b::a9fe:a9fe", "fe80::1", "fe80::a9fe:a9fe%eth0",
			"febf::1", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd00:c1::a9fe:a9fe",
			"fd20:ce::254", "fd00:42::42"},
		false: {"127.0.0.1", "::1", "10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "100.100.100.201", "168.63.129.17",
			"169.253.255.255", "169.255.0.0",
			"fd00::1", "fd00:ec1::254", "fec0::1", "8.8.8.8", "64:ff9b::808:808", "2606:4700:4700::1111"},
	} {
		for _, addr := range addrs {
			if got := HostService(netip.MustParseAddr(addr)); got != want {
				t.Errorf("%s: got %t, want %t", addr, got, want)
			}
		}
	}
}

// No address whose IPv4 part is refused becomes public by being written as IPv6.
func FuzzPublic(f *testing.F) {
	f.Add([]byte{127, 0, 0, 1})
	f.Add([]byte{0xfe, 0x80, 15: 1})
	f.Add([]byte{0, 0x64, 0xff, 0x9b, 12: 10, 15: 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		addr, ok := netip.AddrFromSlice(b)
		if !ok {
			return
		}
		public := Public(addr)
		if public != Public(netip.AddrFrom16(addr.As16())) {
			t.Errorf("%s: the mapped form is judged otherwise", addr)
		}
		if addr = addr.Unmap(); public && (!addr.IsGlobalUnicast() || addr.IsPrivate() || addr.IsLoopback()) {
			t.Errorf("%s is public", addr)
		}
	})
}
