package session

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// leaseTime is how long a replica is taken to be there after Redis has heard of it,
	// and renewTime how often each says that it is.
	leaseTime = 10 * time.Second
	renewTime = 2 * time.Second
	// lookTime bounds one round of it.
	lookTime = time.Second
	// maxWatched bounds the replicas that are watched: more than any gateway has, for
	// names come from clients too.
	maxWatched = 1000
)

// presence knows which replicas are there. Each has a lease in Redis, that ends by Redis's
// clock. One round trip in two seconds renews this replica's and looks at all that are
// watched, however many wait for each.
//
// A lease that is not there means that its replica has gone, or that Redis has lost it. The
// two are told apart by our own lease: as long as that has not held without a break for as
// long as leases last, so that everyone who is there has had the time to renew theirs,
// nobody is taken to have gone.
type presence struct {
	s    *Redis
	kick chan struct{} // holds one token: somebody wants to know at once
	turn chan struct{} // holds one token: who asks Redis takes it

	mu      sync.Mutex // guards the fields below; not held while Redis is asked
	watched map[string]*watch
	holds   bool          // our lease did, when Redis was last asked
	since   time.Duration // since when
	had     bool          // there was one before
}

// watch is of one replica.
type watch struct {
	gone chan struct{}
	by   int // how many watch it
}

func newPresence(s *Redis) *presence {
	return &presence{s: s, kick: make(chan struct{}, 1), turn: make(chan struct{}, 1), watched: make(map[string]*watch)}
}

// leaseKey has braces: all leases are on one node of a Cluster, and one script sees them.
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

// beat renews the lease, and tells whoever watches a replica that has gone.
func (p *presence) beat() {
	ctx, cancel := context.WithTimeout(context.Background(), lookTime)
	defer cancel()
	p.mu.Lock()
	names := slices.Collect(maps.Keys(p.watched))
	p.mu.Unlock()
	gone := p.look(ctx, names)
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

// look renews the lease and returns which of the replicas have gone. One looks at a time: of
// two, the one that finds our lease may only find what the other has just renewed.
func (p *presence) look(ctx context.Context, names []string) (gone []string) {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil
	}
	if p.s.closed.Load() { // the lease is given up
		return nil
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
		return nil
	}
	p.count(there[0] == int64(1))
	if !p.holds || there[0] != int64(1) {
		p.holds, p.since = true, asked
	}
	if asked-p.since < leaseTime {
		return nil
	}
	for i, name := range names {
		if there[i+1] != int64(1) {
			gone = append(gone, name)
		}
	}
	return gone
}

// count is called with mu held.
func (p *presence) count(there bool) {
	switch {
	case there:
		p.s.count.leaseRenewed.Inc()
	case p.had:
		p.s.count.leaseLate.Inc()
	}
	p.had = true
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
	return len(s.presence.look(ctx, []string{replica})) == 0
}
