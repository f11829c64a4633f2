package session_test

import (
	"errors"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/faultproxy"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// H/178: a change of which Redis did not say in time that it was made is seen, once it is,
// by the replica that made it.
func TestUpdateUnsure(t *testing.T) {
	server := redistest.Start(t)
	link, err := faultproxy.Start(server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	s := frozen(t, "redis://"+link.Addr()) // no copy ever is too old
	r := s.create(t)
	level := func(level string, before func()) error {
		_, err := s.Update(t.Context(), r.User, r.ID, func(r *session.Record) { before(); r.LogLevel = level })
		return err
	}
	eventually(t, "a change", func() bool { return level("debug", func() {}) == nil }) // and Redis has the script
	eventually(t, "a change without an answer", func() bool {
		return errors.Is(level("error", link.BlackHole), session.ErrUnsure)
	})
	link.Pass() // what was held back arrives
	eventually(t, "H/178 the change is seen", func() bool {
		got, err := s.Get(t.Context(), r.User, r.ID)
		return err == nil && got.LogLevel == "error"
	})
}

// What was shown in a session is known for as long as that lasts, whatever replica its
// client uses meanwhile.
func TestGrantsLastAsTheirSession(t *testing.T) {
	server := redistest.Start(t)
	a := newReplica(t, server.URL(), session.Config{}, session.Deps{})
	r := a.create(t)
	if err := a.Grants().Grant(t.Context(), r.Key(), map[string]string{"tool": "digest"}, 0); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		server.Advance(t, 20*time.Minute)
		a.age()
		a.want(t, "in use", r, nil)
	}
	b := newReplica(t, server.URL(), session.Config{}, session.Deps{})
	if ok, err := b.Grants().Granted(t.Context(), r.Key(), "tool", "digest"); !ok || err != nil {
		t.Errorf("H/46 what was shown an hour ago at another replica: %t, %v", ok, err)
	}
}

// While a session that has ended is taken down, which may wait for its streams, messages of
// other replicas are heard.
func TestEndHoldsUpNobody(t *testing.T) {
	server := redistest.Start(t)
	ending, goOn, heard := make(chan struct{}), make(chan struct{}), make(chan struct{})
	a := newReplica(t, server.URL(), session.Config{}, session.Deps{})
	b := newReplica(t, server.URL(), session.Config{}, session.Deps{
		OnEnd:  func(string) { close(ending); <-goOn },
		OnMail: func([]byte) { close(heard) },
	})
	defer close(goOn) // before b is closed
	r := a.create(t)
	b.want(t, "at b", r, nil)
	if err := a.Delete(t.Context(), r.User, r.ID); err != nil {
		t.Fatal(err)
	}
	await := func(what string, c <-chan struct{}) {
		t.Helper()
		select {
		case <-c:
		case <-time.After(patience):
			t.Fatalf("%s: it does not happen", what)
		}
	}
	await("b ends the session", ending)
	if err := a.Send(t.Context(), b.Self(), []byte("x")); err != nil {
		t.Fatal(err)
	}
	await("b hears a message meanwhile", heard)
	b.want(t, "at b meanwhile", r, session.ErrNotFound)
}
