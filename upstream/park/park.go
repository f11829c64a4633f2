// Package park holds calls that wait for an answer of their user.
//
// It owns a table of calls by their handles: how many calls one user may park, and when
// each call is given up. It leaves to its caller what a call is, who may take it, and how
// it ends. It starts no goroutine; timers run callbacks.
package park

import (
	"errors"
	"sync"
	"time"
)

// Errors of Table.Park.
var (
	ErrClosed = errors.New("park: closed")
	ErrFull   = errors.New("park: too many calls of the user wait")
)

// Table keeps calls by their handles. Its methods may be called concurrently.
type Table[C comparable] struct {
	giveUp func(call C, reason string)

	mu     sync.Mutex // guards the fields below
	calls  map[string]*parked[C]
	users  map[string]int
	closed bool
}

type parked[C any] struct {
	call  C
	user  string
	timer *time.Timer
}

// New returns an empty table. giveUp ends a call that nobody came back for; it must not
// block.
func New[C comparable](giveUp func(call C, reason string)) *Table[C] {
	return &Table[C]{giveUp: giveUp, calls: make(map[string]*parked[C]), users: make(map[string]int)}
}

// Park returns the call at a handle, and starts its time limit anew. If there is none, it
// parks the call that begin returns. most bounds how many calls the user may have parked.
// Errors are those of begin, ErrClosed and ErrFull.
//
// begin must not use the table.
func (t *Table[C]) Park(handle string, user string, most int, limit time.Duration, begin func() (C, error)) (call C, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.calls[handle]; p != nil {
		p.timer.Reset(limit)
		return p.call, nil
	}
	switch {
	case t.closed:
		return call, ErrClosed
	case t.users[user] >= most:
		return call, ErrFull
	}
	if call, err = begin(); err != nil {
		return call, err
	}
	t.calls[handle] = &parked[C]{call: call, user: user, timer: time.AfterFunc(limit, func() {
		if t.Remove(handle, call) {
			t.giveUp(call, "nobody answered in time")
		}
	})}
	t.users[user]++
	return call, nil
}

// Find returns the call at a handle; ok is false if there is none.
func (t *Table[C]) Find(handle string) (call C, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.calls[handle]; p != nil {
		return p.call, true
	}
	return call, false
}

// Take removes the call at a handle, if it fits; ok is false if there is none. Of several
// concurrent callers, only one gets the call.
func (t *Table[C]) Take(handle string, fits func(C) bool) (call C, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.calls[handle]; p != nil && fits(p.call) {
		t.remove(handle, p)
		return p.call, true
	}
	return call, false
}

// Remove removes a call, and reports whether it was there.
func (t *Table[C]) Remove(handle string, call C) bool {
	_, ok := t.Take(handle, func(parked C) bool { return parked == call })
	return ok
}

// remove is called with mu held.
func (t *Table[C]) remove(handle string, p *parked[C]) {
	delete(t.calls, handle)
	p.timer.Stop()
	if t.users[p.user]--; t.users[p.user] == 0 {
		delete(t.users, p.user)
	}
}

// GiveUp gives up all calls for which which reports true, for one reason.
func (t *Table[C]) GiveUp(reason string, which func(C) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for handle, p := range t.calls {
		if which(p.call) {
			t.remove(handle, p)
			t.giveUp(p.call, reason)
		}
	}
}

// Close gives up all calls. No call can be parked afterwards.
func (t *Table[C]) Close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.GiveUp("the gateway is closing the server", func(C) bool { return true })
}

// Len returns how many calls are parked.
func (t *Table[C]) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.calls)
}
