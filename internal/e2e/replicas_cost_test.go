package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// TestCallsCostNoRedis: the owner of a session serves its calls without a Redis command.
// The same holds for calls of clients without sessions.
func TestCallsCostNoRedis(t *testing.T) {
	r := replicated(t, withoutStreams)
	for _, revision := range wire.Revisions() {
		c := raw(t, r.url, revision.Name)
		for _, s := range r.servers {
			t.Run("client "+revision.Name+" server "+s.revision.Name, func(t *testing.T) {
				s.asks()
				owner := r.at(c, 0)
				mustCall(t, owner, "tools/call", s.params("tools/call")) // this makes it the owner
				said := commands(t, r, func() {
					for range 20 {
						mustCall(t, owner, "tools/call", s.params("tools/call"))
					}
				})
				if len(said) > 0 {
					t.Errorf("20 calls cost %d commands:\n%s", len(said), strings.Join(said, "\n"))
				}
			})
		}
	}
}

// TestForwardedCallsCostNoRedis: forwarding to a known owner needs no Redis command either.
func TestForwardedCallsCostNoRedis(t *testing.T) {
	r := replicated(t, withoutStreams)
	s := r.servers[0]
	s.asks()
	c := raw(t, r.url, statefulClient)
	for here := range 3 {
		mustCall(t, r.at(c, here), "tools/call", s.params("tools/call"))
	}
	said := commands(t, r, func() {
		for n := range 30 {
			mustCall(t, r.at(c, n%3), "tools/call", s.params("tools/call"))
		}
	})
	if len(said) > 0 {
		t.Errorf("30 calls cost %d commands:\n%s", len(said), strings.Join(said, "\n"))
	}
}

// withoutStreams makes answers come without event streams, which are kept in Redis.
func withoutStreams(cfg *gateway.Config) { cfg.HTTP.StreamAfter = time.Minute }

// commands returns the Redis commands during an action, without the periodic ones for
// leases and those that begin a connection.
func commands(t *testing.T, r *several, do func()) []string {
	t.Helper()
	return slices.DeleteFunc(r.redis.Commands(t, do), func(command string) bool {
		return strings.Contains(command, "{replicas}") || strings.HasPrefix(command, `"hello"`) ||
			strings.HasPrefix(command, `"client"`)
	})
}
