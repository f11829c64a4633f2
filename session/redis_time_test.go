package session_test

import (
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/faultproxy"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// H/190, H/244: how long a session lasts is Redis's to say: replicas whose clocks go wrong end
// none early, and tell Redis no time.
func TestRedisClocks(t *testing.T) {
	server := redistest.Start(t)
	told := server.Times(t, func() {
		a := newReplica(t, server.URL(), session.Config{}, session.Deps{})
		fast := newReplica(t, server.URL(), session.Config{}, session.Deps{})
		slow := newReplica(t, server.URL(), session.Config{}, session.Deps{})
		r, ended := a.create(t), a.create(t)
		for _, s := range []*replica{fast, slow} {
			s.want(t, "H/190 with a right clock", r, nil)
		}
		fast.skew.Add(int64(48 * time.Hour))
		slow.skew.Add(-int64(48 * time.Hour))
		for name, s := range map[string]*replica{"fast": fast, "slow": slow} {
			s.Sweep()
			s.want(t, "H/190 with a clock that is "+name, r, nil)
			if _, err := s.Update(t.Context(), r.User, r.ID, func(r *session.Record) { r.LogLevel = name }); err != nil {
				t.Errorf("H/190 a change with a clock that is %s: %v", name, err)
			}
			if _, err := s.Log().Append(t.Context(), r.Key(), name, []byte("event")); err != nil {
				t.Errorf("H/190 an event with a clock that is %s: %v", name, err)
			}
			if err := s.Log().End(t.Context(), r.Key(), name); err != nil {
				t.Errorf("H/190 the end of a stream with a clock that is %s: %v", name, err)
			}
			if err := s.Grants().Grant(t.Context(), r.Key(), map[string]string{"tool": "digest"}, time.Hour); err != nil {
				t.Error(err)
			}
			if ok, err := a.Grants().Granted(t.Context(), r.Key(), "tool", "digest"); !ok || err != nil {
				t.Errorf("H/190 what was shown with a clock that is %s: %t, %v", name, ok, err)
			}
		}
		if err := fast.Delete(t.Context(), ended.User, ended.ID); err != nil {
			t.Error(err)
		}
		a.want(t, "H/190 at the end", r, nil)
		server.Advance(t, time.Hour)
		for _, s := range []*replica{fast, slow} {
			s.skew.Add(int64(time.Hour))
			s.want(t, "H/190 when Redis says that it is over", r, session.ErrNotFound)
		}
	})
	if len(told) > 0 {
		t.Errorf("H/190 Redis is told the time: %q", told)
	}
}

// H/178: without Redis a session goes on where it is known, but not for ever: where others
// can ask Redis, it may be over.
func TestRedisKnown(t *testing.T) {
	server := redistest.Start(t)
	link, err := faultproxy.Start(server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	s := newReplica(t, "redis://"+link.Addr(), session.Config{}, session.Deps{})
	r := s.create(t)
	link.Cut()
	for range 5 {
		s.skew.Add(int64(5 * time.Minute))
		s.want(t, "H/178 for as long as Redis keeps an unused session", r, nil)
	}
	s.skew.Add(int64(5 * time.Minute))
	s.want(t, "H/178 after that, though it was in use", r, session.ErrUnavailable)
	link.Pass()
	eventually(t, "H/178 it is there again", func() bool {
		_, err := s.Get(t.Context(), r.User, r.ID)
		return err == nil
	})
}
