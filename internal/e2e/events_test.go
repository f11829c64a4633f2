package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// patience bounds every wait of a test. Only a failure reaches it, however busy the machine
// is.
const patience = time.Minute

// deadline returns a context that ends before the time limit of the test binary.
func deadline(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// events collects what happens to servers, also to servers in other processes, which report
// by HTTP.
type events struct {
	server *httptest.Server

	mu   mcptest.Cond // guards seen; wakes waiters when it grows
	seen map[string]int
}

func newEvents() *events {
	e := &events{seen: map[string]int{}}
	e.server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		e.happened(r.URL.Query().Get("event"))
	}))
	return e
}

func (e *events) happened(event string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen[event]++
	e.mu.Wake()
}

// count returns how often an event has happened.
func (e *events) count(event string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.seen[event]
}

// await waits until the event has happened.
func (e *events) await(t testing.TB, event string) {
	t.Helper()
	if e.mu.Await(deadline(t), func() bool { return e.seen[event] > 0 }) != nil {
		t.Fatalf("%q never happened; what did: %s", event, e)
	}
}

func (e *events) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return fmt.Sprint(e.seen)
}

// remote reports events from another process.
func remote(address string) func(string) {
	return func(event string) {
		resp, err := http.Post(address+"?event="+url.QueryEscape(event), "text/plain", nil)
		if err == nil { // otherwise the test is over
			resp.Body.Close()
		}
	}
}

// receive waits for a value.
func receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-deadline(t).Done():
		t.Fatalf("%s never came", what)
		panic("unreachable")
	}
}
