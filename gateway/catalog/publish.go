package catalog

import (
	"slices"
	"sync"
)

// publisher gathers the states of sources that are in no snapshot yet. All that arrive while
// a snapshot is made are in the next one, so that many upstreams which answer at the same time
// cost few snapshots.
type publisher struct {
	wake chan struct{} // holds one value: there is a batch

	mu   sync.Mutex // guards next
	next *batch     // nil for none
}

type batch struct {
	states map[int]sourceState // by index of the source
	done   chan struct{}       // closed when they are published
}

func newPublisher() publisher { return publisher{wake: make(chan struct{}, 1)} }

// publish adds a source's new state to the snapshot, and returns when clients see it and
// listeners have been told what changed. Run must not have ended.
func (c *Catalog) publish(s *source, state sourceState) {
	p := &c.publisher
	p.mu.Lock()
	if p.next == nil {
		p.next = &batch{states: make(map[int]sourceState), done: make(chan struct{})}
	}
	p.next.states[s.index] = state
	done := p.next.done
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
	<-done
}

// publishAll makes the snapshots, one after the other, until stop is closed.
func (c *Catalog) publishAll(stop <-chan struct{}) {
	p := &c.publisher
	for {
		select {
		case <-p.wake:
		case <-stop:
			return
		}
		p.mu.Lock()
		b := p.next
		p.next = nil
		p.mu.Unlock()
		if b == nil {
			continue
		}
		c.publishBatch(b.states)
		close(b.done)
	}
}

func (c *Catalog) publishBatch(arrived map[int]sourceState) {
	old := c.snap.Load()
	states, changed := slices.Clone(old.states), false
	for i, state := range arrived {
		changed = changed || !state.same(&states[i])
		states[i] = state
	}
	if !changed {
		return
	}
	next := build(c.plan, states, old)
	c.snap.Store(next)
	c.logWithheld(old, next)
	for i, state := range arrived {
		if was := old.states[i]; c.onChange != nil && was.heard {
			was.compare(state, c.sources[i].naming.upstream, c.onChange)
		}
	}
	for i, kinds := range next.changed(old) {
		c.hub.announce(i, kinds, everyone)
	}
}
