package largeresults

import (
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

const testSecret = "0123456789abcdef0123456789abcdef"

func open(t *testing.T, cfg redisdb.Config, url string, most Bounds) *Redis {
	t.Helper()
	cfg.URL = mcp.Secret(url)
	db, err := redisdb.Open(cfg, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	key, err := seal.NewKey([]byte(testSecret), "result")
	if err != nil {
		t.Fatal(err)
	}
	return NewRedis(db, key, most)
}

// TestRedis: replicas share the results and their bounds. Only the clock of Redis counts.
func TestRedis(t *testing.T) {
	server := redistest.Start(t)
	large := strings.Repeat("x", 1000)
	size := len(large) + seal.Overhead
	most := Bounds{MaxPerUser: 2, Max: 3, MaxUserBytes: int64(3 * size / 2), MaxBytes: int64(3 * size)}
	here, there := open(t, redisdb.Config{}, server.URL(), most), open(t, redisdb.Config{}, server.URL(), most)
	told := server.Times(t, func() {
		keep(t, here, "u", "1", large, time.Minute, true)
		want(t, there, "u", "1", large)
		want(t, there, "v", "1", "")
		want(t, there, "u", "2", "")
		keep(t, there, "u", "2", large, time.Minute, false) // too many bytes of this user
		keep(t, there, "u", "2", "a", time.Hour, true)
		keep(t, here, "u", "3", "a", time.Minute, false) // too many of this user
		keep(t, here, "u", "1", large, 2*time.Minute, true)
		keep(t, here, "v", "1", large, 2*time.Minute, true)
		keep(t, there, "w", "1", "a", time.Minute, false) // too many in all
		server.Advance(t, 90*time.Second)
		want(t, here, "u", "1", large) // kept anew
		server.Advance(t, time.Minute)
		want(t, here, "u", "1", "")
		want(t, here, "u", "2", "a")
		keep(t, there, "w", "1", large, time.Minute, true) // there is room again
		keep(t, there, "v", "2", large, time.Minute, true)
		keep(t, there, "x", "1", large, time.Minute, false) // too many in all
		server.Advance(t, 2*time.Hour)
		keep(t, there, "x", "1", large, time.Minute, true)
		want(t, here, "x", "1", large)
	})
	if len(told) > 0 {
		t.Errorf("Redis is told the time: %q", told)
	}
}

// TestRedisUser: the user that the documentation has may do all of it, also in a Cluster, whose nodes
// refuse scripts with keys of several.
func TestRedisUser(t *testing.T) {
	server, cluster := redistest.Start(t), redistest.StartCluster(t)
	redistest.AddUser(t, "../../docs/configuration.md", append(cluster.Nodes, server)...)
	user := redisdb.Config{Username: redistest.Username, Password: redistest.Password}
	for name, url := range map[string]string{"a server": server.URL(), "a Cluster": cluster.URL()} {
		t.Run(name, func(t *testing.T) {
			r := open(t, user, url, Bounds{})
			for range 2 {
				keep(t, r, "alice", "id", "whole", time.Minute, true)
			}
			want(t, r, "alice", "id", "whole")
		})
	}
}

// TestRedisSeals: Redis holds nothing in clear, and what no replica has sealed for its place is
// as if it did not exist.
func TestRedisSeals(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	defer client.Close()
	r := open(t, redisdb.Config{}, server.URL(), Bounds{})
	for _, id := range []string{"canary-1", "canary-2"} {
		keep(t, r, "alice", id, strings.Repeat("canary", 100), time.Minute, true)
	}
	keys, err := client.Keys(t.Context(), "*").Result()
	if err != nil || len(keys) == 0 {
		t.Fatal(keys, err)
	}
	for _, key := range keys {
		if value, err := client.Dump(t.Context(), key).Result(); err != nil || strings.Contains(key+value, "canary") {
			t.Errorf("%s stands in Redis: %v", key, err)
		}
	}
	place := func(id string) string { return r.place("alice", r.key.Name("alice", id)) }
	client.Copy(t.Context(), place("canary-2"), place("canary-1"), 0, true)
	want(t, r, "alice", "canary-1", "")
	client.Del(t.Context(), place("canary-1"))
	client.RPush(t.Context(), place("canary-1"), "a list")
	want(t, r, "alice", "canary-1", "")
}

// TestRedisAway: without Redis nothing is kept, and nobody is told that there is nothing.
func TestRedisAway(t *testing.T) {
	server := redistest.Start(t)
	r := open(t, redisdb.Config{}, server.URL(), Bounds{})
	keep(t, r, "alice", "id", "whole", time.Minute, true)
	server.Kill()
	if kept, err := r.Keep(t.Context(), "alice", "id", []byte("whole"), time.Minute); kept || err == nil {
		t.Errorf("kept %v, %v", kept, err)
	}
	if got, err := r.Load(t.Context(), "alice", "id"); got != nil || err == nil {
		t.Errorf("%q, %v", got, err)
	}
}
