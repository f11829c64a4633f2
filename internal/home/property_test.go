package home

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
)

// attachedEnd is what a test has attached to a home.
type attachedEnd struct {
	before   bool // it was attached before the home was over
	detached bool
	ended    []int // when, by watched.step
}

// watched is what a test has seen of one home.
type watched struct {
	attaching sync.Mutex // held to attach, so that the order is known

	mu       sync.Mutex // guards the fields below
	attached []*attachedEnd
	step     int // counts ends and Closed
	closed   int // the step of Closed, 0 for none
}

// check checks how everything has ended.
func (w *watched) check(t *testing.T) {
	next := 1 << 30 // the end of what was attached after
	for _, a := range w.attached {
		switch {
		case a.detached && len(a.ended) > 0:
			t.Error("what was detached has ended")
		case !a.detached && len(a.ended) != 1:
			t.Errorf("something has ended %d times", len(a.ended))
		case a.detached || !a.before:
		case a.ended[0] >= next:
			t.Error("an end out of order")
		case a.ended[0] >= w.closed:
			t.Error("an end after the last")
		default:
			next = a.ended[0]
		}
	}
}

// model is the Events of a table, and watches all of its homes.
type model struct {
	t      *testing.T
	asking sync.WaitGroup // uses that last longer than their calls

	mu    sync.Mutex // guards the fields below
	homes map[*Home]*watched
	open  map[Key]*Home // opened and not closed
	over  map[Key]*Home // known to be over
}

// Opened checks that the last home of the session has ended.
func (m *model) Opened(h *Home) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open[h.Key()] != nil {
		m.t.Error("a session has two homes")
	}
	m.open[h.Key()] = h
}

// Closed checks that all has ended.
func (m *model) Closed(h *Home, why Why) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open[h.Key()] == h {
		delete(m.open, h.Key())
	}
	if !h.IsOver() || h.Why() != why {
		m.t.Error("it is closed before it is over")
	}
	w := m.watch(h)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.step++
	w.closed = w.step
}

// watch returns what was seen of a home. The caller holds mu.
func (m *model) watch(h *Home) *watched {
	if m.homes[h] == nil {
		m.homes[h] = &watched{}
	}
	return m.homes[h]
}

// attach attaches something to a home, and returns what detaches it.
func (m *model) attach(h *Home) (detach func()) {
	m.mu.Lock()
	w := m.watch(h)
	m.mu.Unlock()
	w.attaching.Lock()
	defer w.attaching.Unlock()
	a := &attachedEnd{}
	undo := h.Attach(func(Why) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.step++
		a.ended = append(a.ended, w.step)
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	a.before = !h.IsOver()
	w.attached = append(w.attached, a)
	return func() {
		done := undo()
		w.mu.Lock()
		defer w.mu.Unlock()
		a.detached = a.detached || done
	}
}

// use begins a use, and checks that the home was not over before.
func (m *model) use(table *Table, key Key) *Home {
	m.mu.Lock()
	over := m.over[key]
	m.mu.Unlock()
	h, err := table.Use(context.Background(), key)
	if err != nil {
		return nil
	}
	if h == over {
		m.t.Error("a home that is over is used")
	}
	return h
}

// note notes that a home is over.
func (m *model) note(h *Home) {
	if h.IsOver() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.over[h.Key()] = h
	}
}

// work does random things with the homes of a table. It runs in a synctest bubble.
func (m *model) work(w *testTable, random *rand.Rand, times int) {
	for range times {
		key := session([]string{"u", "v"}[random.IntN(2)], random.IntN(3))
		if random.IntN(4) == 0 {
			key.ID = Derived(key.ID[25:])
		}
		h := m.use(w.Table, key)
		if h == nil {
			w.store.set(func() { w.store.load, w.store.keep, w.store.end, w.store.gone = nil, nil, nil, make(map[Key]bool) })
			time.Sleep(time.Duration(random.Int64N(int64(time.Second))))
			continue
		}
		done := h.Done
		for range random.IntN(4) {
			switch random.IntN(10) {
			case 0, 1:
				m.attach(h)
			case 2:
				defer m.attach(h)()
			case 3:
				m.attach(h)()
			case 4:
				h.Hold()
				time.Sleep(time.Duration(random.Int64N(int64(time.Minute))))
				h.Drop()
			case 5:
				h.Again()
				m.asking.Go(func() {
					time.Sleep(time.Minute)
					h.Done()
				})
			case 6:
				time.Sleep(time.Duration(random.Int64N(int64(time.Second))))
			case 7:
				_ = h.End(context.Background(), Ended) // the store may refuse it
			case 8:
				h.EndLater(Why(random.Int64N(int64(Left)) + 1))
			case 9:
				if random.IntN(3) == 0 {
					h.Refused()
				}
			}
			m.note(h)
		}
		done()
		m.note(h)
		switch random.IntN(20) {
		case 0:
			time.Sleep(time.Duration(random.Int64N(int64(2 * idle))))
		case 1:
			w.Release(key)
		case 2:
			err := []error{ErrNotFound, ErrMoved, ErrUnavailable}[random.IntN(3)]
			w.store.set(func() { w.store.load, w.store.keep, w.store.end = err, err, err })
		}
	}
}

// TestRandomOrders: whatever happens to homes in whichever order, each thing attached ends once, the
// last one first, and none after the home was closed. No home is used that is over, no session has
// two homes, and nothing is left.
func TestRandomOrders(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			m := &model{t: t, homes: make(map[*Home]*watched), open: make(map[Key]*Home), over: make(map[Key]*Home)}
			w := openTable(t, cluster.Alone(), func(cfg *Config) { cfg.Max, cfg.Events = 5, m })
			var all sync.WaitGroup
			for worker := range uint64(6) {
				all.Go(func() { m.work(w, rand.New(rand.NewPCG(seed, worker)), 60) })
			}
			all.Go(func() {
				if seed%3 == 0 {
					time.Sleep(time.Duration(seed) * time.Minute)
					w.ReleaseAll(t.Context())
				}
			})
			all.Wait()
			m.asking.Wait()
			time.Sleep(time.Hour)
			w.Close(t.Context())
			if len(m.open) != 0 {
				t.Errorf("%d homes were not closed", len(m.open))
			}
			for h, seen := range m.homes {
				if h.uses != 0 || h.holds != 0 {
					t.Errorf("%d uses and %d holds are left", h.uses, h.holds)
				}
				seen.check(t)
			}
		})
	}
}
