package main

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// gateHost is the address where servers listen. No outgoing connection uses it, so a server
// that was down finds its port free.
const gateHost = "127.0.0.9"

// retryAfter is the wait that overloaded servers ask for. A user is refused during it, even
// though all works for others.
const retryAfter = time.Second

// gate stands in front of a server's handler and answers in its place during a fault.
type gate struct {
	*mcptest.Mortal
	handler http.Handler
	forget  func() // makes the server lose its sessions

	mu    sync.Mutex // guards the fields below
	fault http.HandlerFunc
	ended chan struct{} // closed when the fault ends; nil without one
}

func newGate(handler http.Handler, forget func()) (g *gate, err error) {
	g = &gate{handler: handler, forget: forget}
	g.Mortal, err = mcptest.NewMortal(gateHost, g)
	return g, err
}

func (g *gate) url() string { return "http://" + g.Address }

// ServeHTTP passes a request on, unless there is a fault.
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

// fail makes the server answer everything in another way, until mend.
func (g *gate) fail(fault func(ended <-chan struct{}) http.HandlerFunc) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = make(chan struct{})
	g.fault = fault(g.ended)
}

// mend ends the fault that fail began.
func (g *gate) mend() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fault != nil {
		close(g.ended)
		g.fault, g.ended = nil, nil
	}
}

// kill ends the server as a crash would, with the loss of its sessions.
func (g *gate) kill() {
	if g.Kill() {
		g.forget()
	}
}

// end ends the server for good.
func (g *gate) end() {
	g.mend()
	g.kill()
}

// hanging accepts requests and does not answer.
func hanging(ended <-chan struct{}) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-ended:
		}
		panic(http.ErrAbortHandler) // too late for an answer
	}
}

// resetting resets each connection.
func resetting(<-chan struct{}) http.HandlerFunc { return mcptest.Reset }

// saying gives the same answer to everything.
func saying(status int, contentType, body string) func(<-chan struct{}) http.HandlerFunc {
	return func(<-chan struct{}) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
				w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter.Seconds())))
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body)) // the gateway may be gone
		}
	}
}
