package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// cart is a go-sdk server that counts, in each session, how often it was used.
type cart struct {
	*httptest.Server
	deleted chan string // ids of sessions

	servers []*sdk.Server // of each start; for the goroutine of the test alone

	mu      sync.Mutex // guards the fields below
	handler http.Handler
	counts  map[string]int // by session
}

func newCart(t *testing.T) *cart {
	t.Helper()
	c := &cart{deleted: make(chan string, 100)}
	c.restart()
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		handler := c.handler
		c.mu.Unlock()
		id := r.Header.Get("Mcp-Session-Id")
		handler.ServeHTTP(w, r)
		if r.Method == http.MethodDelete {
			c.deleted <- id
		}
	}))
	t.Cleanup(func() {
		c.end()
		c.CloseClientConnections()
		c.Close()
		c.end() // those that began while it restarted
	})
	return c
}

// end ends all sessions.
func (c *cart) end() {
	for _, server := range c.servers {
		for session := range server.Sessions() {
			session.Close()
		}
	}
}

// restart makes it forget all sessions.
func (c *cart) restart() {
	server := sdk.NewServer(&sdk.Implementation{Name: "cart", Version: "1"},
		&sdk.ServerOptions{SupportedProtocolVersions: []string{statefulServer}})
	sdk.AddTool(server, &sdk.Tool{Name: "add"}, func(_ context.Context, r *sdk.CallToolRequest,
		_ struct{}) (*sdk.CallToolResult, any, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.counts[r.Session.ID()]++
		return says(fmt.Sprint(c.counts[r.Session.ID()])), nil, nil
	})
	c.mu.Lock()
	c.counts = make(map[string]int)
	c.handler = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
	c.mu.Unlock()
	c.end()
	c.servers = append(c.servers, server)
}

// sessions returns how many were used.
func (c *cart) sessions() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.counts)
}

// withCart starts three replicas in front of a cart.
func withCart(t *testing.T) (*several, *cart) {
	t.Helper()
	c := newCart(t)
	return replicated(t, func(cfg *gateway.Config) {
		cfg.Upstreams = []upstream.Config{{Name: "cart", URL: c.URL}}
	}), c
}

// add makes the cart count, at a replica.
func add(t *testing.T, c *mcptest.Client) string {
	t.Helper()
	return outcome(mustCall(t, c, "tools/call", `{"name":"cart__add","arguments":{}}`))
}

// TestReplicasShareUpstreamSessions: a server with state in its session sees one client in
// one session, whichever replicas its calls arrive at.
func TestReplicasShareUpstreamSessions(t *testing.T) {
	t.Parallel()
	r, cart := withCart(t)
	for i, revision := range []string{statefulServer, statefulClient, stateless} {
		for _, caps := range []string{"{}", askable} {
			c := rawWith(t, r.url, revision, caps)
			before := cart.sessions()
			for n := range 9 {
				if got := add(t, r.at(c, (n+i)%3)); got != fmt.Sprint(n+1) {
					t.Errorf("client %s %s: call %d counted as %s", revision, caps, n+1, got)
				}
			}
			if got := cart.sessions() - before; got != 1 {
				t.Errorf("client %s %s: %d sessions at the server", revision, caps, got)
			}
		}
	}
}

// TestReplicasOpenOneSession: replicas that need a session at the same time open only one.
func TestReplicasOpenOneSession(t *testing.T) {
	t.Parallel()
	r, cart := withCart(t)
	for _, revision := range []string{statefulClient, stateless} {
		c := raw(t, r.url, revision)
		before := cart.sessions()
		var all sync.WaitGroup
		var counted atomic.Int64
		for n := range 12 {
			all.Go(func() {
				m, _, err := r.at(c, n%3).Call(deadline(t), "tools/call", `{"name":"cart__add","arguments":{}}`)
				if err != nil || m.Error != nil {
					t.Errorf("%s %v", m.Text, err)
				}
				if outcome(m) == "12" {
					counted.Add(1)
				}
			})
		}
		all.Wait()
		if got := cart.sessions() - before; got != 1 || counted.Load() != 1 {
			t.Errorf("client %s: %d sessions at the server", revision, got)
		}
	}
}

