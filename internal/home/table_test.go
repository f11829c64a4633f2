package home

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
)

func TestKeys(t *testing.T) {
	id := strings.Repeat("A", 26)
	for name, want := range map[string]Key{
		"u:" + id: {"u", id}, "a:b:" + id: {"a:b", id}, "u:~x": {"u", Derived("x")},
		"u:": {"u", ""}, ":" + id: {"", id}, id: {"", id}, "": {},
	} {
		if got := ParseKey(name); got != want || strings.Contains(name, ":") && got.String() != name {
			t.Errorf("%q is %q", name, got)
		}
	}
	if Why(0).Over() || !Gone.Over() || Moved.Over() {
		t.Error("another reason is the end everywhere")
	}
	w := openTable(t, cluster.Alone())
	for _, key := range []Key{
		{"", id}, {"u", ""}, {"u", id + "A"}, {"u", strings.ToLower(id)}, {"u", "*"}, {"u:" + id, "x"}, {"", Derived("x")},
	} {
		w.refuses(t, key, ErrNotFound)
	}
	if w.store.loads.Load() != 0 {
		t.Error("the store is asked for what was never minted")
	}
}

// TestOneOpens: of many users, one reads the record. A home that is open is used without asking.
func TestOneOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := openTable(t, cluster.Alone())
		w.store.loading = make(chan struct{})
		var all sync.WaitGroup
		homes := make(chan *Home, 20)
		for range cap(homes) {
			all.Go(func() {
				h, err := w.Use(t.Context(), session("u", 0))
				if err != nil {
					t.Error(err)
					return
				}
				homes <- h
			})
		}
		synctest.Wait()
		close(w.store.loading)
		all.Wait()
		h := w.visit(t, session("u", 0))
		for range cap(homes) {
			if other := <-homes; other != h {
				t.Error("two homes of one session")
			} else {
				other.Done()
			}
		}
		if w.store.loads.Load() != 1 || w.Len() != 1 || len(w.All()) != 1 || h.uses != 0 {
			t.Errorf("%d loads, %d homes, %d uses", w.store.loads.Load(), w.Len(), h.uses)
		}
		w.wantTold(t, "opened "+h.String())
	})
}

// TestNeverThere: nothing is said of the end of a session that never was.
func TestNeverThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := openTable(t, cluster.Alone())
		w.store.gone[session("u", 0)], w.store.loading = true, make(chan struct{})
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { w.refuses(t, session("u", 0), ErrNotFound) })
		}
		synctest.Wait()
		w.store.loading <- struct{}{} // one asks for all
		all.Wait()
		if w.wantTold(t); w.Len() != 0 || w.Known(session("u", 0)) != nil {
			t.Error("it has a home")
		}
	})
}

// TestIdle: a home ends when it was unused for the idle time, neither before nor by a sweep alone.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := openTable(t, cluster.Alone())
		time.Sleep(time.Millisecond) // not in time with the sweeps
		h := w.visit(t, session("u", 0))
		for range 3 {
			time.Sleep(idle - 1)
			if w.visit(t, h.Key()) != h || h.Unused() != 0 {
				t.Fatal("it has ended while it is used")
			}
		}
		h = w.use(t, h.Key())
		time.Sleep(time.Second)
		if h.Done(); h.Unused() != 0 {
			t.Error("a use is none at its end")
		}
		time.Sleep(idle)
		w.refuses(t, h.Key(), ErrNotFound)
		wantOver(t, "unused", h, Idle)
		if w.store.ends.Load() != 1 {
			t.Errorf("the store is told %d times", w.store.ends.Load())
		}

		h = w.visit(t, session("u", 1))
		h.Hold()
		time.Sleep(3 * idle)
		wantOver(t, "with a stream", h, 0)
		time.Sleep(time.Second)
		if h.Drop(); h.Unused() != 0 {
			t.Error("a stream is no use at its end")
		}
		time.Sleep(idle - time.Minute)
		wantOver(t, "soon after the stream", h, 0)
		time.Sleep(2 * time.Minute)
		wantOver(t, "long after the stream", h, Idle)
	})
}

