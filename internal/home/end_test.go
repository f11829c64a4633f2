package home

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
)

// TestEnds: each reason for an end, while something runs in a session. What is attached ends once,
// in reverse order. It runs in synctest bubbles.
func TestEnds(t *testing.T) {
	ends := map[string]struct {
		why Why
		do  func(t *testing.T, w *testTable, h *Home)
		// whether the session ends while it is in use, and while a stream is open
		used, streams bool
	}{
		"ended": {Ended, func(t *testing.T, _ *testTable, h *Home) {
			if err := h.End(t.Context(), Ended); err != nil {
				t.Error(err)
			}
		}, true, true},
		"moved": {Moved, func(_ *testing.T, _ *testTable, h *Home) { h.Refused() }, true, true},
		"left":  {Left, func(t *testing.T, w *testTable, _ *Home) { w.ReleaseAll(t.Context()) }, false, true},
		"asked for": {Left, func(_ *testing.T, w *testTable, h *Home) {
			if w.Release(h.Key()); !h.IsOver() {
				w.leaving.Store(true) // the replica that asks is answered so once it leaves
			}
		}, false, true},
		"idle": {Idle, func(*testing.T, *testTable, *Home) { time.Sleep(2 * idle) }, false, false},
		"gone": {Gone, func(t *testing.T, w *testTable, h *Home) {
			w.store.set(func() { w.store.keep = ErrNotFound })
			time.Sleep(time.Second)
			w.visit(t, h.Key())
			time.Sleep(time.Minute)
		}, true, true},
	}
	runs := map[string]struct {
		begin, end    func(h *Home)
		used, streams bool
	}{
		"nothing":  {func(*Home) {}, func(*Home) {}, false, false},
		"a call":   {(*Home).Again, (*Home).Done, true, false},
		"a stream": {func(h *Home) { h.Hold() }, func(h *Home) { h.Drop() }, false, true},
		"both":     {func(h *Home) { h.Again(); h.Hold() }, func(h *Home) { h.Drop(); h.Done() }, true, true},
	}
	for name, end := range ends {
		for what, run := range runs {
			t.Run(name+" with "+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := openTable(t, cluster.Alone())
					key := session("u", 0)
					h := w.use(t, key)
					var ended []string
					for _, name := range []string{"a", "b", "c"} {
						h.Attach(func(why Why) { ended = append(ended, fmt.Sprint(name, why)) })
					}
					if detach := h.Attach(func(Why) { t.Error("what was detached has ended") }); !detach() || detach() {
						t.Error("detaching twice")
					}
					run.begin(h)
					h.Done()
					end.do(t, w, h)
					synctest.Wait()
					if waits := run.used && !end.used || run.streams && !end.streams; waits {
						wantOver(t, "while it runs", h, 0)
						run.end(h)
						time.Sleep(2 * idle)
						synctest.Wait()
					} else {
						defer run.end(h)
					}
					wantOver(t, "at the end", h, end.why)
					want := []string{fmt.Sprint("c", end.why), fmt.Sprint("b", end.why), fmt.Sprint("a", end.why)}
					if !slices.Equal(ended, want) {
						t.Errorf("ended %q, want %q", ended, want)
					}
					w.wantTold(t, "opened "+key.String(), fmt.Sprintf("closed %s %d", key, end.why))
					if h.Attach(func(why Why) { ended = append(ended, fmt.Sprint("late", why)) })() || len(ended) != 4 {
						t.Errorf("what is attached afterwards: %q", ended)
					}
					switch {
					case end.why == Ended, end.why == Idle:
						w.refuses(t, key, ErrNotFound)
					case w.visit(t, key) == h:
						t.Error("a home that is over is used")
					}
				})
			})
		}
	}
}

