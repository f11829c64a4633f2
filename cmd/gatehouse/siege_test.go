package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

// siegeResource is the resource, and so the audience, of the gateways in these tests.
const siegeResource = "https://gateway.example/mcp"

// siege is a gateway under attack: the program in its own process, with tokens of a real
// issuer and its state in a real Redis.
type siege struct {
	*replica
	issuer *mcptest.Issuer
	redis  *redistest.Server
}

// besiege starts the gateway and waits until it knows the named upstreams. config is the
// rest of its file and starts with the upstreams. Policy allows everything to everybody.
func besiege(t *testing.T, config string, upstreams ...string) *siege {
	t.Helper()
	return besiegeWith(t, siegeConfig{rest: config}, upstreams...)
}

// siegeConfig is the configuration of a siege. sessions, auth and http are further keys of
// these sections, in flow style with a leading comma: ", max_per_user: 5".
type siegeConfig struct {
	sessions, auth string
	http           string
	policy         string // "{default: allow}" when empty
	rest           string
}

func besiegeWith(t *testing.T, c siegeConfig, upstreams ...string) *siege {
	t.Helper()
	s := &siege{issuer: mcptest.NewIssuer(mcptest.IssuerOptions{Audience: siegeResource}), redis: redistest.Start(t)}
	t.Cleanup(s.issuer.Close)
	if c.policy == "" {
		c.policy = "{default: allow}"
	}
	text := fmt.Sprintf("listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\npublic_url: %s\nhttp: {allowed_hosts: [\"127.0.0.1\"]%s}\n"+
		"auth: {mode: oauth, issuers: [{url: %q}]%s}\n"+
		"sessions: {store: redis, key: 0123456789abcdef0123456789abcdef, redis: {url: %q}%s}\nreplicas: {alone: true}\npolicy: %s\n%s",
		siegeResource, c.http, s.issuer.URL, c.auth, s.redis.URL(), c.sessions, c.policy, c.rest)
	file := filepath.Join(t.TempDir(), "gatehouse.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.replica = &replica{config: file, upstreams: upstreams}
	t.Cleanup(func() {
		if s.end(); t.Failed() && s.log != nil {
			t.Logf("the gateway:\n%s", s.log)
		}
	})
	s.start(t)
	return s
}

// as makes a client with a user's token and an open session. It has connections of its own.
func (s *siege) as(t *testing.T, user, revision, caps string) *mcptest.Client {
	t.Helper()
	c := mcptest.NewClient(s.endpoint(), wire.Lookup(revision))
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c.HTTP, c.Caps = &http.Client{Transport: transport}, caps
	c.Header = http.Header{"Authorization": {"Bearer " + s.issuer.Token(map[string]any{"sub": user})}}
	if err := c.Open(deadline(t)); err != nil {
		t.Fatalf("%s cannot open a session: %v", user, err)
	}
	return c
}

// siegePatience is how long a call of bob may take during an attack.
const siegePatience = 20 * time.Second

// undisturbed makes the neighbour, bob, call an echo tool of a worker, with a client of
// each era, while attack runs. Every call must be answered with its own text, and with
// nothing before it.
func (s *siege) undisturbed(t *testing.T, echo string, attack func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var neighbours sync.WaitGroup
	for _, revision := range []string{clientRev, statelessRev} {
		bob := s.as(t, "bob", revision, "{}")
		began := make(chan struct{})
		neighbours.Go(func() {
			for n := 0; n < 10 || ctx.Err() == nil; n++ {
				key := fmt.Sprintf("%s-%d", revision, n)
				if err := echoes(bob, echo, key); err != nil {
					t.Errorf("bob's call %d (%s) during the attack: %v", n, revision, err)
					break
				}
				if n == 0 {
					close(began)
				}
			}
		})
		select {
		case <-began:
		case <-deadline(t).Done():
			t.Errorf("bob's first call (%s) is not answered", revision)
		}
	}
	attack()
	cancel()
	neighbours.Wait()
}

// echoes makes one call of an echo tool.
func echoes(c *mcptest.Client, tool, key string) error {
	ctx, cancel := context.WithTimeout(context.Background(), siegePatience) // a running call may end normally
	defer cancel()
	m, before, err := c.Call(ctx, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":{"key":%q}}`, tool, key))
	switch {
	case err != nil:
		return err
	case m.Error != nil:
		return m.Error
	case textOf(m) != "echo "+key:
		return fmt.Errorf("answered with %s", m.Text)
	case len(before) != 0:
		return fmt.Errorf("heard %s before its answer", before[0].Text)
	}
	return nil
}

// TestSiege checks the harness itself: it tells users apart, and it notices wrong answers
// to the neighbour's calls.
func TestSiege(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	up := newWorker(t, serverRev)
	s := besiege(t, fmt.Sprintf("upstreams:\n- {name: up, url: %q}\n", up.URL), "up")
	s.undisturbed(t, "up__echo", func() {
		alice := s.as(t, "alice", clientRev, "{}")
		for n := range 10 {
			if err := echoes(alice, "up__echo", fmt.Sprint(n)); err != nil {
				t.Error(err)
			}
		}
		stranger := s.as(t, "mallory", statelessRev, "{}")
		stranger.Session, stranger.Revision = alice.Session, wire.Lookup(clientRev)
		if err := echoes(stranger, "up__echo", "x"); err == nil {
			t.Error("mallory goes on with alice's session")
		}
		if err := echoes(alice, "up__log", "x"); err == nil {
			t.Error("another answer passes for an echo")
		}
	})
}
