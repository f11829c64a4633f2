package mcptest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
)

// Ports below the ranges from which systems take the ports of outgoing connections.
const (
	firstPort = 20000
	ports     = 12000
)

// lastPort begins at random, for each process of a test run draws from the same ports.
var lastPort atomic.Uint32

func init() { lastPort.Store(rand.Uint32N(ports)) }

// FreeAddress returns an address, host:port, for a server that another process starts later.
// Nothing listens there, no outgoing connection can take its port meanwhile, and no two calls return the same.
func FreeAddress(host string) (string, error) {
	for range 100 {
		address := net.JoinHostPort(host, strconv.Itoa(firstPort+int(lastPort.Add(1)%ports)))
		listener, err := net.Listen("tcp", address)
		if err == nil {
			return address, listener.Close()
		}
	}
	return "", fmt.Errorf("mcptest: no free port at %s", host)
}
