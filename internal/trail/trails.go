package trail

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// MostTrails is how many calls are kept after they have ended.
	MostTrails = 500
	// mostBytes bounds the messages of all calls, and keptBytes those of calls that have ended:
	// the rest is for calls that run.
	mostBytes = 16 << 20
	keptBytes = 8 << 20
)

// Mode says which messages are kept, and for whom.
type Mode string

// Modes.
const (
	ModeOff   Mode = "off"   // none
	ModeShape Mode = "shape" // without the values that people, clients and servers chose
	ModeFull  Mode = "full"  // with these, for the role auditor
)

// Trails are the trails of the calls that run, and of the last calls. A nil Trails keeps none.
type Trails struct {
	mode  atomic.Value // a Mode
	bytes atomic.Int64 // of the messages of all trails

	mu    sync.Mutex // guards the fields below
	ended []*Trail   // oldest first
	kept  int64      // bytes of those
}

// New makes Trails.
func New(mode Mode) *Trails {
	ts := &Trails{}
	ts.Keep(mode)
	return ts
}

// Keep changes which messages are kept of the calls that begin from now on.
func (ts *Trails) Keep(mode Mode) {
	if ts != nil {
		ts.mode.Store(mode)
	}
}

// Begin begins the trail of a call, whose request arrived at a time. It has to End.
func (ts *Trails) Begin(id string, at time.Time) *Trail {
	if ts == nil {
		return nil
	}
	return &Trail{of: ts, id: id, began: at, mode: ts.mode.Load().(Mode), round: 1}
}

// End keeps the trail of a call that has ended, and forgets the oldest ones beyond the bounds. It
// may be called twice, and more may be noted afterwards.
func (ts *Trails) End(t *Trail) {
	if t == nil {
		return
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t.ended {
		return
	}
	t.ended, t.counted = true, t.size()
	ts.kept += t.counted
	ts.ended = append(ts.ended, t)
	for len(ts.ended) > MostTrails || ts.kept > keptBytes && len(ts.ended) > 1 {
		ts.kept -= ts.ended[0].counted
		ts.bytes.Add(-ts.ended[0].forget())
		ts.ended[0] = nil
		ts.ended = ts.ended[1:]
	}
}

// size is how many bytes the messages of the trail have.
func (t *Trail) size() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bytes
}

// forget frees what the trail holds, and returns how many bytes that were.
func (t *Trail) forget() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gone, t.steps, t.messages = true, nil, nil
	return t.bytes
}

// take takes room for a message.
func (ts *Trails) take(n int64) bool {
	if ts.bytes.Add(n) <= mostBytes {
		return true
	}
	ts.bytes.Add(-n)
	return false
}

// View is a trail as it is now.
type View struct {
	Began    time.Time
	Mode     Mode
	Steps    []Step // in the order in which they began
	Messages []Message
	// Missed is how many messages were not kept, for lack of room.
	Missed int
}

// Find returns the trail of a call that has ended; ok is false if there is none.
func (ts *Trails) Find(id string) (v View, ok bool) {
	if ts == nil {
		return v, false
	}
	ts.mu.Lock()
	at := slices.IndexFunc(ts.ended, func(t *Trail) bool { return t.id == id })
	var t *Trail
	if at >= 0 {
		t = ts.ended[at]
	}
	ts.mu.Unlock()
	if t == nil {
		return v, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	v = View{Began: t.began, Mode: t.mode, Steps: slices.Clone(t.steps), Messages: slices.Clone(t.messages), Missed: t.missed}
	slices.SortStableFunc(v.Steps, func(a, b Step) int { return int(a.Start - b.Start) })
	return v, true
}
