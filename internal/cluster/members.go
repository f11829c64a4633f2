package cluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
)

// members knows which replicas are there. Each renewal of our own lease is also a look at
// those of all others: one round trip, however many wait for somebody.
//
// A replica that ends in good order says so in its last lease. A missing one means that its
// replica has gone, or that Redis has lost its data: our own lease tells the two apart
// (tenure.settled).
type members struct {
	self     string
	db       *redisdb.DB
	scripts  scripts
	seal     leaseSeal
	identity tls.Certificate
	times    times
	start    time.Time
	log      *slog.Logger
	count    *Metrics

	turn chan struct{} // holds one token: who renews the lease takes it
	kick chan struct{} // holds one token: somebody wants to know at once

	lapsed chan struct{} // holds one token: the lease was held again after it had ended

	// sure is until when certainly nobody has taken a home over from this replica: its lease
	// holds, or nobody else can tell that it does not. generation is another one each time
	// that the lease was held again after it had ended: homes of an older one are in doubt.
	// Who reads both reads sure first, and it is written last.
	sure       atomic.Int64
	generation atomic.Uint64

	mu      sync.Mutex    // guards the fields below; not held over I/O
	own     lease         // what our lease says
	value   string        // the same, sealed
	number  uint64        // of the newest renewal
	tried   time.Duration // when that was sent
	ended   time.Duration // when a renewal last came to something
	tenure  tenure
	peers   map[string]*peer
	alive   map[string]bool // who had a lease at the newest renewal, readable or not; false for who has left
	watched map[string]*watch
	closed  bool
}

func newMembers(self string, deps Deps, s scripts, identity tls.Certificate, address string, t times) (*members, error) {
	leases, err := newLeaseSeal(deps.Key, deps.Accepted)
	if err != nil {
		return nil, fmt.Errorf("cluster: key: %w", err)
	}
	m := &members{
		self: self, db: deps.DB, scripts: s, seal: leases, identity: identity, times: t, start: time.Now(), log: deps.Log, count: deps.Metrics,
		turn: make(chan struct{}, 1), kick: make(chan struct{}, 1), lapsed: make(chan struct{}, 1),
		own:    lease{Address: address, Digest: digestOf(identity.Certificate[0]), Revision: deps.Revision},
		tenure: tenure{lease: t.lease},
		peers:  make(map[string]*peer), watched: make(map[string]*watch),
	}
	m.generation.Store(1) // 0 is no generation
	return m, m.rewrite()
}

// rewrite seals what our lease says. It is called with mu held, or before there is anybody
// to hold it.
func (m *members) rewrite() (err error) {
	m.value, err = m.seal.write(m.self, m.own)
	return err
}

// now is the time since the start. It knows no steps of clocks.
func (m *members) now() time.Duration { return time.Since(m.start) }

// renewAlways renews the lease until ctx is over.
func (m *members) renewAlways(ctx context.Context) {
	each(ctx, m.times.beat, m.kick, func() { m.look(ctx, m.now()) })
}

// tryAlways tries now and then whether the peers can be reached, until ctx is over.
func (m *members) tryAlways(ctx context.Context) {
	each(ctx, m.times.lease, nil, func() { m.reportAll(m.askAll(ctx)) })
}

// each does something each time that so long has passed, or now receives, until ctx is over.
func each(ctx context.Context, pause time.Duration, now <-chan struct{}, do func()) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-now:
		}
		do()
	}
}

// look returns when a renewal has ended that was sent after the given time: somebody else's,
// or its own.
func (m *members) look(ctx context.Context, after time.Duration) {
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return
	}
	m.mu.Lock()
	known := m.tried > after || m.closed
	m.mu.Unlock()
	if !known {
		m.renew()
	}
}

// renew renews the lease. A caller who leaves meanwhile must not look like trouble of Redis:
// it has a time of its own.
func (m *members) renew() {
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.ended = m.now()
	}()
	ctx, cancel := context.WithTimeout(context.Background(), m.times.look)
	defer cancel()
	asked := m.now()
	got, err := m.write(ctx)
	rows, _ := got.([]any)
	if err != nil || len(rows) == 0 {
		m.count.leaseFailed.Inc()
		m.mu.Lock()
		m.tenure.failed()
		m.mu.Unlock()
		m.askAround()
		return
	}
	m.renewed(asked, m.now(), rows[0] == int64(1), readLeaseRows(rows[1:]))
}

// write writes our lease, and returns what the script renew does.
func (m *members) write(ctx context.Context) (any, error) {
	m.mu.Lock()
	m.number++
	number, value := m.number, m.value
	m.tried = m.now()
	m.mu.Unlock()
	return m.db.Run(ctx, m.scripts.renew, []string{m.db.Key(leaseNames)}, m.db.Key(leasePrefix), maxReplicas, m.self, value, m.times.lease.Milliseconds(), number)
}

// readLeaseRows reads names and values in turn.
func readLeaseRows(rows []any) map[string]string {
	leases := make(map[string]string, len(rows)/2)
	for i := 0; i+1 < len(rows); i += 2 {
		name, _ := rows[i].(string)
		value, _ := rows[i+1].(string)
		leases[name] = value
	}
	return leases
}

