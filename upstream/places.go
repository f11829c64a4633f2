package upstream

import (
	"slices"

	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
)

// A server has so many places for sessions (Limits.Sessions), and users share them: each
// may have as many as they leave free, so the first half of them, the next a quarter, and
// one who has none finds one. When all are taken, idle sessions of those who have the most
// make room. Without authentication there is one user, who may have all.

// makeRoom finds a place for the session of a slot, at the cost of an idle one where need
// be. p.mu is held.
func (p *pool) makeRoom(sl *slot) bool {
	most := p.u.cfg.Limits.Sessions
	if len(p.slots)+len(p.ending) < most/2 { // the usual case: nobody can have too many
		return true
	}
	taken, of := 0, make(map[string]int)
	for _, other := range p.slots {
		if other != sl {
			taken++
			of[other.user]++
		}
	}
	free, own := most-taken, of[sl.user]
	if free <= 0 || sl.user != "" && own >= free {
		victim := p.idlest(sl, of, free <= 0)
		if victim == nil {
			return false
		}
		p.drop(victim, true, nil)
		taken--
	}
	if taken+len(p.ending) >= most && len(p.ending) > 0 { // at the server they are still there
		sl.after = p.ending[0]
		p.ending = slices.Delete(p.ending, 0, 1)
	}
	return true
}

// idlest returns the slot that has to make room for another one, nil for none: of the user
// who has the most places the one that was not used for the longest time. A session that
// ends by idle time goes first; that of a client which has a session of its own goes only
// where all places are taken, and what it had there is lost. p.mu is held.
func (p *pool) idlest(sl *slot, of map[string]int, full bool) (victim *slot) {
	for _, other := range p.slots {
		switch {
		case other == sl || other.busy > 0:
		case other.user == sl.user && !other.sweeps:
		case other.user != sl.user && (!full || of[other.user] <= of[sl.user]): // they have no more than this one
		case !other.sweeps && of[other.user] == of[sl.user]+1: // nor after that
		case !other.sweeps && other.user == "": // the gateway's own
		case victim == nil || other.goesBefore(victim, of):
			victim = other
		}
	}
	return victim
}

func (sl *slot) goesBefore(other *slot, of map[string]int) bool {
	switch {
	case sl.sweeps != other.sweeps:
		return sl.sweeps
	case of[sl.user] != of[other.user]:
		return of[sl.user] > of[other.user]
	}
	return sl.used.Before(other.used)
}

// leaves notes that a session is about to end, of which a new one in its place has to wait
// for the end. gone is called then. It is for no session, too. p.mu is held.
func (p *pool) leaves(s *session) (gone func()) {
	if s == nil {
		return func() {}
	}
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

// vacant waits until the session has ended whose place a slot has taken.
func (p *pool) vacant(sl *slot) error {
	p.mu.Lock()
	after := sl.after
	p.mu.Unlock()
	if after == nil {
		return nil
	}
	select {
	case <-after:
		return nil
	case <-p.u.base.Done():
		return admit.ErrDraining
	}
}
