package session_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
	"github.com/gatehouse-mcp/gatehouse/session"
)

func TestRedisResults(t *testing.T) {
	server := redistest.Start(t)
	size := len(strings.Repeat("x", 1000)) + seal.Overhead
	cfg := session.Config{Results: session.ResultsConfig{MaxPerUser: 2, Max: 3, MaxUserBytes: int64(3 * size / 2), MaxBytes: int64(3 * size)}}
	here, there := newReplica(t, server.URL(), cfg, session.Deps{}).Results(), newReplica(t, server.URL(), cfg, session.Deps{}).Results()
	keep := func(on *session.RedisResults, user, id, value string, ttl time.Duration, want bool) {
		t.Helper()
		if kept, err := on.Keep(t.Context(), user, id, []byte(value), ttl); kept != want || err != nil {
			t.Errorf("%s %s of %d bytes: kept %v, %v", user, id, len(value), kept, err)
		}
	}
	want := func(on *session.RedisResults, user, id, value string) {
		t.Helper()
		if got, err := on.Load(t.Context(), user, id); string(got) != value || err != nil {
			t.Errorf("%s %s: %d bytes, %v; want %d", user, id, len(got), err, len(value))
		}
	}
	large := strings.Repeat("x", 1000)
	keep(here, "u", "1", large, time.Minute, true)
	want(there, "u", "1", large)
	want(there, "v", "1", "")
	want(there, "u", "2", "")
	keep(there, "u", "2", large, time.Minute, false) // too many bytes of this user
	keep(there, "u", "2", "a", time.Hour, true)
	keep(here, "u", "3", "a", time.Minute, false) // too many of this user
	keep(here, "u", "1", large, 2*time.Minute, true)
	keep(here, "v", "1", large, 2*time.Minute, true)
	keep(there, "w", "1", "a", time.Minute, false) // too many in all
	server.Advance(t, 90*time.Second)
	want(here, "u", "1", large) // kept anew
	server.Advance(t, time.Minute)
	want(here, "u", "1", "")
	want(here, "u", "2", "a")
	keep(there, "w", "1", large, time.Minute, true) // there is room again
	keep(there, "v", "2", large, time.Minute, true)
	keep(there, "x", "1", large, time.Minute, false) // too many in all
	server.Advance(t, 2*time.Hour)
	keep(there, "x", "1", large, time.Minute, true)
	want(here, "x", "1", large)
}
