package redisdb_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

// setting changes a setting of the server.
func setting(t *testing.T, client *redis.Client, name, value string) {
	t.Helper()
	if err := client.ConfigSet(t.Context(), name, value).Err(); err != nil {
		t.Fatal(err)
	}
}

// TestRoom: Room finds out whether Redis accepts new data, and writes nothing.
func TestRoom(t *testing.T) {
	server, master := redistest.Start(t), redistest.Start(t)
	client := server.Client()
	defer client.Close()
	for _, tt := range []struct {
		name       string
		begin, end func()
		want       error
	}{
		{"full", func() { setting(t, client, "maxmemory", "1") }, func() { setting(t, client, "maxmemory", "0") },
			redisdb.ErrFull},
		{"not enough replicas", func() { setting(t, client, "min-replicas-to-write", "1") },
			func() { setting(t, client, "min-replicas-to-write", "0") }, redisdb.ErrDown},
		{"read-only", func() { server.Follow(t, master) }, func() { server.Lead(t) }, redisdb.ErrDown},
		{"killed", server.Kill, func() { server.Restart(t) }, redisdb.ErrDown},
	} {
		tt.begin()
		cfg := redisdb.Config{URL: mcp.Secret(server.URL())}
		if err := open(t, cfg).Room(t.Context()); !errors.Is(err, tt.want) || !errors.Is(err, redisdb.ErrDown) ||
			errors.Is(err, redisdb.ErrFull) != (tt.want == redisdb.ErrFull) {
			t.Errorf("%s: %v", tt.name, err)
		}
		tt.end()
		if err := open(t, cfg).Room(t.Context()); err != nil {
			t.Errorf("%s, and over: %v", tt.name, err)
		}
	}
	if n, err := client.DBSize(t.Context()).Result(); err != nil || n != 0 {
		t.Errorf("%d keys are there, %v", n, err)
	}
}

// TestFull: Full stays true until Redis accepts new data again, even while other operations
// succeed.
func TestFull(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	defer client.Close()
	var log bytes.Buffer
	db, err := redisdb.Open(redisdb.Config{URL: mcp.Secret(server.URL())}, slog.New(slog.NewTextHandler(&log, nil)), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	adding, other := redisdb.NewScript("#!lua\nreturn redis.call('SET', KEYS[1], '1')"),
		redisdb.NewScript("#!lua flags=allow-oom\nreturn redis.call('GET', KEYS[1])")
	run := func(s *redisdb.Script) error {
		t.Helper()
		_, err := db.Run(t.Context(), s, []string{db.Key("k")})
		return err
	}
	setting(t, client, "maxmemory", "1")
	if err := run(adding); !errors.Is(err, redisdb.ErrFull) || !db.Full() {
		t.Errorf("adding to a full Redis: %v, full %t", err, db.Full())
	}
	db.Calm() // pretend that nothing has failed for longer than calm
	if err := run(other); err != nil || !db.Full() {
		t.Errorf("reading: %v, full %t", err, db.Full())
	}
	if text := log.String(); !strings.Contains(text, "redis is full") || strings.Contains(text, "available again") {
		t.Errorf("the log while it is full:\n%s", text)
	}
	setting(t, client, "maxmemory", "0")
	if err := run(adding); err != nil || db.Full() {
		t.Errorf("with room: %v, full %t", err, db.Full())
	}
	if !strings.Contains(log.String(), "redis is available again") {
		t.Errorf("the log with room:\n%s", log.String())
	}
}
