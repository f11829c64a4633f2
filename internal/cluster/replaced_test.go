package cluster

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

// TestReplaced: a replica at whose address a newer one answers has gone, and so has one that
// gave its lease up, whatever still takes connections there. Nobody waits for a lease.
func TestReplaced(t *testing.T) {
	long := func(_ *Config, _ *Deps, t *times) { t.lease, t.beat = time.Hour, time.Minute }
	for name, end := range map[string]func(*testing.T, *house, *redistest.Server){
		"another one answers": func(t *testing.T, a *house, redis *redistest.Server) {
			a.crash()
			startHouse(t, redis, sayWho, long, func(c *Config, _ *Deps, _ *times) { c.Listen = a.link.listener.Addr().String() })
		},
		"its lease is given up": func(t *testing.T, a *house, _ *redistest.Server) { a.members.resign(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			redis := redistest.Start(t)
			a, b := startHouse(t, redis, sayWho, long), startHouse(t, redis, sayWho, long)
			a.own(t, some("x"))
			o := b.own(t, some("x"))
			b.members.mu.Lock()
			b.members.tenure.since -= 2 * time.Hour // as if it had held its lease for long
			b.members.mu.Unlock()
			if name == "its lease is given up" {
				b.members.peer(a.Self()).digest = digestOf([]byte("what is there in front of it"))
			}
			end(t, a, redis)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := b.Forward(httptest.NewRecorder(), httptest.NewRequest("GET", "/u1/x", nil).WithContext(ctx), o, nil)
			if !errors.Is(err, ErrGone) {
				t.Fatalf("Forward: %v", err)
			}
			if o := b.own(t, some("x")); !o.Here() {
				t.Errorf("Own: %+v", o)
			}
		})
	}
}
