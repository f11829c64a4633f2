package session_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

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

// A thousand clients that begin sessions at once, at a Redis that takes its time, all begin
// one: much to do is no outage.
func TestManyBeginAtOnce(t *testing.T) {
	proxy, err := faultproxy.Start(redistest.Start(t).Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	s := newReplica(t, "redis://"+proxy.Addr(), session.Config{}, session.Deps{})
	proxy.Delay(4 * time.Millisecond)
	var all sync.WaitGroup
	for i := range 1000 {
		all.Go(func() {
			if _, err := s.Create(t.Context(), session.Record{User: fmt.Sprint("user-", i), Revision: "r1"}); err != nil {
				t.Errorf("session %d: %v", i, err)
			}
		})
	}
	all.Wait()
}
