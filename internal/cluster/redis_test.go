package cluster

import (
	"io"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

// round makes two replicas do everything that they do in Redis.
func round(t *testing.T, a, b *house, record string) {
	t.Helper()
	x := a.own(t, some("x"))
	if who := b.get(t, "/u1/x"); who != a.Self() {
		t.Errorf("%s answers", who)
	}
	for _, user := range []string{"u2", "u3", "u4"} {
		a.own(t, Home{User: user, ID: "x", Record: a.db.Key(record + ":{" + user + "}:x")})
	}
	if _, err := a.Renew(t.Context(), some("x"), x); err != nil || !a.Exists(t.Context(), some("x")) {
		t.Error(err)
	}
	if err := a.Release(t.Context(), some("x"), x); err != nil {
		t.Error(err)
	}
	a.crash()
	for _, user := range []string{"u2", "u3", "u4"} {
		resp := b.do(t, "POST", "/"+user+"/x", nil) // unlike a GET, it is not sent on a connection that has ended
		if who, err := io.ReadAll(resp.Body); string(who) != b.Self() || err != nil {
			t.Errorf("%s: %q answers, %v", resp.Status, who, err)
		}
	}
	if len(b.Peers()) > 0 {
		t.Error("it has not gone")
	}
}

// TestRedisCluster: all keys of a script are on one node.
func TestRedisCluster(t *testing.T) {
	cluster := redistest.StartCluster(t)
	client := cluster.Client()
	defer client.Close()
	on := func(_ *Config, deps *Deps, _ *times) {
		db, err := redisdb.Open(redisdb.Config{URL: mcp.Secret(cluster.URL())}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		deps.DB = db
	}
	a, b := startHouse(t, cluster.Nodes[0], sayWho, on), startHouse(t, cluster.Nodes[0], sayWho, on)
	for _, user := range []string{"u2", "u3", "u4"} {
		if err := client.Set(t.Context(), a.db.Key("s:{"+user+"}:x"), "", time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
	}
	round(t, a, b, "s")
}

// TestRedisUser: the user that the documentation asks operators to create has enough rights.
func TestRedisUser(t *testing.T) {
	redis := redistest.Start(t)
	redistest.AddUser(t, "../../docs/configuration.md", redis)
	client := redis.Client()
	defer client.Close()
	as := func(_ *Config, deps *Deps, _ *times) {
		db, err := redisdb.Open(redisdb.Config{URL: mcp.Secret(redis.URL()), Username: redistest.Username,
			Password: redistest.Password}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		deps.DB = db
	}
	a, b := startHouse(t, redis, sayWho, as), startHouse(t, redis, sayWho, as)
	for _, user := range []string{"u2", "u3", "u4"} {
		client.Set(t.Context(), a.db.Key("s:{"+user+"}:x"), "", time.Hour)
	}
	round(t, a, b, "s")
}

// TestRedisIsFull: homes find owners even when Redis is full.
func TestRedisIsFull(t *testing.T) {
	redis := redistest.Start(t, "maxmemory", "1", "maxmemory-policy", "noeviction")
	a, b := startReplica(t, redis, nil), startReplica(t, redis, nil)
	if o := a.own(t, some("x")); !o.Here() {
		t.Errorf("%+v", o)
	}
	if o := b.own(t, some("x")); o.Replica != a.Self() {
		t.Errorf("%+v", o)
	}
}
