package session

import (
	"context"
	"errors"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

func openRedis(t *testing.T, server *redistest.Server) *Redis {
	t.Helper()
	s, err := NewRedis(Config{Store: StoreRedis, Redis: redisdb.Config{URL: mcp.Secret(server.URL())},
		Key: "0123456789abcdef0123456789abcdef"}, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	owners, err := cluster.New(cluster.Config{Alone: true}, cluster.Deps{DB: s.db, Idle: s.cfg.Kept()})
	if err != nil {
		t.Fatal(err)
	}
	s.Open(Deps{Homes: home.Config{Owners: owners}})
	t.Cleanup(func() {
		s.homes.Close(context.Background())
		s.Close()
	})
	return s
}

// A write that was delayed and arrives after a later one changes nothing. A write that
// arrives twice counts once.
func TestLateWrite(t *testing.T) {
	server := redistest.Start(t)
	s := openRedis(t, server)
	client := server.Client()
	defer client.Close()
	r, err := s.Create(t.Context(), Record{User: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	k := home.Key{User: r.User, ID: r.ID}
	for _, write := range []struct {
		number      int
		value, want string
	}{{1, "one", "one"}, {3, "three", "three"}, {2, "two", "three"}, {3, "three", "three"}, {4, "four", "four"}} {
		if got, err := s.step(t.Context(), addScript, k, "", write.number, -1, 1, recordKey, "v", write.value); err != nil ||
			got != int64(1) {
			t.Fatalf("write %d: %v, %v", write.number, got, err)
		}
		if got, err := client.HGet(t.Context(), s.RecordKey(k), "v").Result(); err != nil || got != write.want {
			t.Errorf("after write %d: %q, %v, want %q", write.number, got, err, write.want)
		}
	}
	if _, err := s.homes.Use(t.Context(), k); !errors.Is(err, ErrNotFound) {
		t.Errorf("what stands there now is no record: %v", err)
	}
}

// TestEventLogsInRedis: Redis holds no more of one user's logs than a replica has room for.
// What exceeds it is a gap.
func TestEventLogsInRedis(t *testing.T) {
	server := redistest.Start(t)
	s := openRedis(t, server)
	client := server.Client()
	defer client.Close()
	r, err := s.Create(t.Context(), Record{User: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	h, err := s.homes.Use(t.Context(), home.Key{User: r.User, ID: r.ID})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Done()
	s.logRoom.Outside("", "alice").Hold(maxLogBytes/2 - 5) // as if another session of the user held that much
	for _, tt := range []struct {
		event string
		want  error
	}{{"fits", nil}, {"too much", ErrGap}} {
		seq, err := s.Log().Append(t.Context(), h, "s", []byte(tt.event))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := s.Log().Read(t.Context(), h, "s", seq-1); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.event, err, tt.want)
		}
	}
	if n, err := client.HLen(t.Context(), "gatehouse:e:{alice}:"+r.ID).Result(); err != nil || n != 0 {
		t.Errorf("%d events stand in Redis, %v", n, err)
	}
	if err := h.End(t.Context(), home.Ended); err != nil {
		t.Fatal(err)
	}
	if got := s.logRoom.Held(); got != maxLogBytes/2-5 {
		t.Errorf("%d bytes are counted after the session's end", got)
	}
}
