package upstream

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// A process, or a session on an event stream, is its replica's: no other one can take it
// up. The replica that opens one for a client owns its place, and keeps that for as long as
// its slot lasts, whatever ends in it. The others have calls of that client made there
// (away.go). What is kept at the place says who the owner is.

const (
	// claimLease is how long a replica has to make a place its own when it is its turn.
	claimLease = 5 * time.Second
	// maxAway bounds the slots whose session is at another replica, beside Limits.Sessions.
	maxAway = 10_000
)

// claim is of a slot whose session only one replica can have. All but at and every is
// guarded by the pool's lock.
type claim struct {
	at    Place
	every time.Duration // how often the others are told that the place is ours
	tag   string        // of the place when it is ours, else ""
	alone bool          // the others do not know of it, or it is not known whether they do
	said  time.Time     // when they were told last
	away  *away         // who else has it, nil for nobody that is known
	stale string        // the tag of a place whose owner does not have it any more
}

// claimOf returns what a new slot has to claim; nil for one of this replica's own, or that
// others can take up.
func (u *Upstream) claimOf(key poolKey, sweeps bool, e *era) *claim {
	if u.shared == nil || u.peers == nil || key.session == "" || !e.rev.Stateful || u.cfg.Transport == transportStreamable && !e.sse {
		return nil
	}
	at := u.placeOf(key, sweeps)
	return &claim{at: *at, every: u.shared.Life(*at) / 4}
}

// tag is that of a slot's place if it is ours, else "". The pool's lock is held.
func (sl *slot) tag() string {
	if sl.claim == nil {
		return ""
	}
	return sl.claim.tag
}

// isAway reports whether another replica is known to have the session of a slot. The
// pool's lock is held.
func (sl *slot) isAway() bool { return sl.claim != nil && sl.claim.away != nil }

// reclaim is for a slot whose session turned out to be one that others cannot take up.
func (u *Upstream) reclaim(sl *slot, e *era) error {
	u.pool.mu.Lock()
	delete(u.pool.places, sl.at.key())
	sl.at, sl.claim = nil, u.claimOf(sl.key, sl.sweeps, e)
	if sl.claim != nil {
		u.pool.places[sl.claim.at.key()] = sl
	}
	u.pool.mu.Unlock()
	return u.own(sl)
}

// own makes this replica the owner of a slot's place. The error is an *away where another
// one is.
func (u *Upstream) own(sl *slot) error {
	p, c := &u.pool, sl.claim
	if c == nil {
		return nil
	}
	p.mu.Lock()
	stale, ours := c.stale, c.tag != ""
	p.mu.Unlock()
	if ours {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(u.base, u.cfg.Timeout.Connect, transport.ErrTimeout)
	defer cancel()
	made := Kept{Tag: rand.Text(), Value: []byte(u.peers.Self())}
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		kept, turn, err := u.shared.Take(ctx, c.at, stale, claimLease)
		if err != nil || turn == TurnOurs {
			if full := p.owns(sl, made.Tag, err != nil); full != nil || err != nil { // then each is for itself
				_ = u.shared.Release(ctx, c.at) // or its time ends it
				return full
			}
			// Whoever reads what is put may come at once.
			if kept, turn, err = u.shared.Put(ctx, c.at, made); err != nil || turn == TurnOurs {
				p.put(sl, err)
				return nil
			}
			p.yields(sl)
		}
		switch turn {
		case TurnOver:
			return transport.ErrEnded
		case TurnTaken:
			owner := string(kept.Value)
			if owner != "" && owner != u.peers.Self() && u.peers.Present(ctx, owner) {
				return p.isAway(&away{sl, owner, kept.Tag})
			}
			stale = kept.Tag
			continue
		}
		if err := wait(ctx, pause); err != nil {
			return err
		}
	}
}

// owns makes the place of a slot this replica's, if there is room for its session.
func (p *pool) owns(sl *slot, tag string, alone bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch c := sl.claim; {
	case sl.ended:
		return admit.ErrDraining
	case !p.makeRoom(sl):
		return admit.ErrOverloaded
	default:
		c.tag, c.alone, c.said, c.away = tag, alone, time.Now(), nil
	}
	p.owned[tag] = sl
	p.tendLater()
	return nil
}

