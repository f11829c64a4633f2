package mcptest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports below the ranges from which systems take the ports of outgoing connections.
const (
	firstPort = 20000
	ports     = 12000
)

// taken has the addresses that this process has given out.
var taken sync.Map

// FreeAddress returns an address, host:port, for a server that another process starts later.
// Nothing listens there, and no outgoing connection can take its port until then.
func FreeAddress(host string) (string, error) {
	for range 100 {
		address := net.JoinHostPort(host, strconv.Itoa(firstPort+rand.IntN(ports)))
		if _, before := taken.LoadOrStore(address, true); before {
			continue
		}
		if listener, err := net.Listen("tcp", address); err == nil {
			return address, listener.Close()
		}
	}
	return "", fmt.Errorf("mcptest: no free port at %s", host)
}
