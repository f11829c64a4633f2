package session_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/session"
	"github.com/redis/go-redis/v9"
)

// dump returns every key and value in Redis as one text.
func dump(t *testing.T, client *redis.Client) string {
	t.Helper()
	var all strings.Builder
	keys, err := client.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		value, err := client.Dump(t.Context(), key).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
		all.WriteString(key + " " + value + "\n")
		if fields, err := client.HGetAll(t.Context(), key).Result(); err == nil { // DUMP may compress these
			for name, field := range fields {
				all.WriteString(name + " " + field + "\n")
			}
		}
	}
	return all.String()
}

// The contents of Redis reveal nothing that a client or a server has said.
func TestRedisHoldsNothingInClear(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	defer client.Close()
	s := newReplica(t, server.URL(), session.Config{}, session.Deps{})
	const canary = "canary"
	r, err := s.Create(t.Context(), session.Record{User: "alice", Client: canary + "-client", Revision: "r1",
		Initialized: true,
		ClientInfo:  mcp.Raw(`{"name":"canary-info"}`), Caps: mcp.Raw(`{"canary-caps":{}}`)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Update(t.Context(), r.User, r.ID,
		func(r *session.Record) { r.Subscriptions = []string{canary + "://x"} }); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Log().Begin(t.Context(), r.Key(), "c-1", []byte(`"canary-id"`),
		[]byte(strings.Repeat(canary, 100))); err != nil {
		t.Fatal(err)
	}
	if err := s.Grants().Grant(t.Context(), r.Key(), map[string]string{canary + "-tool": canary + "-digest"},
		0); err != nil {
		t.Fatal(err)
	}
	if err := s.Keeper().Save(t.Context(), r.Key(), canary+"-server", []byte(canary)); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(dump(t, client), canary) {
		t.Error("it stands in Redis")
	}
}

// TestLostEventsAreNotForged: if Redis has lost its data, a stream is unknown, and nobody is said to
// have written into Redis.
func TestLostEventsAreNotForged(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	defer client.Close()
	var said strings.Builder
	s := newReplica(t, server.URL(), session.Config{},
		session.Deps{Log: slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelError}))})
	r := s.create(t)
	if _, err := s.Log().Append(t.Context(), r.Key(), "s", []byte("said")); err != nil {
		t.Fatal(err)
	}
	client.FlushAll(t.Context())
	if _, _, _, err := s.Log().Read(t.Context(), r.Key(), "s", 0); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("Read: %v", err)
	}
	if said.Len() > 0 {
		t.Error(said.String())
	}
}

// Write access to Redis is not enough to forge an event, or to move a sealed event to another
// place.
func TestNobodyMakesEvents(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	defer client.Close()
	ctx := context.Background()
	set := func(key func(session.Record) string, r session.Record, field, value string) error {
		return client.HSet(ctx, key(r), field, value).Err()
	}
	tests := []struct {
		name  string
		spoil func(key func(session.Record) string, r, other session.Record, first string) error
		gone  int // streams that seem not to exist, or lack events
	}{
		{"one in clear", func(key func(session.Record) string, r, _ session.Record, _ string) error {
			return set(key, r, "s:1", `{"jsonrpc":"2.0","id":1,"result":{}}`)
		}, 1},
		{"a newer one, that came before", func(key func(session.Record) string, r, _ session.Record, first string) error {
			return set(key, r, "s:9", first)
		}, 0},
		{"one of another stream", func(key func(session.Record) string, r, _ session.Record, first string) error {
			return set(key, r, "t:2", first)
		}, 1},
		{"one of another session", func(key func(session.Record) string, _, other session.Record, first string) error {
			return set(key, other, "s:1", first)
		}, 1},
		{"a stream in clear", func(key func(session.Record) string, r, _ session.Record, _ string) error {
			return client.HSet(ctx, strings.Replace(key(r), ":e:", ":m:", 1), "s", `{"born":0,"last":1}`).Err()
		}, 1},
		{"one that is taken away", func(key func(session.Record) string, r, _ session.Record, _ string) error {
			return client.HDel(ctx, key(r), "s:1").Err()
		}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newReplica(t, server.URL(), session.Config{}, session.Deps{})
			r, other := s.create(t), s.create(t)
			for _, at := range []struct{ key, stream string }{{r.Key(), "s"}, {r.Key(), "t"}, {other.Key(), "s"}} {
				if _, err := s.Log().Append(t.Context(), at.key, at.stream, []byte("said")); err != nil {
					t.Fatal(err)
				}
			}
			key := func(r session.Record) string { return "gatehouse:e:{alice}:" + r.ID }
			first, err := client.HGet(t.Context(), key(r), "s:1").Result()
			if err != nil {
				t.Fatal(err)
			}
			if err := tt.spoil(key, r, other, first); err != nil {
				t.Fatal(err)
			}
			next := newReplica(t, server.URL(), session.Config{}, session.Deps{})
			gone := 0
			for _, at := range []struct{ key, stream string }{{r.Key(), "s"}, {r.Key(), "t"}, {other.Key(), "s"}} {
				events, _, _, err := next.Log().Read(t.Context(), at.key, at.stream, 0)
				switch {
				case (errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrGap)) && events == nil:
					gone++
				case err != nil || len(events) != 1 || string(events[0].Data) != "said":
					t.Errorf("%s: %d events, %v", at.stream, len(events), err)
				}
			}
			if gone != tt.gone {
				t.Errorf("%d streams are as if they were not there, or lack events, want %d", gone, tt.gone)
			}
		})
	}
}

