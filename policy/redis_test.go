package policy

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

func openRedis(t *testing.T, url string) *redisdb.DB {
	t.Helper()
	db, err := redisdb.Open(redisdb.Config{URL: mcp.Secret(url)}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func approvalKeyOf(t *testing.T) *seal.Key {
	t.Helper()
	key, err := seal.NewKey([]byte("0123456789abcdef0123456789abcdef"), "approval")
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// place is where replicas keep what they have in common.
type place interface {
	URL() string
	Advance(testing.TB, time.Duration)
}

var places = map[string]func(testing.TB) place{
	"single":  func(t testing.TB) place { return redistest.Start(t) },
	"cluster": func(t testing.TB) place { return redistest.StartCluster(t) },
}

func TestRedisApprovals(t *testing.T) {
	for name, start := range places {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			url := s.URL()
			ctx := t.Context()
			a, b := NewRedisApprovals(openRedis(t, url), approvalKeyOf(t), "x"),
				NewRedisApprovals(openRedis(t, url), approvalKeyOf(t), "x")
			put := func(user, key, value string, ttl time.Duration) {
				t.Helper()
				if err := a.Put(ctx, user, key, value, ttl); err != nil {
					t.Fatal(err)
				}
			}
			put("alice", "k", "v", time.Hour)
			for _, other := range []struct{ user, key string }{{"bob", "k"}, {"alice", "K"}, {"alice:k", ""}} {
				if ok, err := b.Has(ctx, other.user, other.key); ok || err != nil {
					t.Errorf("%q %q: %t, %v", other.user, other.key, ok, err)
				}
			}
			if _, ok, _ := NewRedisApprovals(openRedis(t, url), approvalKeyOf(t), "y").Take(ctx, "alice", "k"); ok {
				t.Error("another kind finds it")
			}
			if ok, err := b.Has(ctx, "alice", "k"); !ok || err != nil {
				t.Errorf("the other replica: %t, %v", ok, err)
			}
			var wg sync.WaitGroup
			var mu sync.Mutex
			got := 0
			for _, r := range []*RedisApprovals{a, b, a, b} {
				wg.Go(func() {
					value, ok, err := r.Take(ctx, "alice", "k")
					mu.Lock()
					defer mu.Unlock()
					if err != nil || ok && value != "v" {
						t.Errorf("%q, %v", value, err)
					}
					if ok {
						got++
					}
				})
			}
			wg.Wait()
			if got != 1 {
				t.Errorf("%d of those who asked got it", got)
			}
			put("alice", "short", "v", time.Minute)
			s.Advance(t, 2*time.Minute)
			if ok, _ := b.Has(ctx, "alice", "short"); ok {
				t.Error("it outlives its time")
			}
			for i := range maxPerUser + 10 {
				put("carol", fmt.Sprint(i), "v", time.Hour+time.Duration(i)*time.Second)
			}
			kept := 0
			for i := range maxPerUser + 10 {
				if ok, _ := b.Has(ctx, "carol", fmt.Sprint(i)); ok {
					kept++
				}
			}
			if kept != maxPerUser {
				t.Errorf("%d are kept of one user, want %d", kept, maxPerUser)
			}
			if ok, _ := b.Has(ctx, "carol", "0"); ok {
				t.Error("the first to be forgotten is still there")
			}
		})
	}
}

// Approvals know no clock but Redis's.
func TestRedisClock(t *testing.T) {
	server := redistest.Start(t)
	told := server.Times(t, func() {
		db := openRedis(t, server.URL())
		approvals := NewRedisApprovals(db, approvalKeyOf(t), "x")
		if err := approvals.Put(t.Context(), "alice", "k", "v", time.Hour); err != nil {
			t.Error(err)
		}
		if _, ok, err := approvals.Take(t.Context(), "alice", "k"); !ok || err != nil {
			t.Errorf("%t, %v", ok, err)
		}
	})
	if len(told) > 0 {
		t.Errorf("Redis is told the time: %q", told)
	}
}

func TestRedisApprovalsDown(t *testing.T) {
	server := redistest.Start(t)
	server.Kill()
	a := NewRedisApprovals(openRedis(t, server.URL()), approvalKeyOf(t), "x")
	if err := a.Put(t.Context(), "alice", "k", "v", time.Hour); err == nil {
		t.Error("what cannot be remembered counts as remembered")
	}
	if _, ok, err := a.Take(t.Context(), "alice", "k"); ok || err == nil {
		t.Error("what cannot be known counts as known")
	}
}

// Whoever can write in Redis can put no approval there that nobody gave, nor have one be for
// another call or user, or hold for longer; and whoever reads learns nothing of the call.
func TestNobodyMakesApprovals(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	defer client.Close()
	a := NewRedisApprovals(openRedis(t, server.URL()), approvalKeyOf(t), "x")
	const canary = "canary"
	keyOf := func(user, key string) string { keys, _, _ := a.keys(user, key); return keys[0] }
	put := func(user, key string) string {
		t.Helper()
		if err := a.Put(t.Context(), user, key, canary, time.Minute); err != nil {
			t.Fatal(err)
		}
		value, err := client.Get(t.Context(), keyOf(user, key)).Result()
		if err != nil || strings.Contains(value, canary) {
			t.Fatalf("what stands there: %q, %v", value, err)
		}
		return value
	}
	wantNone := func(what, user, key string) {
		t.Helper()
		if has, err := a.Has(t.Context(), user, key); has || err != nil {
			t.Errorf("%s: %t, %v", what, has, err)
		}
		if value, ok, err := a.Take(t.Context(), user, key); ok || err != nil {
			t.Errorf("%s: %q, %t, %v", what, value, ok, err)
		}
	}
	set := func(user, key, value string) {
		t.Helper()
		if err := client.Set(t.Context(), keyOf(user, key), value, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	given := put("alice", canary)
	all, err := client.Keys(t.Context(), "*").Result()
	if err != nil || strings.Contains(fmt.Sprint(all), canary) {
		t.Errorf("keys: %q, %v", all, err)
	}
	set("alice", "other", given)
	wantNone("moved to another call", "alice", "other")
	set("bob", canary, given)
	wantNone("moved to another user", "bob", canary)
	for _, made := range []string{"", canary, "9999999999999 " + canary, given[:len(given)-1]} {
		set("alice", "made", made)
		wantNone("made up", "alice", "made")
	}
	other := NewRedisApprovals(openRedis(t, server.URL()), approvalKeyOf(t), "y")
	keys, _, _ := other.keys("alice", canary)
	if err := client.Set(t.Context(), keys[0], given, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if has, err := other.Has(t.Context(), "alice", canary); has || err != nil {
		t.Errorf("moved to another kind: %t, %v", has, err)
	}
	if value, ok, err := a.Take(t.Context(), "alice", canary); value != canary || !ok || err != nil {
		t.Errorf("the one that was given: %q, %t, %v", value, ok, err)
	}
	past := strconv.FormatInt(time.Now().Add(-time.Second).UnixMilli(), 10)
	set("alice", "short", string(a.key.SealBytes([]byte(past+" "+canary), "x", "alice", "short")))
	wantNone("put back after its time", "alice", "short")
}
