package upstream

import (
	"context"
	"time"
)

const (
	// tendEvery is how often it is looked which sessions others are to hear of, at least;
	// tendLeast is how often at most.
	tendEvery = 5 * time.Second
	tendLeast = 50 * time.Millisecond
	// standLease is how long a standing stream is a replica's that does not say so again,
	// and standLook how often the others look whether it still is, who are told so as well.
	standLease = 15 * time.Second
	standLook  = 15 * time.Second
)

// bindingKey finds a slot by what others call it.
type bindingKey struct{ session, server string }

func (p *Place) key() bindingKey { return bindingKey{p.Session, p.Server} }

// only reports whether a session is of no other replica's use.
func (p *pool) only(s *session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.bound == nil || s.bound.alone
}

// staleOf returns the tag of the session that a slot has lost last.
func (p *pool) staleOf(sl *slot) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return sl.stale
}

// at returns the session that others speak of; nil for none.
func (p *pool) at(key bindingKey) *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	if sl := p.places[key]; sl != nil && sl.current != nil && sl.current.bound != nil && !sl.current.over() {
		return sl.current
	}
	return nil
}

// tendSoon has it said from time to time that sessions are in use.
func (p *pool) tendSoon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tendLater()
}

// tendLater is called with mu held.
func (p *pool) tendLater() {
	if p.tender == nil && !p.closed {
		every := max(tendLeast, min(tendEvery, p.u.cfg.Timeout.Idle/4))
		p.tender = time.AfterFunc(every, func() { p.u.spawn(p.tend) })
	}
}

// quiet reports whether a session may end at another replica for which it is idle, as
// nothing was said of it for long. p.mu is held.
func (p *pool) quiet(s *session) bool {
	b := s.bound
	return b != nil && b.at.Idle > 0 && !b.alone && time.Since(b.said) >= b.at.Idle/4
}

// wakes says that a session is used again after a long time, before it is, and reports
// whether it may be.
func (p *pool) wakes(s *session) bool {
	_ = p.say(s) // where nobody can be told, nobody ends it
	return !s.over()
}

// tend tells the other replicas of the sessions that are used here. It ends with the
// first that cannot be told: those that come after it wait for the next time.
func (p *pool) tend() {
	p.keepClaims(false)
	var due []*session
	p.mu.Lock()
	left := len(p.owned) > 0
	for _, sl := range p.slots {
		s := sl.current
		if s == nil || s.bound == nil {
			continue
		}
		left = true
		if p.due(s) {
			due = append(due, s)
		}
	}
	p.mu.Unlock()
	for _, s := range due {
		if s.over() {
			continue
		}
		if p.say(s) != nil {
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tender = nil
	if left {
		p.tendLater()
	}
}

// due reports whether the others are to hear of a session: that it is used, before they
// think that it is not, or that its standing stream is here. p.mu is held.
func (p *pool) due(s *session) bool {
	b := s.bound
	silent := time.Since(b.said)
	switch {
	case b.alone, b.stands, b.untold:
		return true
	case b.at.Idle == 0: // it is in use for as long as its client's session
		return silent >= p.u.shared.Life(b.at)/4
	}
	return p.unused(s) < silent && silent >= b.at.Idle/4
}

// unused is how long a session was not used. p.mu is held.
func (p *pool) unused(s *session) time.Duration {
	if s.slot.busy > 0 || time.Now().Before(s.slot.until) {
		return 0
	}
	return time.Since(s.slot.used)
}

// say tells the others that a session is used.
func (p *pool) say(s *session) error {
	p.mu.Lock()
	stand := time.Duration(0)
	if s.bound.stands {
		stand = standLease
	}
	p.mu.Unlock()
	_, err := p.keep(s.base, s, stand, "")
	return err
}

// keep says that a session is used and whether this replica wants its standing stream, as
// Shared.Keep does, and returns who has that.
func (p *pool) keep(ctx context.Context, s *session, stand time.Duration, gone string) (stands string, err error) {
	b := s.bound
	p.mu.Lock()
	unused := p.unused(s)
	p.mu.Unlock()
	holds, stands, err := p.u.shared.Keep(ctx, b.at, b.kept, unused, stand, gone)
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	alone := b.alone
	b.said = time.Now()
	if holds == b.kept.Tag {
		b.alone, b.stands = false, stands == p.u.shared.Self()
	}
	p.mu.Unlock()
	s.tellMissed(ctx)
	if holds != b.kept.Tag && holds != "" {
		p.outdate(s, alone)
	}
	return stands, nil
}

// outdate has the next call take up the session that holds in the place of this one, of
// which the others, if it is alone, never knew. A call that runs is not disturbed.
func (p *pool) outdate(s *session, alone bool) {
	if len(s.all()) > 0 {
		return // it is found out again
	}
	p.lose(s)
	if alone {
		p.u.spawn(func() { closeConn(s.conn) })
	}
}
