package trail

import (
	"slices"
	"sync/atomic"
	"time"
)

// Mode says which messages are kept, and for whom.
type Mode string

// Modes.
const (
	ModeOff   Mode = "off"   // none
	ModeShape Mode = "shape" // without the values that people, clients and servers chose
	ModeFull  Mode = "full"  // with these, for the role auditor
)

// Trails begin the trails of calls, and bound their messages. Nil Trails begin none. Keep comes first.
type Trails struct {
	mode  atomic.Value // a Mode
	most  atomic.Int64 // bytes
	bytes atomic.Int64 // of the messages of all trails
}

// Keep changes which messages are kept of further calls, and how many bytes the messages of all
// trails may have.
func (ts *Trails) Keep(mode Mode, most int64) {
	ts.mode.Store(mode)
	ts.most.Store(most)
}

// Begin begins the trail of a call with the time at which its request arrived. In the end, Forget frees it.
func (ts *Trails) Begin(at time.Time) *Trail {
	if ts == nil {
		return nil
	}
	return &Trail{of: ts, began: at, mode: ts.mode.Load().(Mode), round: 1}
}

// Size is how many bytes the messages of the trail have.
func (t *Trail) Size() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bytes
}

// Forget frees what the trail holds. It may be called twice, and for nil.
func (t *Trail) Forget() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of.bytes.Add(-t.bytes)
	t.gone, t.steps, t.messages, t.bytes = true, nil, nil, 0
}

// take takes room for a message.
func (ts *Trails) take(n int64) bool {
	if ts.bytes.Add(n) <= ts.most.Load() {
		return true
	}
	ts.bytes.Add(-n)
	return false
}

// View is a trail as it is now.
type View struct {
	Mode     Mode
	Steps    []Step // in the order in which they began
	Messages []Message
	// Missed is how many messages were not kept, for lack of room.
	Missed int
}

// View returns the trail as it is now; ok is false if it was forgotten, or is nil.
func (t *Trail) View() (v View, ok bool) {
	if t == nil {
		return v, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	v = View{Mode: t.mode, Steps: slices.Clone(t.steps), Messages: slices.Clone(t.messages), Missed: t.missed}
	slices.SortStableFunc(v.Steps, func(a, b Step) int { return int(a.Start - b.Start) })
	return v, !t.gone
}