// put notes whether the others know of it.
func (p *pool) put(sl *slot, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sl.claim.alone = err != nil
}

// yields gives up the place of a slot that others have got first.
func (p *pool) yields(sl *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.owned, sl.claim.tag)
	sl.claim.tag, sl.claim.alone = "", false
}

// isAway notes that a place is another replica's.
func (p *pool) isAway(a *away) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	a.slot.claim.away = a
	if len(p.slots) > p.u.cfg.Limits.Sessions+maxAway {
		for _, sl := range p.slots { // any: it is found out again
			if sl != a.slot && sl.busy == 0 && sl.isAway() {
				p.remove(sl)
				break
			}
		}
	}
	return a
}

// strayed notes that a session could not be used where it was: it is there no more, or it
// is not known.
func (p *pool) strayed(a *away, gone bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := a.slot.claim; c.away == a {
		c.away = nil
		if gone {
			c.stale = a.tag
		}
	}
}

// holdOwned returns the slot of a place that is ours, nil for none. It must be left.
func (p *pool) holdOwned(tag, session string) *slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	sl := p.owned[tag]
	if sl == nil || sl.key.session != session {
		return nil
	}
	sl.busy++
	return sl
}

// disown gives the place of a slot that has ended to whoever wants it next. over says that
// the client's session is: nobody does.
func (u *Upstream) disown(at Place, tag string, over bool) {
	ctx, cancel := context.WithTimeout(context.Background(), goodbye) // after the end of base, too
	defer cancel()
	if over {
		_, _ = u.shared.End(ctx, at, tag) // or its time ends it
		return
	}
	if _, turn, err := u.shared.Take(ctx, at, tag, claimLease); err != nil || turn != TurnOurs {
		return
	}
	_ = u.shared.Release(ctx, at)
	_ = u.shared.Tell(ctx, at, append([]byte{aboutYielded}, tag...)) // or it is found out
}

// Yield gives the places of all sessions here to other replicas. It is for the end of this
// one, when no call is to come any more; Close ends the sessions.
func (u *Upstream) Yield() {
	p := &u.pool
	yielded := make(map[string]Place)
	p.mu.Lock()
	for tag, sl := range p.owned {
		yielded[tag] = sl.claim.at
		sl.claim.tag = ""
	}
	clear(p.owned)
	p.mu.Unlock()
	for tag, at := range yielded {
		u.disown(at, tag, false)
	}
}

// yielded is told that another replica has given up a place.
func (p *pool) yielded(at bindingKey, tag string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if sl := p.places[at]; sl != nil && sl.isAway() && sl.claim.away.tag == tag {
		sl.claim.away, sl.claim.stale = nil, tag
	}
}

// keepClaims tells the others of the places that are ours, where it is time to, or of all
// of them. It ends with the first that cannot be told.
func (p *pool) keepClaims(all bool) {
	var due []*slot
	p.mu.Lock()
	for _, sl := range p.owned {
		if c := sl.claim; all || c.alone || time.Since(c.said) >= c.every {
			due = append(due, sl)
		}
	}
	p.mu.Unlock()
	for _, sl := range due {
		if p.keepClaim(sl) != nil {
			return
		}
	}
}

func (p *pool) keepClaim(sl *slot) error {
	c := sl.claim
	p.mu.Lock()
	tag := c.tag
	p.mu.Unlock()
	if tag == "" { // it has been lost meanwhile
		return nil
	}
	holds, _, err := p.u.shared.Keep(p.u.base, c.at, Kept{Tag: tag, Value: []byte(p.u.peers.Self())}, 0, 0, "")
	if err != nil {
		return err
	}
	p.mu.Lock()
	s := sl.current
	p.mu.Unlock()
	runs := s != nil && len(s.all()) > 0
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.tag != tag || sl.ended {
		return nil
	}
	lost := holds != tag && holds != "" // "" says that the end of the client's session is on its way
	c.alone, c.said = lost, time.Now()
	if !lost || runs || sl.opening != nil || sl.current != s {
		return nil // a call that runs is not disturbed: it is found out again
	}
	delete(p.owned, tag)
	c.tag, c.alone, sl.current = "", false, nil
	if s != nil {
		p.u.spawn(s.close)
	}
	return nil
}
