package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

const (
	testKey  = "0123456789abcdef0123456789abcdef"
	otherKey = "fedcba9876543210fedcba9876543210"
	testIdle = time.Minute
)

func TestMain(m *testing.M) {
	if os.Getenv(replicaVariable) != "" {
		if err := runReplica(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	mcptest.VerifyMain(m)
}

// shortTimes are the times for tests that wait for leases.
func shortTimes() times {
	return times{lease: 2 * time.Second, beat: 300 * time.Millisecond, look: 500 * time.Millisecond,
		dial: 500 * time.Millisecond, patience: time.Second, greet: 5 * time.Second,
		again: 50 * time.Millisecond, idle: time.Second, ping: time.Second}
}

// hasty gives a replica shortTimes.
func hasty(_ *Config, _ *Deps, t *times) { *t = shortTimes() }

// openDB opens a Redis, and closes it at the end of the test.
func openDB(t testing.TB, address string) *redisdb.DB {
	t.Helper()
	db, err := redisdb.Open(redisdb.Config{URL: mcp.Secret("redis://" + address)}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// replica is a Cluster in the process of the test.
type replica struct{ *Cluster }

// startReplica runs a replica until the test ends. forwarded may be nil.
func startReplica(t testing.TB, redis *redistest.Server, forwarded Receiver,
	change ...func(*Config, *Deps, *times)) *replica {
	t.Helper()
	cfg, times := Config{Listen: "127.0.0.1:0"}, usualTimes()
	deps := Deps{DB: openDB(t, redis.Addr), Key: []byte(testKey), Idle: testIdle, Revision: "r1", Log: testLog(t)}
	for _, change := range change {
		change(&cfg, &deps, &times)
	}
	c, err := newCluster(cfg, deps, times, tcp{})
	if err != nil {
		t.Fatal(err)
	}
	if back, ok := forwarded.(backDoor); ok {
		back.cluster = c
	}
	c.Start(forwarded)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		c.Close(ctx)
	})
	return &replica{c}
}

func testLog(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}

// crash ends a replica as if it had died: nobody listens any more, and the lease stays.
func (r *replica) crash() {
	r.members.mu.Lock()
	r.members.closed = true
	r.members.mu.Unlock()
	r.link.server.Close()
}

// own returns the owner of a home, or fails the test.
func (r *replica) own(t testing.TB, h Home) Owner {
	t.Helper()
	o, err := r.Own(t.Context(), h)
	if err != nil {
		t.Fatalf("Own(%s): %v", h.Key(), err)
	}
	return o
}

// eventually returns once so returns true.
func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for !so() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s: it does not come to that", what)
		}
	}
}

func some(id string) Home { return Home{User: "u1", ID: id} }

// counted returns the value of a counter.
func counted(t testing.TB, c prometheus.Counter) float64 {
	t.Helper()
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}
