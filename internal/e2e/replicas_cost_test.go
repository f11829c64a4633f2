package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// TestCallsCostNoRedis: a call of a session costs its owner no Redis command, nor does one of
// a client without sessions.
func TestCallsCostNoRedis(t *testing.T) {
	r := replicated(t, withoutStreams)
	for _, revision := range wire.Revisions() {
		c := raw(t, r.url, revision.Name)
		for _, s := range r.servers {
			t.Run("client "+revision.Name+" server "+s.revision.Name, func(t *testing.T) {
				s.asks()
				owner := r.at(c, 0)
				mustCall(t, owner, "tools/call", s.params("tools/call")) // which makes it that
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

// TestForwardedCallsCostNoRedis: nor does one that another replica forwards, once it knows
// where.
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

// withoutStreams has calls be answered without event streams, which are kept in Redis.
func withoutStreams(cfg *gateway.Config) { cfg.HTTP.StreamAfter = time.Minute }

// commands are what Redis is asked while something is done, but for leases, which are renewed
// all the time, and what a connection begins with.
func commands(t *testing.T, r *several, do func()) []string {
	t.Helper()
	return slices.DeleteFunc(r.redis.Commands(t, do), func(command string) bool {
		return strings.Contains(command, "{replicas}") || strings.HasPrefix(command, `"hello"`) || strings.HasPrefix(command, `"client"`)
	})
}
