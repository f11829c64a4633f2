package session

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// leaseTime is how long a replica counts as present after it last renewed its lease,
	// and renewTime how often each replica renews it.
	leaseTime = 10 * time.Second
	renewTime = 2 * time.Second
	// lookTime bounds one renewal, which is also one look at the others.
	lookTime = time.Second
	// maxWatched bounds the replicas that are watched. No gateway has so many, but clients
	// may make up names.
	maxWatched = 1000
)

// presence knows which replicas are there. Each replica has a lease in Redis, which ends by
// Redis's clock. One round trip every two seconds renews this replica's lease and looks at
// those of all watched replicas, however many callers watch each.
//
// A missing lease means that its replica has gone, or that Redis has lost its data. Our own
// lease tells the two apart: nobody is taken to have gone until ours has held without a
// break for as long as leases last. By then everyone who is there has renewed theirs.
type presence struct {
	s    *Redis
	kick chan struct{} // holds one token: a caller wants to know at once
	turn chan struct{} // holds one token: whoever asks Redis takes it

	mu      sync.Mutex // guards the fields below; not held while Redis is asked
	watched map[string]*watch
	holds   bool          // our lease was there when Redis was last asked
	since   time.Duration // when it began to be
	had     bool          // there was one before
}

// watch is the watch over one replica.
type watch struct {
	gone chan struct{} // closed when it has gone
	by   int           // how many callers watch it
}

func newPresence(s *Redis) *presence {
	return &presence{s: s, kick: make(chan struct{}, 1), turn: make(chan struct{}, 1), watched: make(map[string]*watch)}
}

// leaseKey is where a replica's lease stands. The braces put all leases on one node of a
// Cluster, where one script sees them.
func (p *presence) leaseKey(replica string) string { return p.s.db.Key("r:{replicas}:" + replica) }

// run renews the lease until the store is closed.
func (p *presence) run() {
	tick := time.NewTicker(renewTime)
	defer tick.Stop()
	for {
		select {
		case <-p.s.stop:
			return
		case <-tick.C:
		case <-p.kick:
		}
		p.beat()
	}
}

// beat renews the lease, and tells those who watch a replica that has gone.
func (p *presence) beat() {
	ctx, cancel := context.WithTimeout(context.Background(), lookTime)
	defer cancel()
	p.mu.Lock()
	names := slices.Collect(maps.Keys(p.watched))
	p.mu.Unlock()
	gone, lapsed := p.look(ctx, names)
	if lapsed {
		p.s.joined()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range gone {
		if w := p.watched[name]; w != nil {
			close(w.gone)
			delete(p.watched, name)
			p.s.count.replicasGone.Inc()
		}
	}
}

// look renews the lease and returns which of the replicas have gone; none where that cannot
// be known. lapsed says that our own lease had ended: the others may have gone on without
// us. Only one caller looks at a time: of two at once, the second would find the lease that
// the first has just renewed, and not notice that it had been lost.
func (p *presence) look(ctx context.Context, names []string) (gone []string, lapsed bool) {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, false
	}
	if p.s.closed.Load() { // the lease is given up
		return nil, false
	}
	keys := []string{p.leaseKey(p.s.self)}
	for _, name := range names {
		keys = append(keys, p.leaseKey(name))
	}
	// A caller who leaves meanwhile must not look like trouble of Redis.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTime)
	defer cancel()
	asked := p.s.clock()
	got, err := p.s.db.Run(ctx, p.s.scripts.renew, keys, leaseTime.Milliseconds())
	there, _ := got.([]any)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil || len(there) != len(keys) {
		p.holds = false
		p.s.count.leaseFailed.Inc()
		return nil, false
	}
	lapsed = p.count(there[0] == int64(1))
	if !p.holds || there[0] != int64(1) {
		p.holds, p.since = true, asked
	}
	if asked-p.since < leaseTime {
		return nil, lapsed
	}
	for i, name := range names {
		if there[i+1] != int64(1) {
			gone = append(gone, name)
		}
	}
	return gone, lapsed
}

// count reports whether a lease that was ours had ended. It is called with mu held.
func (p *presence) count(there bool) (lapsed bool) {
	lapsed = p.had && !there
	switch {
	case there:
		p.s.count.leaseRenewed.Inc()
	case lapsed:
		p.s.count.leaseLate.Inc()
	}
	p.had = true
	return lapsed
}

// resign gives the lease up. The store is closed: nobody renews it after that.
func (p *presence) resign() {
	ctx, cancel := context.WithTimeout(context.Background(), lookTime)
	defer cancel()
	select {
	case p.turn <- struct{}{}: // who renews it just now is done
		defer func() { <-p.turn }()
	case <-ctx.Done():
	}
	_, _ = p.s.db.Run(ctx, p.s.scripts.discard, []string{p.leaseKey(p.s.self)}) // or it ends by itself
}

// Watch tells when a replica has gone; see Mailbox.
func (s *Redis) Watch(replica string) (gone <-chan struct{}, stop func()) {
	p := s.presence
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.watched[replica]
	if w == nil {
		if len(p.watched) >= maxWatched {
			return nil, func() {}
		}
		w = &watch{gone: make(chan struct{})}
		p.watched[replica] = w
		select {
		case p.kick <- struct{}{}:
		default:
		}
	}
	w.by++
	return w.gone, sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if w.by--; w.by == 0 && p.watched[replica] == w {
			delete(p.watched, replica)
		}
	})
}

// Present reports whether a replica is there; see Mailbox.
func (s *Redis) Present(ctx context.Context, replica string) bool {
	gone, lapsed := s.presence.look(ctx, []string{replica})
	if lapsed {
		s.joined()
	}
	return len(gone) == 0
}
