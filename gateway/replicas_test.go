package gateway

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// TestNothingIsHeldOfWhatWasGivenUp: requests that look for a session while it is given up do not
// leave it in memory, where a late request would find it and begin a call whose answer nobody gets.
func TestNothingIsHeldOfWhatWasGivenUp(t *testing.T) {
	good := newSite(t, true, one("work", saying("x")))
	c := startConfigured(t, fmt.Sprintf("sessions: {store: redis, key: %s, redis: {url: %q}}\nreplicas: {listen: \"127.0.0.1:0\"}\nupstreams:\n- {name: good, url: %q}\n",
		"0123456789abcdef0123456789abcdef", redistest.Start(t).URL(), good.url))
	sessions := c.services.sessions
	for range 20 {
		client := mcptest.NewClient(c.URL(), wire.Lookup(stateful))
		if err := client.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		home := cluster.Home{User: (&mcp.Caller{}).User(), ID: client.Session}
		if _, err := sessions.Get(t.Context(), home.User, home.ID); err != nil {
			t.Fatal(err)
		}
		left := make(chan struct{})
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for {
					select {
					case <-left:
						return
					default:
						_, _ = sessions.Get(t.Context(), home.User, home.ID)
					}
				}
			})
		}
		c.leaveSession(home.Key())
		close(left)
		all.Wait()
		if _, err := sessions.Get(t.Context(), home.User, home.ID); !errors.Is(err, session.ErrMoved) {
			t.Fatalf("the session is still here: %v", err)
		}
	}
}
