package sessiontest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// Limits of the stores that the suite asks for.
const (
	idle       = 10 * time.Minute
	maxPerUser = 5
	maxAll     = 12

	// offBeat moves a test away from round times, at which a store may sweep. What has expired
	// must be gone at its time, not at the next sweep.
	offBeat = 1234567 * time.Microsecond
)

// NewStore makes an empty store.
type NewStore func(t *testing.T, cfg session.Config, deps session.Deps) session.Store

// Pass lets time pass for a store, and returns once everything due has happened.
type Pass func(t *testing.T, store session.Store, d time.Duration)

// fixture is a store, and the keys of the sessions that it has reported as ended.
type fixture struct {
	Sessions
	t      *testing.T
	passes Pass          // nil inside a bubble of testing/synctest
	slack  time.Duration // the inaccuracy of the store's time

	mu    sync.Mutex // guards the fields below
	ended []string
	hook  func(key string) // also called for each end
	more  chan struct{}    // closed at the next end
}

// Run runs the suite over a store. Without pass, the store uses this process's clock, and each
// test, with its call of newStore, is in a bubble of testing/synctest. With pass it has another
// clock: slack must exceed the time that the tests themselves use, and the store's delay.
func Run(t *testing.T, newStore NewStore, pass Pass, slack time.Duration) {
	tests := []struct {
		name string
		run  func(*testing.T, *fixture)
	}{
		{"a record comes back", testRecord},
		{"records are copies", testCopies},
		{"records are bounded", testTooLarge},
		{"ids are minted and cannot be guessed", testIDs},
		{"unknown ids do not exist", testUnknown},
		{"another user's session does not exist", testForeign},
		{"a proposed id is ignored", testFixation},
		{"deleted is gone, and the second time not found", testDelete},
		{"idle sessions end", testIdle},
		{"a late write does not bring a session back", testLateUpdate},
		{"sessions of one user do not mix", testSameUser},
		{"sessions per user are bounded", testMaxPerUser},
		{"the session used longest ago makes room", testMaxPerUserEvicts},
		{"sessions in all are bounded", testMaxAll},
		{"colons in a user do not reach another's session", testColons},
		{"what is told of an end may use the store", testEventsUseStore},
		{"concurrent updates are all kept", testConcurrentUpdates},
		{"concurrent creations keep the bound", testConcurrentCreate},
		{"concurrent ends are one end", testConcurrentEnd},
		{"closed is unavailable, not missing", testClosed},

		{"log: append, read, end", testLog},
		{"log: events are added together", testLogTogether},
		{"log: a stream is finished once", testLogFinish},
		{"log: what a stream answers is kept", testLogRequest},
		{"log: data is copied", testLogCopies},
		{"log: positions are unique over all streams", testLogPositions},
		{"log: only later events of that stream", testLogAfter},
		{"log: foreign, future and unknown positions", testLogForeign},
		{"log: a reader is woken", testLogWake},
		{"log: events are bounded, and a gap is told", testLogEvents},
		{"log: bytes are bounded, and a gap is told", testLogBytes},
		{"log: one large event is kept", testLogLarge},
		{"log: streams are bounded", testLogStreams},
		{"log: an evicted stream that goes on has a gap", testLogEvicted},
		{"log: ended streams are forgotten", testLogForgotten},
		{"log: ends with its session", testLogSessionEnd},
		{"log: does not keep a session alive", testLogIdle},
		{"log: concurrent writers and readers", testLogConcurrent},
	}
	for _, tt := range tests {
		test := func(t *testing.T) {
			f := &fixture{t: t, passes: pass, slack: slack, more: make(chan struct{})}
			cfg := session.Config{IdleTimeout: idle, MaxPerUser: maxPerUser, Max: maxAll}
			f.Store = newStore(t, cfg, session.Deps{Homes: home.Config{Events: f}})
			t.Cleanup(func() {
				f.Homes().Close(context.Background())
				if err := f.Close(); err != nil {
					t.Errorf("closing: %v", err)
				}
			})
			tt.run(t, f)
		}
		t.Run(tt.name, func(t *testing.T) {
			if pass == nil {
				synctest.Test(t, test)
			} else {
				test(t)
			}
		})
	}
}

// pass lets time pass.
func (f *fixture) pass(d time.Duration) {
	if f.passes == nil {
		time.Sleep(d)
		return
	}
	f.passes(f.t, f.Store, d)
}

// justBefore is a time at which what happens after d has surely not happened yet. justAfter is
// one at which it surely has.
func (f *fixture) justBefore(d time.Duration) time.Duration { return d - max(f.slack, time.Nanosecond) }

func (f *fixture) justAfter(d time.Duration) time.Duration { return d + f.slack }

// settle returns once everything due has happened.
func (f *fixture) settle() {
	if f.passes == nil {
		synctest.Wait()
	}
}

// Opened says nothing of an end.
func (f *fixture) Opened(*home.Home) {}

// Closed notes an end.
func (f *fixture) Closed(h *home.Home, why home.Why) {
	if !why.Over() {
		return
	}
	f.mu.Lock()
	f.ended = append(f.ended, h.String())
	close(f.more)
	f.more = make(chan struct{})
	hook := f.hook
	f.mu.Unlock()
	if hook != nil {
		hook(h.String())
	}
}

// endedKeys returns what has ended, and a channel that is closed when more has.
func (f *fixture) endedKeys() ([]string, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.ended), f.more
}

// create begins a session that suits any test, and uses it for the first time.
func (f *fixture) create(t *testing.T, user string) session.Record {
	t.Helper()
	r, err := f.Create(t.Context(), session.Record{User: user, Revision: "r1", Caps: mcp.Raw(`{"roots":{}}`)})
	if err != nil {
		t.Fatalf("creating a session of %q: %v", user, err)
	}
	succeeds(t, f.get(t, r))
	return r
}

// home returns the home of a session, which is not in use afterwards.
func (f *fixture) home(t *testing.T, r session.Record) (found *home.Home) {
	t.Helper()
	succeeds(t, f.Use(t.Context(), home.ParseKey(r.Key()), func(h *home.Home) error {
		found = h
		return nil
	}))
	return found
}

// second returns the error of a call.
func second[T any](_ T, err error) error { return err }

func (f *fixture) get(t *testing.T, r session.Record) error {
	return second(f.Get(t.Context(), r.User, r.ID))
}

func (f *fixture) update(t *testing.T, user, id string, change func(*session.Record)) error {
	return second(f.Update(t.Context(), user, id, change))
}

func (f *fixture) delete(t *testing.T, r session.Record) {
	t.Helper()
	succeeds(t, f.Delete(t.Context(), r.User, r.ID))
}

// append and read say how it went with a stream of the session of this key.
func (f *fixture) append(t *testing.T, key, stream string) error {
	return second(f.Log().Append(t.Context(), key, stream, []byte("late")))
}

func (f *fixture) read(t *testing.T, key, stream string, after uint64) error {
	_, _, _, err := f.Log().Read(t.Context(), key, stream, after)
	return err
}

// succeeds ends the test on an error.
func succeeds(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got error %v, want %v", what, got, want)
	}
}

func (f *fixture) wantEnded(t *testing.T, want ...string) {
	t.Helper()
	got, more := f.endedKeys()
	for late := time.After(f.slack); f.passes != nil && len(got) < len(want); got, more = f.endedKeys() {
		select { // some ends have goroutines of their own
		case <-more:
		case <-late:
			t.Fatalf("ended: got %q, want %q", got, want)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("ended: got %q, want %q", got, want)
	}
}
