package pool

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
)

func TestMain(m *testing.M) { mcptest.VerifyMain(m) }

// thing is the value type of these tests.
type thing struct {
	key  string
	over bool
}

// things is a pool of things, for a bubble of synctest.
type things struct {
	*Pool[string, struct{}, *thing]
	wg sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	opened []string
	failed error
	ended  map[string]string // how the thing of a key ended
	slow   time.Duration     // how long it takes to end one
}

func newThings(t *testing.T, places int) *things {
	base, stop := context.WithCancel(context.Background())
	ts := &things{ended: make(map[string]string)}
	ts.Pool = New(Config[string, struct{}, *thing]{
		Places: places, Idle: time.Minute, Base: base, Spawn: ts.wg.Go,
		Over: func(v *thing) bool { return v.over }, Opened: func(error) {},
		Keeps: func(err error) bool { return errors.Is(err, ErrDown) },
		End:   ts.end,
	})
	t.Cleanup(func() {
		ts.Close()
		stop()
		ts.wg.Wait()
	})
	return ts
}

// open opens a thing; it takes a second in a bubble of synctest.
func (ts *things) open(e *Entry[string, struct{}, *thing]) (*thing, error) {
	time.Sleep(time.Second)
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.opened = append(ts.opened, e.Key)
	return &thing{key: e.Key}, ts.failed
}

// end records how a thing ended. It may take long, in a bubble of synctest.
func (ts *things) end(e *Entry[string, struct{}, *thing], v *thing, forget bool, left <-chan struct{}) {
	if left != nil {
		<-left
	}
	time.Sleep(ts.slow)
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if v != nil {
		ts.ended[e.Key] = map[bool]string{true: "forgotten", false: "closed"}[forget]
	}
}

// acquire acquires a thing of a user that ends by idle time.
func (ts *things) acquire(ctx context.Context, user, key string) (*thing, error) {
	return ts.Acquire(ctx, key, func(e *Entry[string, struct{}, *thing], fresh bool) {
		if fresh {
			e.User, e.Sweeps = user, true
		}
	}, ts.open)
}

func (ts *things) must(t *testing.T, user, key string) *thing {
	t.Helper()
	v, err := ts.acquire(t.Context(), user, key)
	if err != nil {
		t.Fatalf("%s of %s: %v", key, user, err)
	}
	return v
}

// entry returns the entry of a key.
func (ts *things) entry(key string) *Entry[string, struct{}, *thing] {
	for e := range ts.All() {
		if e.Key == key {
			return e
		}
	}
	return nil
}

func (ts *things) release(key string) { ts.Release(ts.entry(key)) }

// how returns how the thing of a key ended.
func (ts *things) how(key string) string {
	synctest.Wait()
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.ended[key]
}

func TestAThingIsOpenedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newThings(t, 10)
		leaves, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { // the first one; its leaving must not affect the others
			if _, err := ts.acquire(leaves, "ann", "a"); !errors.Is(err, context.Canceled) {
				t.Errorf("who has left got %v", err)
			}
		})
		synctest.Wait()
		leave()
		found := make([]*thing, 10)
		for i := range found {
			all.Go(func() { found[i] = ts.must(t, "ann", "a") })
		}
		all.Wait()
		if !slices.Equal(ts.opened, []string{"a"}) || found[0] != found[9] || ts.Len() != 1 {
			t.Errorf("opened %q, %d are open", ts.opened, ts.Len())
		}
		e := ts.entry("a")
		if !ts.Lose(e, found[0]) || ts.Lose(e, found[0]) || ts.must(t, "ann", "a") == found[0] {
			t.Error("what was lost is used")
		}
		found[0] = ts.must(t, "ann", "a")
		found[0].over = true
		if ts.must(t, "ann", "a") == found[0] {
			t.Error("what is over is used")
		}
	})
}

func TestWhatIsIdleEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newThings(t, 10)
		for _, key := range []string{"idle", "held", "kept"} {
			ts.must(t, "", key)
		}
		ts.KeepUntil(ts.entry("kept"), time.Now().Add(time.Hour))
		ts.Hold(ts.entry("held"))
		for _, key := range []string{"idle", "held", "kept"} {
			ts.release(key)
		}
		time.Sleep(59 * time.Second)
		if how := ts.how("idle"); how != "" {
			t.Errorf("%s before its time", how)
		}
		time.Sleep(10 * time.Second)
		if ts.how("idle") != "forgotten" || ts.how("held") != "" || ts.how("kept") != "" {
			t.Errorf("ended: %q", ts.ended)
		}
		ts.release("held")
		time.Sleep(70 * time.Second)
		if ts.how("held") != "forgotten" || ts.how("kept") != "" {
			t.Errorf("ended: %q", ts.ended)
		}
		time.Sleep(time.Hour)
		if ts.how("kept") != "forgotten" || ts.entry("kept") != nil {
			t.Errorf("ended: %q", ts.ended)
		}
	})
}

// TestUsersShareThePlaces: a user with many places makes room for a user with none, and a
// new value waits for the end of the one whose place it takes.
func TestUsersShareThePlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newThings(t, 4)
		ts.slow = 5 * time.Second
		for _, key := range []string{"a1", "a2"} {
			ts.must(t, "ann", key)
			ts.release(key)
			time.Sleep(time.Second)
		}
		ts.must(t, "ann", "a3") // more than she leaves free: her own oldest one ends
		if ts.how("a1"); ts.entry("a1") != nil || ts.entry("a2") == nil {
			t.Error("the oldest is not the one that went")
		}
		ts.release("a3")
		ts.must(t, "bob", "b1")
		ts.must(t, "cat", "c1")
		began := time.Now()
		ts.must(t, "dan", "d1") // all places are taken: ann has the most and gives one up
		if took := time.Since(began); took < 5*time.Second {
			t.Errorf("opened after %s, before the end of what had its place", took)
		}
		if how := ts.how("a2"); how != "forgotten" {
			t.Errorf("of ann's things the oldest is %q", how)
		}
		ts.Hold(ts.entry("a3"))
		if _, err := ts.acquire(t.Context(), "eve", "e1"); !errors.Is(err, admit.ErrOverloaded) {
			t.Errorf("where all are held: %v", err)
		}
		if ts.entry("e1") != nil {
			t.Error("what found no place is there")
		}
	})
}

func TestWhatFailsIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newThings(t, 10)
		ts.must(t, "", "a")
		e := ts.entry("a")
		for range 5 {
			ts.Crashed(e, 0)
		}
		ts.Lose(e, e.current)
		if _, err := ts.acquire(t.Context(), "", "a"); !errors.Is(err, ErrDown) {
			t.Errorf("after five crashes: %v", err)
		}
		time.Sleep(time.Minute)
		ts.must(t, "", "a")

		ts.failed = errors.New("broken")
		if _, err := ts.acquire(t.Context(), "", "b"); !errors.Is(err, ts.failed) || ts.entry("b") != nil {
			t.Errorf("%v; entry %v", err, ts.entry("b"))
		}
	})
}

func TestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newThings(t, 10)
		for _, key := range []string{"held", "free", "other"} {
			ts.must(t, "", key)
		}
		held := ts.entry("held")
		ts.release("free")
		ts.End(ts.entry("free"), false)
		ts.End(held, false)
		if ts.how("free") != "closed" || ts.how("held") != "" || ts.Len() != 1 {
			t.Errorf("ended: %q, %d are open", ts.ended, ts.Len())
		}
		ts.Release(held)
		if how := ts.how("held"); how != "closed" {
			t.Errorf("who held it has left, and it is %q", how)
		}
		late := make(chan error, 1)
		go func() {
			_, err := ts.acquire(t.Context(), "", "late")
			late <- err
		}()
		synctest.Wait()
		ts.Close()
		if err := <-late; !errors.Is(err, admit.ErrDraining) || ts.how("late") != "closed" {
			t.Errorf("what was opened meanwhile: %v, %q", err, ts.how("late"))
		}
		if _, err := ts.acquire(t.Context(), "", "a"); !errors.Is(err, admit.ErrDraining) || ts.how("other") != "closed" {
			t.Errorf("after the end: %v, %q", err, ts.ended)
		}
	})
}
