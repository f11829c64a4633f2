package home

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

func TestMain(m *testing.M) { mcptest.VerifyMain(m) }

// idle is the Config.Idle of the tests.
const idle = 10 * time.Minute

// session returns the key of a user's session.
func session(user string, n int) Key {
	return Key{user, strings.Repeat("A", 25) + string(rune('A'+n))}
}

// records are a Store in which each session exists until it was ended.
type records struct {
	record string // the key in Redis of all records; "" for none

	mu                 sync.Mutex // guards the fields below
	gone               map[Key]bool
	load, keep, end    error         // what the methods return
	unused             time.Duration // for how long a session was unused that is loaded
	loading            chan struct{} // taken from before each load; nil for at once
	loads, keeps, ends atomic.Int64  // how often they were called
}

func (r *records) RecordKey(Key) string { return r.record }

func (r *records) Load(ctx context.Context, h *Home) error {
	r.mu.Lock()
	loading := r.loading
	r.mu.Unlock()
	if loading != nil {
		select {
		case <-loading:
		case <-ctx.Done():
			return ErrUnavailable
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loads.Add(1)
	if r.gone[h.Key()] {
		return ErrNotFound
	}
	h.WasUsed(r.unused)
	return r.load
}

func (r *records) Keep(context.Context, *Home, time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keeps.Add(1)
	return r.keep
}

func (r *records) Tidy(*Home) bool { return false }

func (r *records) End(_ context.Context, h *Home, _ Why) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends.Add(1)
	if r.end == nil {
		r.gone[h.Key()] = true
	}
	return r.end
}

// set changes what the methods do from now on.
func (r *records) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

// testTable is a table, its store, and what its Events were told: "opened KEY" and "closed KEY WHY".
type testTable struct {
	*Table
	store *records

	mu   sync.Mutex // guards told
	told []string
}

func (t *testTable) Opened(h *Home)          { t.tell("opened " + h.String()) }
func (t *testTable) Closed(h *Home, why Why) { t.tell(fmt.Sprintf("closed %s %d", h, why)) }

func (t *testTable) tell(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.told = append(t.told, what)
}

// wantTold compares what the Events were told since the last time.
func (w *testTable) wantTold(t *testing.T, want ...string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.told, want) {
		t.Errorf("told %q, want %q", w.told, want)
	}
	w.told = nil
}

// openTable opens a table that is closed at the end of the test.
func openTable(t *testing.T, owners *cluster.Cluster, change ...func(*Config)) *testTable {
	t.Helper()
	w := &testTable{store: &records{gone: make(map[Key]bool)}}
	most := func(string) int { return 3 }
	cfg := Config{Idle: idle, Kept: idle + idle/4, Max: 100, Most: most, Events: w, Owners: owners}
	for _, change := range change {
		change(&cfg)
	}
	w.Table = Open(cfg, w.store)
	t.Cleanup(func() {
		w.Close(context.Background())
		if len(w.homes) != 0 || len(w.shares) != 0 || w.known != [2]int{} {
			t.Errorf("left are %d homes of %d users, %v are counted", len(w.homes), len(w.shares), w.known)
		}
	})
	return w
}

// inMemory is for openTable: sessions exist in this process alone.
func inMemory(cfg *Config) { cfg.Kept = 0 }

// use begins a use of a session.
func (w *testTable) use(t *testing.T, key Key) *Home {
	t.Helper()
	h, err := w.Use(t.Context(), key)
	if err != nil {
		t.Fatalf("using %s: %v", key, err)
	}
	return h
}

// visit uses a session for a moment.
func (w *testTable) visit(t *testing.T, key Key) *Home {
	t.Helper()
	h := w.use(t, key)
	h.Done()
	return h
}

// refuses checks the error of a use.
func (w *testTable) refuses(t *testing.T, key Key, want error) {
	t.Helper()
	if h, err := w.Use(t.Context(), key); !errors.Is(err, want) || h != nil {
		t.Errorf("using %s: %v, want %v", key, err, want)
	}
}

// begin begins a session in memory.
func (w *testTable) begin(t *testing.T, key Key) *Home {
	t.Helper()
	if err := w.Begin(key, func(*Home) {}); err != nil {
		t.Fatalf("beginning %s: %v", key, err)
	}
	return w.Known(key)
}

// wantOver checks why a home is over, 0 for not at all.
func wantOver(t *testing.T, what string, h *Home, want Why) {
	t.Helper()
	if why := h.Why(); why != want || h.IsOver() != (want != 0) {
		t.Errorf("%s: over for reason %d, want %d", what, why, want)
	}
}
