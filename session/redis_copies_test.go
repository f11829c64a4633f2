package session_test

import (
	"errors"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/faultproxy"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// A change that Redis does not confirm in time holds at the owner, and is written again
// with the next one.
func TestUpdateUnsure(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	link, err := faultproxy.Start(server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	s := newReplica(t, "redis://"+link.Addr(), session.Config{}, session.Deps{})
	r := s.create(t)
	level := func(level string, before func()) error {
		_, err := s.Update(t.Context(), r.User, r.ID, func(r *session.Record) { before(); r.LogLevel = level })
		return err
	}
	eventually(t, "a change", func() bool { return level("debug", func() {}) == nil }) // so that Redis has the script
	eventually(t, "a change without an answer", func() bool {
		return errors.Is(level("error", link.BlackHole), session.ErrUnsure)
	})
	if got, err := s.Get(t.Context(), r.User, r.ID); err != nil || got.LogLevel != "error" {
		t.Errorf("the change does not hold: %q, %v", got.LogLevel, err)
	}
	link.Cut() // what was held back never arrives
	link.Pass()
	eventually(t, "the change is made again", func() bool { return level("error", func() {}) == nil })
	next := newReplica(t, server.URL(), session.Config{}, session.Deps{})
	if got, err := next.Get(t.Context(), r.User, r.ID); err != nil || got.LogLevel != "error" {
		t.Errorf("the next owner: %q, %v", got.LogLevel, err)
	}
}

// What was shown in a session is known for as long as the session lasts, whichever replica its
// client uses.
func TestGrantsLastAsTheirSession(t *testing.T) {
	server := redistest.Start(t)
	a := newReplica(t, server.URL(), session.Config{}, session.Deps{})
	r := a.create(t)
	if err := a.Grants().Grant(t.Context(), r.Key(), map[string]string{"tool": "digest"}, 0); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		server.Advance(t, 20*time.Minute)
		a.skew.Add(int64(20 * time.Minute))
		a.want(t, "in use", r, nil)
		a.Sweep()
	}
	b := newReplica(t, server.URL(), session.Config{}, session.Deps{})
	if ok, err := b.Grants().Granted(t.Context(), r.Key(), "tool", "digest"); !ok || err != nil {
		t.Errorf("what was shown an hour ago at another replica: %t, %v", ok, err)
	}
}
