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

// FreeAddress returns an address, host:port, for a server that another process starts later.
// Nothing listens there, and no outgoing connection can take its port until then.
func FreeAddress(host string) (string, error) {
	for range 100 {
		address := net.JoinHostPort(host, strconv.Itoa(firstPort+rand.IntN(ports)))
		listener, err := net.Listen("tcp", address)
		if err == nil {
			return address, listener.Close()
		}
	}
	return "", fmt.Errorf("mcptest: no free port at %s", host)
}

// LoopbackAddress returns a FreeAddress of 127.0.0.1, or fails the test.
func LoopbackAddress(t testing.TB) string {
	t.Helper()
	address, err := FreeAddress("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	return address
}