// Nobody can forge a grant, or move it to another tool.
func TestNobodyMakesGrants(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	defer client.Close()
	one, other := newReplica(t, server.URL(), session.Config{}, session.Deps{}),
		newReplica(t, server.URL(), session.Config{}, session.Deps{})
	r := one.create(t)
	key := "gatehouse:g:{alice}:" + r.ID
	if err := one.Grants().Grant(t.Context(), r.Key(), map[string]string{"a": "x", "b": "x"}, 0); err != nil {
		t.Fatal(err)
	}
	fields, err := client.HGetAll(t.Context(), key).Result()
	if err != nil || len(fields) != 2 {
		t.Fatal(err, fields)
	}
	swapped := make(map[string]string)
	var names []string
	for name := range fields {
		names = append(names, name)
	}
	swapped[names[0]], swapped[names[1]] = fields[names[1]], fields[names[0]]
	for what, values := range map[string]map[string]string{"swapped": swapped,
		"in clear": {"c": "x 0", names[0]: "x 0", names[1]: "x 0"}} {
		if err := client.HSet(t.Context(), key, values).Err(); err != nil {
			t.Fatal(err)
		}
		for _, tool := range []string{"a", "b", "c"} {
			if ok, err := other.Grants().Granted(t.Context(), r.Key(), tool, "x"); ok || err != nil {
				t.Errorf("%s: %s counts as shown: %t, %v", what, tool, ok, err)
			}
		}
	}
}

// While sessions.key is replaced, replicas that seal with either key and accept the other work
// together. A replica without the old key cannot open what it has sealed.
func TestKeysAreReplaced(t *testing.T) {
	server := redistest.Start(t)
	const before, after = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"
	with := func(key mcp.Secret, previous ...mcp.Secret) *replica {
		t.Helper()
		return newReplica(t, server.URL(), session.Config{Key: key, PreviousKeys: previous}, session.Deps{})
	}
	first := with(before, after)
	r, err := first.Create(t.Context(), session.Record{User: "alice", Revision: "r1", Initialized: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Log().Append(t.Context(), r.Key(), "s", []byte("one")); err != nil {
		t.Fatal(err)
	}
	second := with(after, before)
	if _, err := second.Get(t.Context(), r.User, r.ID); err != nil {
		t.Errorf("a session of the old key: %v", err)
	}
	if _, err := second.Log().Append(t.Context(), r.Key(), "s", []byte("two")); err != nil {
		t.Fatal(err)
	}
	first.drop(r.Key())
	for name, s := range map[string]*replica{"old": first, "new": second} {
		events, _, _, err := s.Log().Read(t.Context(), r.Key(), "s", 0)
		if err != nil || len(events) != 2 || string(events[0].Data)+string(events[1].Data) != "onetwo" {
			t.Errorf("the one with the %s key reads %d events, %v", name, len(events), err)
		}
	}
	if _, err := with(after).Get(t.Context(), r.User, r.ID); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("without the old key: %v", err)
	}
}