// TestEndsWhileItLoads: a session that ends, moves or is given up while its record is read was never
// used here.
func TestEndsWhileItLoads(t *testing.T) {
	for name, tt := range map[string]struct {
		meanwhile func(w *testTable)
		want      error
		told      []string // what the Events are told, each once
	}{
		"it exists":    {func(*testTable) {}, nil, []string{"opened"}},
		"it has ended": {func(w *testTable) { w.store.gone[session("u", 0)] = true }, ErrNotFound, nil},
		"it is idle":   {func(w *testTable) { w.store.unused = idle }, ErrNotFound, []string{"closed"}},
		"it was used elsewhere since": {
			func(w *testTable) { w.store.unused, w.store.end = idle, ErrMoved }, ErrUnavailable, []string{"closed"},
		},
		"it moves all the time": {func(w *testTable) { w.store.load = ErrMoved }, ErrUnavailable, nil},
		"Redis is away":         {func(w *testTable) { w.store.load = ErrUnavailable }, ErrUnavailable, nil},
		"the table leaves":      {func(w *testTable) { w.leaving.Store(true) }, nil, []string{"closed", "opened"}},
		"the table is closed":   {func(w *testTable) { go w.Close(context.Background()) }, ErrUnavailable, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := openTable(t, cluster.Alone())
				w.store.loading = make(chan struct{})
				for range 3 {
					go func() {
						h, err := w.Use(t.Context(), session("u", 0))
						if !errors.Is(err, tt.want) || (h == nil) != (err != nil) {
							t.Errorf("Use: %v, want %v", err, tt.want)
						}
						if h != nil {
							h.Done()
						}
					}()
				}
				gone, leave := context.WithCancel(t.Context())
				go func() {
					if _, err := w.Use(gone, session("u", 0)); !errors.Is(err, ErrUnavailable) {
						t.Errorf("Use of a client that leaves: %v", err)
					}
				}()
				synctest.Wait()
				if w.Known(session("u", 0)) != nil || len(w.All()) != 0 {
					t.Error("it is known before it is open")
				}
				leave()
				synctest.Wait()
				w.store.set(func() { tt.meanwhile(w) })
				synctest.Wait()
				close(w.store.loading)
				synctest.Wait()
				w.mu.Lock()
				defer w.mu.Unlock()
				for i, told := range w.told {
					w.told[i], _, _ = strings.Cut(told, " ")
				}
				slices.Sort(w.told)
				if got := slices.Compact(w.told); !slices.Equal(got, tt.told) {
					t.Errorf("told %q, want %q", got, tt.told)
				}
			})
		})
	}
}

// TestEndsThatFail: a session goes on whose end the store does not take, unless another replica owns
// it.
func TestEndsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := openTable(t, cluster.Alone())
		h := w.visit(t, session("u", 0))
		w.store.set(func() { w.store.end = ErrUnavailable })
		if err := h.End(t.Context(), Ended); !errors.Is(err, ErrUnavailable) {
			t.Errorf("without Redis: %v", err)
		}
		wantOver(t, "without Redis", h, 0)
		time.Sleep(idle + time.Minute)
		wantOver(t, "idle, without Redis", h, 0)
		w.refuses(t, h.Key(), ErrUnavailable) // it has expired for good
		w.store.set(func() { w.store.end = nil })
		time.Sleep(time.Minute)
		wantOver(t, "idle, with Redis again", h, Idle)

		for what, end := range map[string]func(h *Home){
			"ended": func(h *Home) {
				if err := h.End(t.Context(), Ended); !errors.Is(err, ErrMoved) {
					t.Errorf("of another replica: %v", err)
				}
			},
			"idle": func(*Home) { time.Sleep(2 * idle) },
		} {
			w.store.set(func() { w.store.end, w.store.keep = ErrMoved, nil })
			h := w.visit(t, session("u", 1))
			end(h)
			wantOver(t, what, h, Moved)
		}
		stuck, cancel := context.WithCancel(t.Context())
		h = w.visit(t, session("u", 2))
		if err := h.Take(t.Context()); err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := h.End(stuck, Ended); !errors.Is(err, ErrUnavailable) {
			t.Errorf("while its turn is taken: %v", err)
		}
		h.Give()
		wantOver(t, "while its turn is taken", h, 0)
	})
}

