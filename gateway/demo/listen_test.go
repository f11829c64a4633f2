package demo

import (
	"net"
	"net/netip"
	"testing"
)

// TestPagesKeepTheirPlace: they are at the same port after a restart of the demo; a port that is taken does
// not prevent the start.
func TestPagesKeepTheirPlace(t *testing.T) {
	for range 20 { // another process may take the next port
		gateway, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer gateway.Close()
		at := netip.MustParseAddrPort(gateway.Addr().String())
		for range 2 {
			page, err := listenNextTo(at, 1)
			if err != nil {
				t.Fatal(err)
			}
			port := netip.MustParseAddrPort(page.Addr().String()).Port()
			page.Close()
			if port != at.Port()+1 {
				at = netip.AddrPort{}
				break
			}
		}
		if !at.IsValid() {
			continue
		}
		taken, err := listenNextTo(at, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close()
		other, err := listenNextTo(at, 1)
		if err != nil {
			t.Fatalf("the port is taken: %v", err)
		}
		other.Close()
		return
	}
	t.Error("the page never had the port after the gateway's")
}
