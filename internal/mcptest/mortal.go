package mcptest

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// Mortal is an HTTP server that can be killed and revived at the same address.
type Mortal struct {
	// Address is host:port.
	Address string
	handler http.Handler

	mu     sync.Mutex    // guards the fields below
	server *http.Server  // nil while it is dead
	served chan struct{} // closed when it has stopped serving
}

// NewMortal starts a server at a free port of host. No other program should use ports of host, so
// that the port is still free later: use a loopback address other than 127.0.0.1.
func NewMortal(host string, handler http.Handler) (*Mortal, error) {
	m := &Mortal{Address: host + ":0", handler: handler}
	return m, m.Revive()
}

// Revive starts serving again.
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

// Kill ends the server as a crash would: connections break, the port is closed. It reports
// whether the server was alive.
func (m *Mortal) Kill() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.server == nil {
		return false
	}
	_ = m.server.Close() // closing its connections is the point
	<-m.served
	m.server = nil
	return true
}

// Reset is a handler that resets the connection.
func Reset(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // this one breaks it in another way
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // if this fails, the connection just ends
	}
	_ = conn.Close()
}
