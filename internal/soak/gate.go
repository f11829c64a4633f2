package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// gateHost is where servers listen: an address that no outgoing connection has, so that a
// server that was down finds its port free.
const gateHost = "127.0.0.9"

// gate stands in front of a server's handler, and fails in its place.
type gate struct {
	handler http.Handler
	forget  func() // has the server lose its sessions
	address string

	mu     sync.Mutex // guards the fields below
	fault  http.HandlerFunc
	ended  chan struct{} // closed when the fault ends; nil without one
	server *http.Server  // nil while it is down
	served chan struct{} // closed when it serves no more
}

func newGate(handler http.Handler, forget func()) (*gate, error) {
	l, err := net.Listen("tcp", gateHost+":0")
	if err != nil {
		return nil, err
	}
	g := &gate{handler: handler, forget: forget, address: l.Addr().String()}
	g.serve(l)
	return g, nil
}

func (g *gate) url() string { return "http://" + g.address }

func (g *gate) serve(l net.Listener) {
	server, served := &http.Server{Handler: g, ReadHeaderTimeout: time.Minute}, make(chan struct{})
	g.mu.Lock()
	g.server, g.served = server, served
	g.mu.Unlock()
	go func() {
		defer close(served)
		_ = server.Serve(l) // http.ErrServerClosed, by kill
	}()
}

// ServeHTTP hands a request on, unless there is a fault.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	fault := g.fault
	g.mu.Unlock()
	if fault == nil {
		g.handler.ServeHTTP(w, r)
		return
	}
	fault(w, r)
}

// fail has the server answer everything in another way, until mend.
func (g *gate) fail(fault func(ended <-chan struct{}) http.HandlerFunc) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = make(chan struct{})
	g.fault = fault(g.ended)
}

// mend ends what fail began.
func (g *gate) mend() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fault != nil {
		close(g.ended)
		g.fault, g.ended = nil, nil
	}
}

// kill ends the server as a crash would: connections break, the port is closed, sessions
// are lost.
func (g *gate) kill() {
	g.mu.Lock()
	server, served := g.server, g.served
	g.server = nil
	g.mu.Unlock()
	if server == nil {
		return
	}
	_ = server.Close() // its connections are closed, which is all that is wanted
	<-served
	g.forget()
}

// restart ends kill.
func (g *gate) restart() error {
	l, err := net.Listen("tcp", g.address)
	if err != nil {
		return fmt.Errorf("a server that was down: %w", err)
	}
	g.serve(l)
	return nil
}

func (g *gate) close() {
	g.mend()
	g.kill()
}

// hanging takes requests and does not answer.
func hanging(ended <-chan struct{}) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-ended:
		}
		panic(http.ErrAbortHandler) // too late for an answer
	}
}

// resetting breaks each connection by RST.
func resetting(<-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			err = tcp.SetLinger(0)
		}
		if err = errors.Join(err, conn.Close()); err != nil {
			panic(http.ErrAbortHandler)
		}
	}
}

// saying answers everything with the same.
func saying(status int, contentType, body string) func(<-chan struct{}) http.HandlerFunc {
	return func(<-chan struct{}) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
				w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter.Seconds())))
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body)) // the gateway may have gone
		}
	}
}