// TestReplicasAndAServerThatRestarts: a session that its server has lost is opened
// again once for all replicas.
func TestReplicasAndAServerThatRestarts(t *testing.T) {
	t.Parallel()
	r, cart := withCart(t)
	for _, revision := range []string{statefulClient, stateless} {
		c := raw(t, r.url, revision)
		for range 2 { // the second time, each has lost something else
			for n := range 3 {
				add(t, r.at(c, n))
			}
			cart.restart()
			for n := range 5 {
				if got := add(t, r.at(c, n%3)); got != fmt.Sprint(n+1) {
					t.Errorf("client %s: call %d after the restart counted as %s", revision, n+1, got)
				}
			}
			cart.restart()
			if got := add(t, r.at(c, 1)); got != "1" {
				t.Errorf("client %s: counted as %s", revision, got)
			}
			cart.restart()
			if got := add(t, r.at(c, 0)); got != "1" { // it first tries the lost session of the other
				t.Errorf("client %s: counted as %s", revision, got)
			}
		}
		cart.restart()
		var all sync.WaitGroup
		for n := range 9 {
			all.Go(func() {
				if m, _, err := r.at(c, n%3).Call(deadline(t), "tools/call", `{"name":"cart__add","arguments":{}}`); err != nil ||
					m.Error != nil {
					t.Errorf("%s %v", m.Text, err)
				}
			})
		}
		all.Wait()
		if got := cart.sessions(); got != 1 {
			t.Errorf("client %s: %d sessions after a restart under load", revision, got)
		}
	}
}

// TestReplicasEndAnUpstreamSessionOnce: it ends with the client's session, and not before.
func TestReplicasEndAnUpstreamSessionOnce(t *testing.T) {
	t.Parallel()
	r, cart := withCart(t)
	c := raw(t, r.url, statefulClient)
	for n := range 3 {
		add(t, r.at(c, n))
	}
	if status, err := r.at(c, 1).Delete(deadline(t)); status != http.StatusNoContent || err != nil {
		t.Fatalf("DELETE: %d %v", status, err)
	}
	ended := receive(t, "the end of the session", cart.deleted)
	other := raw(t, r.url, statefulClient)
	for n := range 3 {
		add(t, r.at(other, n))
	}
	if status, err := r.at(other, 0).Delete(deadline(t)); status != http.StatusNoContent || err != nil {
		t.Fatalf("DELETE: %d %v", status, err)
	}
	if got := receive(t, "the end of the other session", cart.deleted); got == ended {
		t.Errorf("the session was ended twice")
	}
}

// TestReplicasThatStopLeaveUpstreamSessions: they leave them to the other replicas or, when
// all stop, to those that start later.
func TestReplicasThatStopLeaveUpstreamSessions(t *testing.T) {
	t.Parallel()
	var cfg gateway.Config
	cart := newCart(t)
	r := replicated(t, func(c *gateway.Config) {
		c.Upstreams = []upstream.Config{{Name: "cart", URL: cart.URL}}
		cfg = *c
	})
	cfg.Sessions.Redis.URL = mcp.Secret(r.redis.URL())
	clients := []*mcptest.Client{raw(t, r.url, statefulClient), raw(t, r.url, stateless)}
	at := func(c *mcptest.Client, url string) *mcptest.Client {
		there := r.at(c, 0)
		there.URL = url
		return there
	}
	g, stop, err := run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range clients {
		if got := add(t, at(c, g.URL())); got != "1" {
			t.Errorf("counted as %s", got)
		}
	}
	stop()
	next := start(t, cfg)
	for _, c := range clients {
		if got := add(t, at(c, next)); got != "2" {
			t.Errorf("after a restart of all that had it, %s counted as %s", c.Revision.Name, got)
		}
		for n := range 3 {
			if got := add(t, r.at(c, n)); got != fmt.Sprint(n+3) {
				t.Errorf("at replica %d %s counted as %s", n, c.Revision.Name, got)
			}
		}
	}
	for len(cart.deleted) > 0 { // the gateway's own session
		id := <-cart.deleted
		cart.mu.Lock()
		if cart.counts[id] > 0 {
			t.Errorf("the session of a client was ended")
		}
		cart.mu.Unlock()
	}
}

// TestUpstreamSessionsWithoutRedis: sessions with a known owner continue there;
// others are opened.
func TestUpstreamSessionsWithoutRedis(t *testing.T) {
	t.Parallel()
	r, cart := withCart(t)
	known, fresh := raw(t, r.url, statefulClient), rawWith(t, r.url, stateless, askable)
	for n := range 3 {
		add(t, r.at(known, n))
	}
	r.redis.Kill()
	for n := range 3 {
		if got := add(t, r.at(known, n)); got != fmt.Sprint(n+4) {
			t.Errorf("at replica %d it counted as %s", n, got)
		}
	}
	for n := range 3 {
		if got := add(t, r.at(fresh, n)); got != "1" {
			t.Errorf("at replica %d that of a new client counted as %s", n, got)
		}
	}
	if got := cart.sessions(); got != 4 {
		t.Errorf("%d sessions at the server", got)
	}
}
