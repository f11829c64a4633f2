package allowance

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
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

var places = map[string]func(testing.TB) interface{ URL() string }{
	"single":  func(t testing.TB) interface{ URL() string } { return redistest.Start(t) },
	"cluster": func(t testing.TB) interface{ URL() string } { return redistest.StartCluster(t) },
}

// What replicas may use together is what one may use alone.
func TestRedis(t *testing.T) {
	for name, start := range places {
		t.Run(name, func(t *testing.T) {
			url := start(t).URL()
			one, other := NewRedis(openRedis(t, url)), NewRedis(openRedis(t, url))
			narrow := Bucket{Key: "narrow", Interval: time.Hour, Burst: 10}
			wide := Bucket{Key: "wide", Interval: time.Hour, Burst: 100}
			var wg sync.WaitGroup
			var mu sync.Mutex
			taken := 0
			for _, b := range []*Redis{one, other, one, other} {
				wg.Go(func() {
					for range 10 {
						wait, which, err := b.Take(t.Context(), []Bucket{wide, narrow})
						mu.Lock()
						switch {
						case err != nil:
							t.Error(err)
						case wait == 0:
							taken++
						case which != 1 || wait > time.Hour || wait < 59*time.Minute:
							t.Errorf("wait %s for bucket %d", wait, which)
						}
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			if taken != 10 {
				t.Errorf("%d calls were let through, want 10", taken)
			}
			// What the narrow one refused was not taken from the wide one. Both replicas have leases of it.
			for _, b := range []*Redis{one, other} {
				for wait := time.Duration(0); wait == 0; taken++ {
					wait, _, _ = b.Take(t.Context(), []Bucket{wide})
				}
				taken--
			}
			if taken != 100 {
				t.Errorf("%d calls of the wide one were let through, want 100", taken)
			}
		})
	}
}

// TestLeases: a replica takes calls in advance, and gives back what it did not use in time.
func TestLeases(t *testing.T) {
	const burst = 1024 // a lease is 64 calls
	server := redistest.Start(t)
	begin := func(key string) (one, other *Redis, b Bucket) {
		return NewRedis(openRedis(t, server.URL())), NewRedis(openRedis(t, server.URL())),
			Bucket{Key: key, Interval: time.Hour, Burst: burst}
	}
	taken := func(r *Redis, b Bucket, most int) (n int) {
		for ; n < most; n++ {
			if wait, _, err := r.Take(t.Context(), []Bucket{b}); err != nil || wait > 0 {
				break
			}
		}
		return n
	}
	expire := func(r *Redis, b Bucket, change func(*lease)) {
		l, _ := r.leases.Get(b.Key)
		l.until = time.Now()
		change(l)
	}
	t.Run("few commands", func(t *testing.T) {
		one, _, b := begin("few")
		asked := 0
		for _, command := range server.Commands(t, func() {
			if n := taken(one, b, 200); n != 200 {
				t.Errorf("%d were let through", n)
			}
		}) {
			if strings.Contains(strings.ToLower(command), "eval") {
				asked++
			}
		}
		if asked < 4 || asked > 5 { // the script is loaded once
			t.Errorf("200 calls asked Redis %d times", asked)
		}
	})
	t.Run("what is left goes back", func(t *testing.T) {
		one, other, b := begin("left")
		taken(one, b, 1)
		expire(one, b, func(*lease) {})
		taken(one, b, 1)
		if n := taken(other, b, burst); n != burst-1-64 {
			t.Errorf("the other one got %d", n)
		}
		if n := taken(one, b, burst); n != 63 {
			t.Errorf("the one had %d left", n)
		}
	})
	t.Run("not to a bucket that was full since", func(t *testing.T) {
		one, other, b := begin("full")
		taken(one, b, 1)
		expire(one, b, func(l *lease) { l.full = 1 })
		taken(one, b, 1)
		if n := taken(other, b, burst); n != burst-2*64 {
			t.Errorf("the other one got %d", n)
		}
	})
	t.Run("once, also when a reload has made the burst small", func(t *testing.T) {
		one, _, b := begin("reloaded")
		taken(one, b, 1)
		expire(one, b, func(*lease) {})
		b.Burst = 2
		if n := taken(one, b, 10); n != 1 {
			t.Errorf("%d more were let through, want 1", n)
		}
	})
	t.Run("a refused call spends no lease", func(t *testing.T) {
		one, _, b := begin("wide")
		narrow := Bucket{Key: "none", Interval: time.Hour, Burst: 1}
		taken(one, b, 1)
		for range 3 {
			_, _, _ = one.Take(t.Context(), []Bucket{b, narrow})
		}
		if l, _ := one.leases.Get(b.Key); l.left != 62 {
			t.Errorf("%d are left", l.left)
		}
	})
	t.Run("a lease does not outlast Redis", func(t *testing.T) {
		one, _, b := begin("down")
		taken(one, b, 1)
		expire(one, b, func(*lease) {})
		server.Kill()
		if n := taken(one, b, 2*burst); n != burst {
			t.Errorf("%d were let through", n)
		}
		if l, ok := one.leases.Get(b.Key); ok && l.asking {
			t.Error("nobody takes a lease any more")
		}
	})
}

// Without Redis each replica counts for itself, and never lets everything through.
func TestRedisDown(t *testing.T) {
	server := redistest.Start(t)
	b := NewRedis(openRedis(t, server.URL()))
	server.Kill()
	taken := 0
	for range 20 {
		if wait, _, err := b.Take(t.Context(), []Bucket{{Key: "k", Interval: time.Hour, Burst: 3}}); err == nil && wait == 0 {
			taken++
		}
	}
	if taken != 3 {
		t.Errorf("%d calls were let through, want 3", taken)
	}
}

// TestRedisClock: a bucket knows no clock but Redis's.
func TestRedisClock(t *testing.T) {
	server := redistest.Start(t)
	told := server.Times(t, func() {
		buckets := NewRedis(openRedis(t, server.URL()))
		for range 2 {
			if _, _, err := buckets.Take(t.Context(), []Bucket{{Key: "k", Interval: time.Hour, Burst: 1}}); err != nil {
				t.Error(err)
			}
		}
	})
	if len(told) > 0 {
		t.Errorf("Redis is told the time: %q", told)
	}
}
