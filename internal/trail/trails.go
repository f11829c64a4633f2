package trail

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// trailSize is about what a trail takes in addition to its messages.
const trailSize = 1 << 10

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
	most  atomic.Int64 // bytes
	bytes atomic.Int64 // of the messages of all trails

	mu    sync.Mutex // guards the fields below
	ended []*Trail   // oldest first
	kept  int64      // bytes of those
}

// New makes Trails; see Keep.
func New(mode Mode, most int64) *Trails {
	ts := &Trails{}
	ts.Keep(mode, most)
	return ts
}

// Keep changes which messages are kept of the calls that begin from now on, and how many bytes all
// trails may have. Calls that have ended have half of these: the rest is for calls that run.
func (ts *Trails) Keep(mode Mode, most int64) {
	if ts != nil {
		ts.mode.Store(mode)
		ts.most.Store(most)
	}
}

// Begin begins the trail of a call, whose request arrived at a time. It has to End.
func (ts *Trails) Begin(id string, at time.Time) *Trail {
	if ts == nil {
		return nil
	}
	return &Trail{of: ts, id: id, began: at, mode: ts.mode.Load().(Mode), round: 1}
}

// End keeps the trail of a call of a user that has ended, and makes room for it (see Trim). It
// may be called twice, and more may be noted afterwards.
func (ts *Trails) End(t *Trail, user string, failed bool) {
	if t == nil {
		return
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t.ended {
		return
	}
	ordinary := !failed && time.Since(t.began) < Slow
	t.ended, t.about = true, Memory{Bytes: t.size() + trailSize, Owner: user, Ordinary: ordinary}
	ts.kept += t.about.Bytes
	ts.ended = append(ts.ended, t)
	if most := ts.most.Load() / 2; ts.kept > most {
		ts.ended = Trim(ts.ended, most, func(t *Trail) Memory { return t.about }, func(t *Trail) {
			ts.kept -= t.about.Bytes
			ts.bytes.Add(-t.forget())
		})
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
	if ts.bytes.Add(n) <= ts.most.Load() {
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
