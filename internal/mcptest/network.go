package mcptest

import (
	"context"
	"net"
	"sync"
)

// Network is a network within the process, with one server: a net.Listener for the server
// and a dialer for its clients. Make it inside a synctest bubble: waiting for it is then a
// durable wait, so the bubble's time advances. It buffers nothing.
type Network struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// NewNetwork makes a Network.
func NewNetwork() *Network {
	return &Network{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// DialContext connects to the server and ignores the address.
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

// Close ends Accept; open connections stay.
func (n *Network) Close() error {
	n.once.Do(func() { close(n.closed) })
	return nil
}

// Addr returns a loopback address without a meaning.
func (n *Network) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
