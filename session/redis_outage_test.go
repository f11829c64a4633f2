package session_test

import (
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/faultproxy"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// What this replica knows of a session whose client has yet to say that it is initialized is
// too little to go on with: others may know more.
func TestRedisKnownInitialized(t *testing.T) {
	server := redistest.Start(t)
	link, err := faultproxy.Start(server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(link.Close)
	a := newReplica(t, server.URL(), session.Config{}, session.Deps{})
	b := newReplica(t, "redis://"+link.Addr(), session.Config{}, session.Deps{})
	r, err := b.Create(t.Context(), session.Record{User: "alice", Revision: "r1"})
	if err != nil {
		t.Fatal(err)
	}
	b.want(t, "not initialized yet", r, nil)
	if _, err := a.Update(t.Context(), r.User, r.ID, func(r *session.Record) { r.Initialized = true }); err != nil {
		t.Fatal(err)
	}
	link.Cut()
	b.want(t, "initialized elsewhere, it seems", r, session.ErrUnavailable)
	link.Pass()
	eventually(t, "it is there again", func() bool {
		got, err := b.Get(t.Context(), r.User, r.ID)
		return err == nil && got.Initialized
	})
	link.Cut()
	r.Initialized = true
	b.want(t, "known to be initialized", r, nil)
}