// TestANewHomeWaits: a session has no new home here before everything of the old one has ended. A
// session that has ended is not waited for.
func TestANewHomeWaits(t *testing.T) {
	for _, why := range []Why{Left, Moved, Gone} {
		synctest.Test(t, func(t *testing.T) {
			w := openTable(t, cluster.Alone())
			h := w.visit(t, session("u", 0))
			ending := make(chan struct{})
			h.Attach(func(Why) { <-ending })
			h.EndLater(why)
			if why == Gone {
				w.refuses(t, h.Key(), ErrNotFound)
				close(ending)
				return
			}
			short, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := w.Use(short, h.Key()); !errors.Is(err, ErrUnavailable) {
				t.Errorf("a use that does not wait: %v", err)
			}
			used := make(chan *Home)
			go func() {
				next, _ := w.Use(t.Context(), h.Key())
				used <- next
			}()
			go func() {
				if err := h.End(t.Context(), Ended); err != nil { // it waits, too
					t.Error(err)
				}
				used <- nil
			}()
			go func() {
				w.Release(h.Key()) // so does who makes room for another replica
				used <- nil
			}()
			synctest.Wait()
			select {
			case <-used:
				t.Fatal("it did not wait")
			default:
			}
			close(ending)
			for range 3 {
				if next := <-used; next != nil {
					if next == h {
						t.Error("the old home is used")
					}
					next.Done()
				}
			}
		})
	}
}

// TestLeave: a replica that leaves gives its homes up as their last uses end. One request may have
// a home given up for it.
func TestLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := openTable(t, cluster.Alone())
		unused, twice, handed := w.visit(t, session("u", 0)), w.use(t, session("u", 1)), w.use(t, session("u", 2))
		twice.Again()
		if w.Release(handed.Key()) {
			t.Error("a home in use was given up")
		}
		handed.Done()
		if w.Leaving() || !w.Release(handed.Key()) || !w.Release(handed.Key()) {
			t.Error("it leaves already, or a home is not given up")
		}
		wantOver(t, "given up", handed, Left)
		w.ReleaseAll(t.Context())
		if wantOver(t, "unused", unused, Left); !w.Leaving() {
			t.Error("it does not leave")
		}
		twice.Done()
		wantOver(t, "in use", twice, 0)
		late := w.use(t, session("u", 3)) // another replica may not be there yet
		twice.Done()
		late.Done()
		synctest.Wait()
		wantOver(t, "after its last use", twice, Left)
		wantOver(t, "a new one after its last use", late, Left)
	})
}

// TestLeaveIsBounded: a replica that stops gives up several sessions at a time, and no more of them
// once its time for that is over, such as when Redis does not answer. The others stay as they are.
func TestLeaveIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := openTable(t, cluster.Alone(), func(cfg *Config) { cfg.Max = 10 * atOnce })
		for i := range 10 * atOnce {
			w.visit(t, Key{"u", Derived(fmt.Sprint(i))}).Attach(func(Why) { time.Sleep(time.Second) })
		}
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		began := time.Now()
		w.ReleaseAll(ctx)
		if took := time.Since(began); took != 2*time.Second || len(w.All()) != 8*atOnce {
			t.Errorf("after %s, %d are left", took, len(w.All()))
		}
		for _, h := range w.All() {
			if w.use(t, h.Key()) != h {
				t.Fatal("one that was not given up has another home")
			}
		}
	})
}

// TestClose: Close ends all homes, even in use, waits for ends that run, and refuses new uses.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := openTable(t, cluster.Alone())
		used, ends := w.use(t, session("u", 0)), w.visit(t, session("u", 1))
		ending, closed := make(chan struct{}), make(chan struct{})
		ends.Attach(func(Why) { <-ending })
		ends.EndLater(Gone)
		go func() {
			w.Close(t.Context())
			close(closed)
		}()
		synctest.Wait()
		wantOver(t, "in use", used, Left)
		select {
		case <-closed:
			t.Error("it does not wait for an end")
		default:
		}
		close(ending)
		<-closed
		used.Done()
		w.refuses(t, session("u", 0), ErrUnavailable)
		w.refuses(t, session("u", 2), ErrUnavailable)
		if err := w.Begin(session("u", 3), func(*Home) {}); !errors.Is(err, ErrUnavailable) {
			t.Errorf("Begin: %v", err)
		}
		w.Close(t.Context()) // again
	})
}
