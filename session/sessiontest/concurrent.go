package sessiontest

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/session"
)

// Events learn of an end without a lock held: they may use the store, even for the session that
// just ended.
func testEventsUseStore(t *testing.T, f *fixture) {
	users := []string{"deleted", "idle"}
	first := make(map[string]session.Record)
	for _, user := range users {
		first[user] = f.create(t, user)
	}
	var hooks sync.WaitGroup // a store does not wait for these before it closes
	hooks.Add(len(users))
	f.mu.Lock()
	f.hook = func(key string) {
		user, id, _ := strings.Cut(key, ":")
		if r := first[user]; r.ID != id {
			return // one of those made below
		}
		defer hooks.Done()
		wantErr(t, "get of what ended", f.get(t, session.Record{User: user, ID: id}), session.ErrNotFound)
		wantErr(t, "append to what ended", f.append(t, key, "s"), session.ErrNotFound)
		f.create(t, user)
	}
	f.mu.Unlock()
	succeeds(t, f.Delete(t.Context(), "deleted", first["deleted"].ID))
	f.pass(idle + idle/2)
	f.settle()
	if got, _ := f.endedKeys(); !slices.Contains(got, first["idle"].Key()) {
		t.Fatalf("the idle session has not ended: %q", got)
	}
	hooks.Wait()
	for range maxPerUser - 1 { // its place is free
		f.create(t, "idle")
	}
}

func testConcurrentUpdates(t *testing.T, f *fixture) {
	const workers, each = 8, 50
	r := f.create(t, "alice")
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				uri := strconv.Itoa(w*each + i)
				wantErr(t, "update", f.update(t, "alice", r.ID, func(r *session.Record) {
					r.Subscriptions = append(r.Subscriptions, uri)
				}), nil)
				wantErr(t, "get", f.get(t, r), nil)
			}
		})
	}
	wg.Wait()
	got, err := f.Get(t.Context(), "alice", r.ID)
	succeeds(t, err)
	slices.Sort(got.Subscriptions)
	if n := len(slices.Compact(got.Subscriptions)); n != workers*each {
		t.Errorf("%d of %d updates were kept", n, workers*each)
	}
}

func testConcurrentCreate(t *testing.T, f *fixture) {
	var made atomic.Int32
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			switch _, err := f.Create(t.Context(), session.Record{User: "alice"}); {
			case err == nil:
				made.Add(1)
			case !errors.Is(err, session.ErrTooMany):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := made.Load(); got != maxPerUser {
		t.Errorf("%d sessions were created, want %d", got, maxPerUser)
	}
}

func testConcurrentEnd(t *testing.T, f *fixture) {
	var keys []string
	for range 20 {
		r := f.create(t, "alice")
		keys = append(keys, r.Key())
		f.pass(f.justBefore(idle))
		// Now deletion, use and the end of the idle time coincide.
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if f.passes == nil {
					time.Sleep(time.Nanosecond)
				}
				_ = f.Delete(t.Context(), "alice", r.ID) // may be too late
			})
			wg.Go(func() {
				_, _ = f.Get(t.Context(), "alice", r.ID) // may be just in time
			})
			wg.Go(func() {
				_, _ = f.Log().Append(t.Context(), r.Key(), "s", []byte("x")) // likewise
			})
		}
		wg.Wait()
	}
	f.pass(2 * idle)
	f.settle()
	f.wantEnded(t, keys...)
	for range maxPerUser { // the count is correct
		f.create(t, "alice")
	}
}

func testClosed(t *testing.T, f *fixture) {
	r := f.create(t, "alice")
	h := f.home(t, r)
	for range 2 {
		f.Homes().Close(t.Context())
		succeeds(t, f.Close())
	}
	wantErr(t, "create", second(f.Create(t.Context(), session.Record{User: "alice"})), session.ErrUnavailable)
	wantErr(t, "get", f.get(t, r), session.ErrUnavailable)
	wantErr(t, "update", f.update(t, "alice", r.ID, func(*session.Record) {}), session.ErrUnavailable)
	wantErr(t, "delete", f.Delete(t.Context(), "alice", r.ID), session.ErrUnavailable)
	wantErr(t, "append", f.append(t, r.Key(), "s"), session.ErrUnavailable)
	wantErr(t, "read", f.read(t, r.Key(), "s", 0), session.ErrUnavailable)
	wantErr(t, "end", f.Log().End(t.Context(), r.Key(), "s"), session.ErrUnavailable)
	wantErr(t, "a request that runs still", second(f.Store.Log().Append(t.Context(), h, "s", nil)), session.ErrMoved)
	wantErr(t, "its change", second(f.Store.Update(t.Context(), h, func(*session.Record) {})), session.ErrMoved)
	f.pass(2 * idle)
	f.wantEnded(t)
}
