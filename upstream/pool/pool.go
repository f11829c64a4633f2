// Package pool holds values by their keys, and opens each value when it is first needed. It does so
// once, however many callers wait for it, and only when there is a place for it.
//
// It owns the entries, how users share the places, the pauses before a failed value is
// opened again, and when a value ends. It leaves to its caller what a value is, how it is
// opened and how it ends. It runs one goroutine for each value that is being opened or
// ended, through the caller's Spawn.
package pool

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
)

const (
	// AtOnce bounds how many values are opened at a time, so that forgotten sessions do not overrun
	// a server that comes back. One user may take half of it.
	AtOnce = 20
	// apart is the longest extra pause of a value that had to wait for its turn.
	apart = 25 * time.Millisecond
	// briefIdle is the longest idle time of a Brief entry.
	briefIdle = 10 * time.Second
)

// ErrDown is the error for a value that ends again and again, and is not opened for now.
var ErrDown = errors.New("it ends again and again")

// Config configures a Pool. All fields are required.
type Config[K comparable, D any, V comparable] struct {
	Places int             // how many values there may be; see room.go
	Idle   time.Duration   // after this time without use an entry that Sweeps ends
	Base   context.Context // of everything that is opened; its end ends all waiting
	Spawn  func(func())    // runs work that no caller waits for

	Over   func(V) bool     // reports whether a value has ended by itself
	Opened func(error)      // receives the result of each attempt to open a value
	Keeps  func(error) bool // reports whether an entry that failed to open stays, to remember the error
	// End ends the value of an entry that has ended for good, once left is closed; a nil left means
	// at once. The value is zero if there was none. forget says that the key will not be used
	// again.
	End func(e *Entry[K, D, V], value V, forget bool, left <-chan struct{})
}

// Pool holds values V by keys K, with data D of its caller. Its methods may be called
// concurrently.
type Pool[K comparable, D any, V comparable] struct {
	cfg   Config[K, D, V]
	opens *admit.Queue // admits the attempts to open values

	mu      sync.Mutex // guards the fields below and those of entries; not held over I/O
	entries map[K]*Entry[K, D, V]
	ending  []chan struct{} // one for each ending value with a place not taken yet; closed when it has ended
	sweeper *time.Timer     // runs while there are entries that end by idle time
	sweeps  time.Time       // when it does
	closed  bool
}

// Entry is the place of one value. The value may end and be opened again.
type Entry[K comparable, D any, V comparable] struct {
	// Key does not change. The other exported fields are set once, when the entry is made.
	Key    K
	Data   D
	User   string // one of the users who share the places; "" without authentication
	Sweeps bool   // it ends by idle time
	Brief  bool   // its idle time is short: it is for a few calls, one after the other

	current V
	opening *opening[V]
	after   <-chan struct{} // set once, too: closed when the value may be opened; nil for at once
	busy    int             // how many holders it has
	left    chan struct{}   // closed when there is no holder any more; nil if that is not awaited
	used    time.Time
	until   time.Time // it does not count as idle before
	ended   bool
	forget  bool // set with ended: it will not be used again
	backoff backoff
}

// opening is one attempt that several callers wait for.
type opening[V any] struct {
	done  chan struct{}
	value V
	err   error
}

// New returns an empty Pool.
func New[K comparable, D any, V comparable](cfg Config[K, D, V]) *Pool[K, D, V] {
	return &Pool[K, D, V]{
		cfg:     cfg,
		opens:   admit.NewQueue(AtOnce, AtOnce/2, 2*cfg.Places, 0, cfg.Base.Done()),
		entries: make(map[K]*Entry[K, D, V]),
	}
}

// Acquire returns the value of a key, and opens it if necessary. The caller must release
// its entry.
//
// enter is called with the entry before it is used, under the pool's lock; fresh says that
// enter has to fill it in. open runs independently of the callers, who may leave. Errors
// are those of open, ErrDown, admit.ErrOverloaded, admit.ErrDraining and the cause of ctx.
func (p *Pool[K, D, V]) Acquire(ctx context.Context, key K, enter func(e *Entry[K, D, V], fresh bool),
	open func(*Entry[K, D, V]) (V, error)) (value V, err error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return value, admit.ErrDraining
	}
	if ctx.Err() != nil { // the key may be over, and a value opened now would remain
		p.mu.Unlock()
		return value, context.Cause(ctx)
	}
	e := p.entries[key]
	fresh := e == nil
	if fresh {
		e = &Entry[K, D, V]{Key: key}
	}
	enter(e, fresh)
	if fresh && !p.makeRoom(e) {
		p.mu.Unlock()
		return value, admit.ErrOverloaded
	}
	p.entries[key] = e
	e.busy++
	if value = e.current; p.lives(value) {
		p.mu.Unlock()
		return value, nil
	}
	o, first := e.opening, false
	if o == nil {
		o, first = &opening[V]{done: make(chan struct{})}, true
		e.opening = o
	}
	p.mu.Unlock()
	if first {
		p.cfg.Spawn(func() { p.open(e, o, open) })
	}
	select {
	case <-o.done:
		value, err = o.value, o.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		p.Release(e)
	}
	return value, err
}

