package dial

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"

	"github.com/gatehouse-mcp/gatehouse/internal/safehttp"
)

// ErrHostService: a server's name led to an address where a host is served, not MCP.
var ErrHostService = errors.New("the name leads to an address of the host's own services")

// guarded dials what operators named. Most servers are at private addresses, and where a
// name leads is for those to say whom it belongs to; over https the certificate tells
// whether they are who they were. But no name leads to the services of the host itself, such
// as a cloud's metadata: the address is looked at when it is dialled, so no change of it in
// DNS helps. One that the operator wrote in place of a name is dialled.
func guarded(d net.Dialer) dialFunc {
	byName := d
	byName.Control = func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		if safehttp.HostService(to.Addr()) {
			return ErrHostService
		}
		return nil
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if _, err := netip.ParseAddrPort(address); err == nil {
			return d.DialContext(ctx, network, address)
		}
		return byName.DialContext(ctx, network, address)
	}
}
