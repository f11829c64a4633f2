package mcptest

import (
	"context"
	"net"
	"sync"
)

// Network is a network within the process, with one server: a net.Listener for it and
// a dialer for its clients. In a bubble of synctest who waits for it waits durably, so
// that the bubble's time goes on; it has to be made there. It holds no byte that was
// written and not read.
type Network struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// NewNetwork makes a Network.
func NewNetwork() *Network {
	return &Network{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// DialContext connects to the server, whatever address is given.
func (n *Network) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case n.conns <- server:
		return client, nil
	case <-n.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept waits for the next connection.
func (n *Network) Accept() (net.Conn, error) {
	select {
	case conn := <-n.conns:
		return conn, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept; connections stay.
func (n *Network) Close() error {
	n.once.Do(func() { close(n.closed) })
	return nil
}

// Addr is a loopback address, of no meaning.
func (n *Network) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
