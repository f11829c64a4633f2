package mcptest

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// Mortal is an HTTP server that can be killed, and revived at its address.
type Mortal struct {
	// Address is host:port.
	Address string
	handler http.Handler

	mu     sync.Mutex    // guards the fields below
	server *http.Server  // nil while it is dead
	served chan struct{} // closed when it serves no more
}

// NewMortal starts one at a port of host that is free. To find it free again, host should
// be one at which nobody else takes any: an address of loopback that is not 127.0.0.1.
func NewMortal(host string, handler http.Handler) (*Mortal, error) {
	m := &Mortal{Address: host + ":0", handler: handler}
	return m, m.Revive()
}

// Revive begins to serve.
func (m *Mortal) Revive() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, err := net.Listen("tcp", m.Address)
	if err != nil {
		return err
	}
	m.Address = l.Addr().String()
	server, served := &http.Server{Handler: m.handler, ReadHeaderTimeout: time.Minute}, make(chan struct{})
	m.server, m.served = server, served
	go func() {
		defer close(served)
		_ = server.Serve(l) // http.ErrServerClosed, by Kill
	}()
	return nil
}

// Kill ends it as a crash would: connections break, the port is closed. It reports whether
// it was alive.
func (m *Mortal) Kill() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.server == nil {
		return false
	}
	_ = m.server.Close() // its connections are closed, which is all that is wanted
	<-m.served
	m.server = nil
	return true
}

// Reset is a handler that breaks the connection by RST.
func Reset(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // which does it in another way
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // if it cannot, the connection just ends
	}
	_ = conn.Close()
}
