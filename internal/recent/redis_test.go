package recent

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

// replica opens Records that share a Redis.
func replica(t *testing.T, name, url string) *Records {
	t.Helper()
	db, err := redisdb.Open(redisdb.Config{URL: mcp.Secret(url)}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	key, err := seal.NewKey([]byte("0123456789abcdef0123456789abcdef"), "recent records")
	if err != nil {
		t.Fatal(err)
	}
	return open(t, Deps{Replica: name, DB: db, Key: key})
}

// written waits until what was put is in Redis.
func written(t *testing.T, r *Records) {
	t.Helper()
	r.Close(t.Context()) // it keeps what it has
}

// unshared returns how many records others do not know.
func unshared(t *testing.T, r *Records) float64 {
	t.Helper()
	var m dto.Metric
	if err := r.deps.Metrics.unshared.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.Counter.GetValue()
}

// TestReplicas: each replica answers for all, also for those that have gone, and nobody reads
// in Redis what was recorded.
func TestReplicas(t *testing.T) {
	for name, url := range map[string]func(testing.TB) string{
		"single":  func(t testing.TB) string { return redistest.Start(t).URL() },
		"cluster": func(t testing.TB) string { return redistest.StartCluster(t).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := url(t)
			one, other := replica(t, "one", url), replica(t, "other", url)
			for i := range 100 {
				r := call(2*i, "alice")
				r.Arguments = mcp.String(strings.Repeat("secret ", 500)) // several parts
				one.Put(r)
				other.Put(call(2*i+1, "bob"))
			}
			written(t, one)
			third := replica(t, "third", url)
			p := other.Find(t.Context(), Query{})
			if len(p.Items) != 200 || p.Partial != nil {
				t.Fatalf("%d records, %v", len(p.Items), p.Partial)
			}
			for i, item := range p.Items {
				if item.Record.ID != fmt.Sprint("c-", 199-i) {
					t.Fatalf("%d is %s", i, item.Record.ID)
				}
			}
			written(t, other)
			again := third.Find(t.Context(), Query{})
			if len(again.Items) != 200 {
				t.Fatalf("a new replica has %d records", len(again.Items))
			}
			for i, item := range again.Items { // so that pages can go on at another replica
				if item.Cursor != p.Items[i].Cursor ||
					string(item.Record.AppendJSON(nil)) != string(p.Items[i].Record.AppendJSON(nil)) {
					t.Fatalf("%s, and elsewhere %s", item.Record.AppendJSON(nil), p.Items[i].Record.AppendJSON(nil))
				}
			}
			if p := third.Find(t.Context(), Query{}); len(p.Items) != 200 {
				t.Errorf("asked again, %d records", len(p.Items))
			}
		})
	}
}

// TestFollowReplicas: who follows hears of other replicas, too.
func TestFollowReplicas(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	one, other := replica(t, "one", url), replica(t, "other", url)
	f, err := other.Follow(t.Context(), record.Filter{}, Cursor{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	one.Put(call(1, "alice"))
	if got, _ := next(t, f, 1); got != "c-1" {
		t.Errorf("got %q", got)
	}
}

// TestSharedBounds: the log in Redis does not grow, and ends.
func TestSharedBounds(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	r := replica(t, "one", redis.URL())
	const size, sharedBytes = 60 << 10, 8 << 20
	for i := range 3 * sharedBytes / size {
		rec := call(i, "alice")
		rec.Arguments = mcp.String(strings.Repeat("x", size))
		r.shared.put(newItem(rec, "one", uint64(i+1)))
		r.shared.write(t.Context(), sharedBytes)
	}
	client := redis.Client()
	defer client.Close()
	stored := client.HVals(t.Context(), r.shared.keys[1]).Val()
	bytes := 0
	for _, part := range stored {
		bytes += len(part)
	}
	if bytes > sharedBytes+len(stored)*8 || bytes < sharedBytes/2 {
		t.Errorf("%d bytes in %d parts", bytes, len(stored))
	}
	for _, part := range stored {
		if strings.Contains(part, "alice") {
			t.Fatal("a part is not sealed")
		}
	}
	for _, key := range r.shared.keys {
		if ttl := client.PTTL(t.Context(), key).Val(); ttl <= 0 || ttl > keptFor {
			t.Errorf("%s ends in %s", key, ttl)
		}
	}
	other := replica(t, "other", redis.URL())
	if p := other.Find(t.Context(), Query{}); len(p.Items) != len(stored) ||
		p.Items[0].Record.ID != fmt.Sprint("c-", 3*sharedBytes/size-1) {
		t.Errorf("%d records of %d", len(p.Items), len(stored))
	}
	client.Del(t.Context(), r.shared.keys...)
	r.shared.put(newItem(call(100_000, "alice"), "one", 100_000))
	r.shared.write(t.Context(), sharedBytes)
	if p := other.Find(t.Context(), Query{Limit: 1}); ids(p.Items) != "c-100000" {
		t.Errorf("after the log was lost: %q", ids(p.Items))
	}
}

// TestRedisAway: without Redis, a replica answers for itself, and says so; what others do not
// know is counted.
func TestRedisAway(t *testing.T) {
	redis := redistest.Start(t)
	r := replica(t, "one", redis.URL())
	redis.Kill()
	r.Put(call(1, "alice"))
	if p := r.Find(t.Context(), Query{}); ids(p.Items) != "c-1" || p.Partial == nil {
		t.Errorf("%q, %v", ids(p.Items), p.Partial)
	}
	r.Close(t.Context())
	if n := unshared(t, r); n != 1 {
		t.Errorf("%v are counted", n)
	}
	for i := range mostOutgoing + 7 {
		r.shared.put(newItem(call(i, "alice"), "one", uint64(i)))
	}
	if n := unshared(t, r); n != 8 {
		t.Errorf("with a full queue, %v are counted", n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	r.shared.write(ctx, 8<<20)
	if n := unshared(t, r); n != 8+mostOutgoing {
		t.Errorf("when Redis is slow, %v are counted", n)
	}
}
