package pool

import "time"

// End ends an entry for good when its holders have left. forget is passed to Config.End.
func (p *Pool[K, D, V]) End(e *Entry[K, D, V], forget bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.ended {
		return
	}
	left := make(chan struct{})
	if e.busy > 0 {
		e.left = left
	} else {
		close(left)
	}
	p.drop(e, forget, left)
}

// Reset ends all entries.
func (p *Pool[K, D, V]) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropAll(true)
}

// Close ends all entries, without forgetting any, and lets nothing be opened afterwards.
func (p *Pool[K, D, V]) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.sweeper != nil {
		p.sweeper.Stop()
	}
	p.dropAll(false)
}

// dropAll is called with mu held.
func (p *Pool[K, D, V]) dropAll(forget bool) {
	for _, e := range p.entries {
		p.drop(e, forget, nil)
	}
}

// sweep ends entries that were idle for too long.
func (p *Pool[K, D, V]) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweeper = nil
	for _, e := range p.entries {
		switch {
		case !e.Sweeps || p.closed:
		case e.busy == 0 && time.Since(e.used) >= p.idle(e) && time.Now().After(e.until):
			p.drop(e, true, nil)
		default:
			p.sweepIn(max(p.idle(e)/10, time.Second))
		}
	}
}

// idle returns after how much time without use an entry ends.
func (p *Pool[K, D, V]) idle(e *Entry[K, D, V]) time.Duration {
	if e.Brief {
		return min(p.cfg.Idle, briefIdle)
	}
	return p.cfg.Idle
}

// sweepIn makes sweep run after a time, or before. mu is held.
func (p *Pool[K, D, V]) sweepIn(d time.Duration) {
	at := time.Now().Add(d)
	if p.sweeper != nil {
		if !at.Before(p.sweeps) {
			return
		}
		p.sweeper.Stop()
	}
	p.sweeper, p.sweeps = time.AfterFunc(d, p.sweep), at
}

// drop ends an entry for good, and its value, if there is one, when left is closed. mu is
// held.
func (p *Pool[K, D, V]) drop(e *Entry[K, D, V], forget bool, left <-chan struct{}) {
	if p.entries[e.Key] == e {
		delete(p.entries, e.Key)
	}
	var none V
	value := e.current
	e.ended, e.forget, e.current = true, forget, none
	gone := func() {}
	if value != none {
		gone = p.leaves()
	}
	p.cfg.Spawn(func() {
		p.cfg.End(e, value, forget, left)
		gone()
	})
}
