package session_test

import (
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/faultproxy"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// Redis alone decides how long a session that nobody holds lasts. No replica
// tells it the time.
func TestRedisClocks(t *testing.T) {
	server := redistest.Start(t)
	told := server.Times(t, func() {
		s := newReplica(t, server.URL(), session.Config{}, session.Deps{})
		r := s.create(t)
		if _, err := s.Update(t.Context(), r.User, r.ID, func(r *session.Record) { r.LogLevel = "debug" }); err != nil {
			t.Error(err)
		}
		if _, err := s.Log().Begin(t.Context(), r.Key(), "s", []byte("1"), []byte("event")); err != nil {
			t.Error(err)
		}
		if err := s.Log().End(t.Context(), r.Key(), "s"); err != nil {
			t.Error(err)
		}
		if err := s.Grants().Grant(t.Context(), r.Key(), map[string]string{"tool": "digest"}, time.Hour); err != nil {
			t.Error(err)
		}
		if err := s.Keeper().Save(t.Context(), r.Key(), "crm", []byte("kept")); err != nil {
			t.Error(err)
		}
		s.skew.Add(int64(time.Minute))
		s.want(t, "in use", r, nil)
		s.Sweep()
		s.drop(r.Key())
		s.want(t, "held anew", r, nil)
		s.drop(r.Key())
		server.Advance(t, time.Hour)
		s.want(t, "when Redis says that it is over", r, session.ErrNotFound)
	})
	if len(told) > 0 {
		t.Errorf("Redis is told the time: %q", told)
	}
}

// Without Redis a session continues where it is known, but not forever: replicas that
// reach Redis may find it expired.
func TestRedisKnown(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	link, err := faultproxy.Start(server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	s := newReplica(t, "redis://"+link.Addr(), session.Config{}, session.Deps{})
	r := s.create(t)
	link.Cut()
	for range 7 {
		s.skew.Add(int64(5 * time.Minute))
		s.want(t, "for as long as Redis keeps an unused session", r, nil)
	}
	s.skew.Add(int64(5 * time.Minute))
	s.want(t, "after that, though it was in use", r, session.ErrUnavailable)
	link.Pass()
	eventually(t, "it is there again", func() bool {
		_, err := s.Get(t.Context(), r.User, r.ID)
		return err == nil
	})
}
