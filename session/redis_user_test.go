package session_test

import (
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// asUser returns the configuration of a Redis at some servers, with that user.
func asUser(t *testing.T, nodes ...*redistest.Server) redisdb.Config {
	t.Helper()
	redistest.AddUser(t, "../docs/configuration.md", nodes...)
	return redisdb.Config{Username: redistest.Username, Password: redistest.Password}
}

// usesAll uses what the suite does not.
func usesAll(t *testing.T, s *replica) {
	t.Helper()
	r := s.create(t)
	if err := s.Grants().Grant(t.Context(), r.Key(), map[string]string{"a": "x"}, 0); err != nil {
		t.Error(err)
	}
	if ok, err := s.Grants().Granted(t.Context(), r.Key(), "other", "x"); ok || err != nil {
		t.Error("what was not shown:", ok, err)
	}
	for _, value := range [][]byte{[]byte("kept"), nil} {
		if err := s.Keeper().Save(t.Context(), r.Key(), "crm", value); err != nil {
			t.Error(err)
		}
		if got, err := s.Keeper().Load(t.Context(), r.Key(), "crm"); string(got) != string(value) || err != nil {
			t.Errorf("kept: %q, %v", got, err)
		}
	}
}

// TestRedisTLS: everything works over TLS, as that user and with a client certificate.
func TestRedisTLS(t *testing.T) {
	server := redistest.Start(t)
	place, tls := asUser(t, server), server.ServeTLS(t)
	place.CAFile, place.CertFile, place.KeyFile = tls.CAFile, tls.CertFile, tls.KeyFile
	usesAll(t, newReplica(t, "rediss://"+tls.Addr, session.Config{Redis: place}, session.Deps{}))
}
