package demo

import (
	"net"
	"net/netip"
	"testing"
)

// TestIssuerKeepsItsPlace: whoever was signed in finds the issuer again after the demo was
// started anew; a port that is taken does not keep the demo from starting.
func TestIssuerKeepsItsPlace(t *testing.T) {
	for range 20 { // the next port may be taken by something else
		gateway, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer gateway.Close()
		at := netip.MustParseAddrPort(gateway.Addr().String())
		for range 2 {
			issuer, err := listenNextTo(at)
			if err != nil {
				t.Fatal(err)
			}
			port := netip.MustParseAddrPort(issuer.Addr().String()).Port()
			issuer.Close()
			if port != at.Port()+1 {
				at = netip.AddrPort{}
				break
			}
		}
		if !at.IsValid() {
			continue
		}
		taken, err := listenNextTo(at)
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close()
		other, err := listenNextTo(at)
		if err != nil {
			t.Fatalf("the port is taken: %v", err)
		}
		other.Close()
		return
	}
	t.Error("the issuer never had the port after the gateway's")
}
