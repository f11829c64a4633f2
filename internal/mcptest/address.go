package mcptest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Ports below the ranges from which systems take the ports of outgoing connections.
const (
	firstPort = 20000
	ports     = 12000
)

// FreeAddress returns an address, host:port, of an IPv4 host for a server that another process starts later.
// Nothing listens there, and no outgoing connection can take its port until then.
func FreeAddress(host string) (string, error) {
	address, claim, err := claimed(host)
	if err != nil {
		return "", err
	}
	return address, claim.Close()
}

// LoopbackAddress returns a FreeAddress of 127.0.0.1, or fails the test. Until the test ends, no other
// test gets it, in this process or another: a server there may end and start again.
func LoopbackAddress(t testing.TB) string {
	t.Helper()
	address, claim, err := claimed("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { claim.Close() })
	return address
}

// claimed finds a free port. A UDP port that is lower by ports, which servers do not use, says that it is taken.
func claimed(host string) (address string, claim net.PacketConn, err error) {
	for range 100 {
		port := firstPort + rand.IntN(ports)
		claim, err := net.ListenPacket("udp4", net.JoinHostPort(host, strconv.Itoa(port-ports)))
		if err != nil {
			continue
		}
		address = net.JoinHostPort(host, strconv.Itoa(port))
		if listener, err := net.Listen("tcp", address); err == nil {
			return address, claim, listener.Close()
		}
		claim.Close()
	}
	return "", nil, fmt.Errorf("mcptest: no free port at %s", host)
}
