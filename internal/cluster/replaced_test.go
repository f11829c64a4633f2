package cluster

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

// TestReplaced: a replica has gone if a newer one answers at its address, or if its lease says
// that it has left, even if something still accepts connections there. Nobody waits for the
// lease to end, not even a replica that has just started.
func TestReplaced(t *testing.T) {
	long := func(_ *Config, _ *Deps, t *times) { t.lease, t.beat = time.Hour, time.Minute }
	for name, end := range map[string]func(*testing.T, *house, *redistest.Server){
		"another one answers": func(t *testing.T, a *house, redis *redistest.Server) {
			a.crash()
			startHouse(t, redis, sayWho, long, func(c *Config, _ *Deps, _ *times) { c.Listen = a.link.listener.Addr().String() })
		},
		"it has left": func(t *testing.T, a *house, _ *redistest.Server) { a.members.release(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			redis := redistest.Start(t)
			a, b := startHouse(t, redis, sayWho, long), startHouse(t, redis, sayWho, long)
			a.own(t, some("x"))
			o := b.own(t, some("x"))
			if name == "it has left" {
				b.members.peer(a.Self()).digest = digestOf([]byte("what is there in front of it"))
			}
			end(t, a, redis)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := b.Forward(httptest.NewRecorder(), httptest.NewRequest("GET", "/u1/x", nil).WithContext(ctx),
				o.Replica, "u1:x", nil)
			if !errors.Is(err, ErrGone) {
				t.Fatalf("Forward: %v", err)
			}
			if o := b.own(t, some("x")); !o.Here() {
				t.Errorf("Own: %+v", o)
			}
		})
	}
}

// TestLeft: with its next renewal a replica learns who has left, and takes over their homes.
func TestLeft(t *testing.T) {
	long := func(_ *Config, _ *Deps, t *times) { t.lease, t.beat = time.Hour, time.Minute }
	redis := redistest.Start(t)
	a, b := startHouse(t, redis, sayWho, long), startHouse(t, redis, sayWho, long)
	a.own(t, some("x"))
	a.Close(t.Context())
	b.members.look(t.Context(), b.members.now())
	if o := b.own(t, some("x")); !o.Here() || o.Former != a.Self() {
		t.Errorf("Own: %+v", o)
	}
	if peers := b.Peers(); len(peers) > 0 {
		t.Errorf("it is still among %+v", peers)
	}
	if peers, err := Check(t.Context(), b.members.db, []byte(testKey), nil); err != nil || len(peers) != 1 {
		t.Errorf("Check: %+v %v", peers, err)
	}
}

// TestEnding: a replica that is ending gives up a home when it is asked for it.
func TestEnding(t *testing.T) {
	redis := redistest.Start(t)
	a, b := startHouse(t, redis, sayWho), startHouse(t, redis, sayWho)
	if who := a.get(t, "/u1/x"); who != a.Self() {
		t.Fatalf("%s answers", who)
	}
	o := b.own(t, some("x"))
	a.link.drain(t.Context())
	if err := b.Forward(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "GET", "/u1/x", nil),
		o.Replica, "u1:x", nil); !errors.Is(err, ErrMoved) {
		t.Fatalf("Forward: %v", err)
	}
	if o := b.own(t, some("x")); !o.Here() {
		t.Errorf("Own: %+v", o)
	}
}
