package pool

import "slices"

// Users share the places: each may have as many as they leave free, so the first half of
// them, the next a quarter, and one who has none finds one. When all are taken, idle entries
// of those who have the most make room. Without authentication there is one user, who may
// have all.

// makeRoom finds a place for an entry, at the cost of an idle one where need be. mu is held.
func (p *Pool[K, D, V]) makeRoom(e *Entry[K, D, V]) bool {
	most := p.cfg.Places
	if len(p.entries)+len(p.ending) < most/2 { // the usual case: nobody can have too many
		return true
	}
	taken, of := 0, make(map[string]int)
	for _, other := range p.entries {
		if other != e {
			taken++
			of[other.User]++
		}
	}
	free, own := most-taken, of[e.User]
	if free <= 0 || e.User != "" && own >= free {
		victim := p.idlest(e, of, free <= 0)
		if victim == nil {
			return false
		}
		p.drop(victim, true, nil)
		taken--
	}
	if taken+len(p.ending) >= most && len(p.ending) > 0 { // at the server they are still there
		e.after = p.ending[0]
		p.ending = slices.Delete(p.ending, 0, 1)
	}
	return true
}

// idlest returns the entry that has to make room for another one, nil for none: of the user
// who has the most places the one that was not used for the longest time. One that ends by
// idle time goes first; another one goes only where all places are taken, and what its user
// had there is lost. mu is held.
func (p *Pool[K, D, V]) idlest(e *Entry[K, D, V], of map[string]int, full bool) (victim *Entry[K, D, V]) {
	for _, other := range p.entries {
		switch {
		case other == e || other.busy > 0:
		case other.User == e.User && !other.Sweeps:
		case other.User != e.User && (!full || of[other.User] <= of[e.User]): // they have no more than this one
		case !other.Sweeps && of[other.User] == of[e.User]+1: // nor after that
		case !other.Sweeps && other.User == "": // the gateway's own
		case victim == nil || other.goesBefore(victim, of):
			victim = other
		}
	}
	return victim
}

func (e *Entry[K, D, V]) goesBefore(other *Entry[K, D, V], of map[string]int) bool {
	switch {
	case e.Sweeps != other.Sweeps:
		return e.Sweeps
	case of[e.User] != of[other.User]:
		return of[e.User] > of[other.User]
	}
	return e.used.Before(other.used)
}

// leaves notes that a value is about to end, of which a new one in its place has to wait for
// the end. gone is called then. mu is held.
func (p *Pool[K, D, V]) leaves() (gone func()) {
	end := make(chan struct{})
	p.ending = append(p.ending, end)
	return func() {
		close(end)
		p.mu.Lock()
		defer p.mu.Unlock()
		if i := slices.Index(p.ending, end); i >= 0 {
			p.ending = slices.Delete(p.ending, i, i+1)
		}
	}
}