// TestStoreIsTold: sweeps tell the store of uses, and of nothing else.
func TestStoreIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := openTable(t, cluster.Alone())
		h := w.visit(t, session("u", 0))
		time.Sleep(5 * time.Minute)
		if w.store.keeps.Load() != 0 {
			t.Error("it is told of no use")
		}
		for range 10 {
			w.visit(t, h.Key())
		}
		time.Sleep(5 * time.Minute)
		if w.store.keeps.Load() != 1 {
			t.Errorf("it is told %d times of some uses", w.store.keeps.Load())
		}
		h.Hold()
		time.Sleep(SweepEvery(idle)*4 + 1)
		if h.Drop(); w.store.keeps.Load() < 4 {
			t.Errorf("it is told %d times of a stream", w.store.keeps.Load())
		}
		w.store.set(func() { w.store.keep = ErrUnavailable })
		w.visit(t, h.Key())
		time.Sleep(5 * time.Minute)
		w.store.set(func() { w.store.keep = nil })
		w.store.keeps.Store(0)
		time.Sleep(5 * time.Minute)
		if wantOver(t, "after an outage", h, 0); w.store.keeps.Load() != 1 {
			t.Errorf("it is told %d times after an outage", w.store.keeps.Load())
		}
	})
}

// TestBegin: a session begins in memory, full of what it has. A user at the bound gets room from the
// session unused for longest, if that is a minute.
func TestBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := openTable(t, cluster.Alone(), inMemory)
		w.refuses(t, session("u", 0), ErrNotFound)
		type part struct{ n int }
		err := w.Begin(session("u", 0), func(h *Home) { Ensure(h, func() *part { return &part{1} }) })
		if err != nil {
			t.Fatal(err)
		}
		first := w.visit(t, session("u", 0))
		p, made := Ensure(first, func() *part { return &part{2} })
		if made || p.n != 1 || Part[part](first) != p || Part[Key](first) != nil {
			t.Error("it was used before it was full")
		}
		second := w.begin(t, session("u", 1))
		second.Hold()
		w.begin(t, session("u", 2))
		time.Sleep(time.Minute - 1)
		if err := w.Begin(session("u", 3), func(*Home) {}); !errors.Is(err, ErrTooMany) {
			t.Errorf("at the bound: %v", err)
		}
		w.visit(t, session("u", 0))
		w.begin(t, session("v", 0)) // another user
		time.Sleep(time.Nanosecond)
		ended := false
		w.Known(session("u", 2)).Attach(func(why Why) { ended = why == Evicted })
		w.begin(t, session("u", 3))
		if w.Known(session("u", 2)) != nil || w.Len() != 4 || !ended {
			t.Error("another one made room")
		}
		w.wantTold(t, "closed "+session("u", 2).String()+" 3")
		time.Sleep(time.Minute)
		w.begin(t, session("u", 4))
		wantOver(t, "unused for longest", first, Evicted)
		wantOver(t, "with a stream", second, 0)
		h := w.use(t, session("u", 3))
		time.Sleep(time.Minute)
		w.use(t, session("u", 4))
		if err := w.Begin(session("u", 5), func(*Home) {}); !errors.Is(err, ErrTooMany) {
			t.Errorf("with all in use: %v", err)
		}
		if err := h.End(t.Context(), Ended); err != nil {
			t.Fatal(err)
		}
		w.begin(t, session("u", 5))
	})
}

// TestMax: there is a bound on all homes. With Redis, another replica may have room.
func TestMax(t *testing.T) {
	for name, tt := range map[string]struct {
		where func(*Config)
		want  error
	}{"in memory": {inMemory, ErrTooMany}, "with Redis": {func(*Config) {}, ErrUnavailable}} {
		t.Run(name, func(t *testing.T) {
			w := openTable(t, cluster.Alone(), func(cfg *Config) { cfg.Max = 2 }, tt.where)
			open := func(key Key) error {
				if w.alone() {
					return w.Begin(key, func(*Home) {})
				}
				h, err := w.Use(t.Context(), key)
				if err == nil {
					h.Done()
				}
				return err
			}
			for _, user := range []string{"u", "v"} {
				if err := open(session(user, 0)); err != nil {
					t.Fatal(err)
				}
			}
			if err := open(session("w", 0)); !errors.Is(err, tt.want) {
				t.Errorf("one too many: %v", err)
			}
			if err := w.Known(session("u", 0)).End(t.Context(), Ended); err != nil {
				t.Fatal(err)
			}
			if err := open(session("w", 0)); err != nil {
				t.Errorf("with room again: %v", err)
			}
		})
	}
}