// Has reports whether there is a value of a key that can be used.
func (p *Pool[K, D, V]) Has(key K) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.entries[key]
	return e != nil && p.lives(e.current)
}

// lives reports whether a value can be used.
func (p *Pool[K, D, V]) lives(value V) bool {
	var none V
	return value != none && !p.cfg.Over(value)
}

// Hold holds the caller's entry once more. It must be released once more.
func (p *Pool[K, D, V]) Hold(e *Entry[K, D, V]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.busy++
}

// Release releases an entry.
func (p *Pool[K, D, V]) Release(e *Entry[K, D, V]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.busy--
	if e.busy == 0 && e.left != nil {
		close(e.left)
		e.left = nil
	}
	e.used = time.Now()
	if e.Sweeps && !p.closed {
		p.sweepIn(p.idle(e))
	}
}

// KeepUntil keeps an entry until a time, even while it is idle.
func (p *Pool[K, D, V]) KeepUntil(e *Entry[K, D, V], until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until.After(e.until) {
		e.until = until
	}
}

// Lose removes a value that is no longer usable, and reports whether it was there. The next
// Acquire opens a new one.
func (p *Pool[K, D, V]) Lose(e *Entry[K, D, V], value V) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.current != value {
		return false
	}
	var none V
	e.current = none
	return true
}

// Crashed records that an entry's value ended by itself after the time lived, or could not be
// opened. It is opened again only after a pause.
func (p *Pool[K, D, V]) Crashed(e *Entry[K, D, V], lived time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.backoff.crashed(time.Now(), lived)
}

func (p *Pool[K, D, V]) open(e *Entry[K, D, V], o *opening[V], open func(*Entry[K, D, V]) (V, error)) {
	if o.err = p.turn(e); o.err == nil {
		if o.err = p.pause(e); o.err == nil {
			o.value, o.err = open(e)
		}
		p.cfg.Opened(o.err)
		p.opens.Release(e.User)
	}
	p.mu.Lock()
	e.opening = nil
	value, forget := o.value, e.forget
	unwanted := o.err == nil && (p.closed || e.ended)
	switch {
	case unwanted:
		var none V
		o.value, o.err = none, admit.ErrDraining
	case o.err == nil:
		e.current = value
	case !p.cfg.Keeps(o.err):
		p.drop(e, true, nil)
	}
	p.mu.Unlock()
	if unwanted {
		p.cfg.End(e, value, forget, nil)
	}
	close(o.done)
}

// turn waits until an entry may be opened. After a nil error the caller must leave opens.
// Entries that had to wait are spread over time, also across several gateways.
func (p *Pool[K, D, V]) turn(e *Entry[K, D, V]) error {
	if e.after != nil {
		select {
		case <-e.after:
		case <-p.cfg.Base.Done():
			return admit.ErrDraining
		}
	}
	waited, err := p.opens.Enter(context.Background(), e.User) // it ends with Base
	if err == nil && waited {
		if err = p.sleep(rand.N(apart)); err != nil {
			p.opens.Release(e.User)
		}
	}
	return err
}

// pause waits out the pause after a failure.
func (p *Pool[K, D, V]) pause(e *Entry[K, D, V]) error {
	p.mu.Lock()
	pause, down := e.backoff.pause(time.Now())
	p.mu.Unlock()
	if down {
		return ErrDown
	}
	return p.sleep(max(pause, 0))
}

func (p *Pool[K, D, V]) sleep(d time.Duration) error {
	if p.cfg.Base.Err() != nil {
		return admit.ErrDraining
	}
	if d == 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-p.cfg.Base.Done():
		return admit.ErrDraining
	}
}

// Current returns the value, zero for none. It is for use in a loop over Pool.All.
func (e *Entry[K, D, V]) Current() V { return e.current }

// All iterates over the entries. It holds the pool's lock: the loop must not use the pool.
func (p *Pool[K, D, V]) All() iter.Seq[*Entry[K, D, V]] {
	return func(yield func(*Entry[K, D, V]) bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, e := range p.entries {
			if !yield(e) {
				return
			}
		}
	}
}

// Len returns how many values are open.
func (p *Pool[K, D, V]) Len() (n int) {
	for e := range p.All() {
		if p.lives(e.current) {
			n++
		}
	}
	return n
}
