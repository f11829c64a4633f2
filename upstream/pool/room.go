package pool

import "slices"

// Users share the places: each may have as many as that user leaves free. So the first user
// may have half of them, the next a quarter, and a user with none finds one. When all
// places are taken, idle entries of the users with the most places make room. Without
// authentication there is one user, who may have all places.

// makeRoom finds a place for an entry, and ends an idle one if necessary. mu is held.
func (p *Pool[K, D, V]) makeRoom(e *Entry[K, D, V]) bool {
	most := p.cfg.Places
	if len(p.entries)+len(p.ending) < most/2 { // the usual case: no user can have too many
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
	if taken+len(p.ending) >= most && len(p.ending) > 0 { // the ending values still exist at the server
		e.after = p.ending[0]
		p.ending = slices.Delete(p.ending, 0, 1)
	}
	return true
}

// idlest returns the entry that has to make room for another one, nil for none: the least
// recently used entry of the user with the most places. Entries that end by idle time go
// first. Other entries go only when all places are taken, and their users lose what they
// had there. mu is held.
func (p *Pool[K, D, V]) idlest(e *Entry[K, D, V], of map[string]int, full bool) (victim *Entry[K, D, V]) {
	for _, other := range p.entries {
		switch {
		case other == e || other.busy > 0:
		case other.User == e.User && !other.Sweeps:
		case other.User != e.User && (!full || of[other.User] <= of[e.User]): // they have no more places than this user
		case !other.Sweeps && of[other.User] == of[e.User]+1: // nor would they have more afterwards
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

// leaves records that a value is about to end. A new value in its place has to wait until
// gone is called. mu is held.
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