// renewed notes what a renewal has found.
func (m *members) renewed(asked, answered time.Duration, there bool, leases map[string]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	before := m.tenure.ever
	lapsed := m.tenure.renewed(asked, answered, there)
	switch {
	case lapsed:
		m.count.leaseLate.Inc()
		m.generation.Add(1)
		m.log.Warn("the lease of this replica had ended: others may have taken sessions over")
	case before:
		m.count.leaseRenewed.Inc()
	}
	m.sure.Store(int64(m.tenure.end()))
	if lapsed {
		select {
		case m.lapsed <- struct{}{}:
		default:
		}
	}
	m.alive = make(map[string]bool, len(leases))
	for name, value := range leases {
		m.alive[name] = true
		m.learn(name, value, asked)
	}
	if !m.tenure.settled() {
		return
	}
	for name, p := range m.peers {
		if _, ok := m.alive[name]; !ok {
			m.forget(p)
		}
	}
	m.notify(asked)
}

// learn notes a lease that was there when Redis was asked. It is called with mu held.
func (m *members) learn(name, value string, asked time.Duration) {
	p := m.peers[name]
	if p != nil && p.value == value && (!p.refused || p.refusedAt > asked) {
		return
	}
	l, err := m.seal.read(name, value)
	if err != nil {
		m.db.Unopened("replica lease")
		return
	}
	switch {
	case l.Left:
		m.alive[name] = false
		m.close(name)
		if p != nil {
			m.forget(p)
		}
		return
	case p != nil && p.refused && p.refusedAt > asked:
		return // it is older than what we know
	case p != nil && !p.refused && p.address == l.Address && string(p.digest) == string(l.Digest):
		p.value, p.lease = value, l
		p.calls.leaving.Store(l.Leaving)
		return
	case p != nil:
		m.forget(p)
	case len(m.peers) >= maxReplicas:
		return
	}
	m.peers[name] = newPeer(name, value, l, m.identity, m.times)
}

// forget ends a peer. It is called with mu held.
func (m *members) forget(p *peer) {
	if !p.refused {
		m.log.Info("another replica has gone", "replica", p.name, "address", p.address, "leaving", p.lease.Leaving)
	}
	delete(m.peers, p.name)
	p.gone()
}

// refuse notes that a peer refused connections: it is taken to have gone at once. Its lease
// is deleted, so that all others know with their next look, and the peer too, if it lives
// after all.
func (m *members) refuse(ctx context.Context, p *peer) {
	if !m.bury(p) {
		return
	}
	m.log.Warn("another replica refuses connections: it is taken to have gone", "replica", p.name, "address", p.address)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.times.look)
	defer cancel()
	m.mu.Lock()
	value := p.value
	m.mu.Unlock()
	keys := []string{m.db.Key(leaseNames), m.db.Key(leasePrefix + p.name)}
	_, _ = m.db.Run(ctx, m.scripts.resign, keys, p.name, value) // or it ends by itself
}

// hasGone looks, now, whether a peer that cannot be reached has given its lease up. another
// says that somebody else answers at its address: if that is a replica by its lease, the peer
// has gone, too.
func (m *members) hasGone(ctx context.Context, p *peer, another bool) bool {
	m.look(ctx, m.now())
	m.mu.Lock()
	gone, replaced := p.ctx.Err() != nil, false
	for _, q := range m.peers {
		replaced = replaced || another && q != p && !q.refused && q.address == p.address
	}
	m.mu.Unlock()
	if !gone && replaced {
		m.refuse(ctx, p)
	}
	return gone || replaced
}

// bury marks a peer as one that refuses connections, and reports whether it was not yet.
func (m *members) bury(p *peer) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p.refused || m.peers[p.name] != p {
		return false
	}
	p.refused, p.refusedAt = true, m.now()
	m.close(p.name)
	p.gone()
	return true
}

// peer returns a replica that can be connected to, nil for none.
func (m *members) peer(name string) *peer {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.peers[name]; p != nil && !p.refused {
		return p
	}
	return nil
}

// whereabouts says what has become of the replica that owned something at the given time:
// it is there, or gone, or, with neither, nobody can tell now.
func (m *members) whereabouts(ctx context.Context, name string, at time.Duration) (p *peer, gone bool) {
	if p, gone, known := m.known(name, at); known {
		return p, gone
	}
	m.look(ctx, at)
	p, gone, _ = m.known(name, at)
	return p, gone
}

func (m *members) known(name string, at time.Duration) (p *peer, gone, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.peers[name]; p != nil {
		if p.refused {
			return nil, true, true
		}
		return p, false, true
	}
	alive, listed := m.alive[name]
	gone = listed && !alive || !listed && m.tenure.asked > at && m.tenure.settled()
	return nil, gone, gone
}

// holds reports whether our own lease does. If not, and nobody has tried for a while, it is
// renewed first.
func (m *members) holds(ctx context.Context) bool {
	held, ended := m.held()
	now := m.now()
	if held || now-ended < m.times.beat {
		return held
	}
	m.look(ctx, now)
	held, _ = m.held()
	return held
}

// held reports whether the lease holds, and when a renewal last came to something.
func (m *members) held() (held bool, ended time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now() < m.tenure.end(), m.ended
}

// tellOthers changes what the lease says from its next renewal on.
func (m *members) tellOthers(change func(*lease)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.own)
	if err := m.rewrite(); err != nil {
		m.log.Error("the lease of this replica cannot be written", "error", err)
	}
}

// resign has the lease say, from its last renewal on, that this replica has left, and forgets
// everything that is known of others.
func (m *members) resign(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.times.look)
	defer cancel()
	select {
	case m.turn <- struct{}{}: // who renews it just now is done
		defer func() { <-m.turn }()
	case <-ctx.Done():
	}
	m.mu.Lock()
	m.closed = true
	m.sure.Store(0)
	for _, p := range m.peers {
		p.gone()
	}
	clear(m.peers)
	m.mu.Unlock()
	m.tellOthers(func(l *lease) { l.Left = true })
	_, _ = m.write(ctx) // or it ends by itself
}
