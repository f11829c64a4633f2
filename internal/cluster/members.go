package cluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
)

// members knows which replicas are there. Each renewal of our own lease also reads the leases
// of all others, in one round trip for all who wait.
//
// A replica that ends in good order says so in its last lease. A missing lease means that its
// replica has gone, or that Redis has lost its data. Our own lease tells these two cases apart
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

	turn   chan struct{} // holds one token: taken to renew the lease
	lapsed chan struct{} // holds one token: the lease was renewed after it had lapsed

	// Until sure, no other replica can have taken over a home of this one: our lease holds, or
	// nobody else can tell that it does not. generation changes each time the lease is renewed
	// after it had lapsed; homes of an earlier generation are in doubt. Readers of both must
	// read sure first; it is written last.
	sure       atomic.Int64
	generation atomic.Uint64

	mu     sync.Mutex    // guards the fields below; not held over I/O
	own    lease         // our lease
	value  string        // our lease, sealed
	number uint64        // of the newest renewal
	tried  time.Duration // when the newest renewal was sent
	ended  time.Duration // when a renewal last ended, either way
	tenure tenure
	peers  map[string]*peer
	missed missing
	alive  map[string]bool // names that had a lease at the newest renewal, readable or not; false if the lease says left
	closed bool
}

func newMembers(self string, deps Deps, s scripts, identity tls.Certificate, address string, t times) (*members, error) {
	leases, err := newLeaseSeal(deps.Key, deps.Accepted)
	if err != nil {
		return nil, fmt.Errorf("cluster: key: %w", err)
	}
	m := &members{
		self: self, db: deps.DB, scripts: s, seal: leases, identity: identity, times: t, start: time.Now(), log: deps.Log, count: deps.Metrics,
		turn: make(chan struct{}, 1), lapsed: make(chan struct{}, 1),
		own:    lease{Address: address, Digest: digestOf(identity.Certificate[0]), Revision: deps.Revision},
		tenure: tenure{lease: t.lease},
		peers:  make(map[string]*peer),
	}
	m.generation.Store(1) // 0 is no generation
	return m, m.rewrite()
}

// rewrite seals our lease again. The caller holds mu, unless nothing else runs yet.
func (m *members) rewrite() (err error) {
	m.value, err = m.seal.write(m.self, m.own)
	return err
}

// now is the time since the start. Steps of the wall clock do not affect it.
func (m *members) now() time.Duration { return time.Since(m.start) }

// renewAlways renews the lease until ctx ends.
func (m *members) renewAlways(ctx context.Context) {
	each(ctx, m.times.beat, func() { m.look(ctx, m.now()) })
}

// tryAlways tests at intervals whether the peers can be reached, until ctx ends.
func (m *members) tryAlways(ctx context.Context) {
	each(ctx, m.times.lease, func() {
		began := m.now()
		m.reportAll(m.eachPeer(func(p *peer) {
			for !m.reached(ctx, p) && m.again(ctx, p, began) {
			}
		}))
	})
}

// each calls do at each interval until ctx ends.
func each(ctx context.Context, pause time.Duration, do func()) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do()
		}
	}
}

// look returns when a renewal that was sent after the given time has ended. It may be a
// renewal of another caller, or one that look makes itself.
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

// renew renews the lease. It has a time limit of its own, so that a caller who leaves does not
// look like a failure of Redis.
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
	began, _ := rows[0].(int64)
	m.renewed(asked, m.now(), began, readLeaseRows(rows[1:]))
}

// write writes our lease and returns the result of the script renew.
func (m *members) write(ctx context.Context) (any, error) {
	m.mu.Lock()
	m.number++
	number, value := m.number, m.value
	m.tried = m.now()
	m.mu.Unlock()
	return m.db.Run(ctx, m.scripts.renew, []string{m.db.Key(leaseNames)}, m.db.Key(leasePrefix), maxReplicas, m.self, value, m.times.lease.Milliseconds(), number)
}

// readLeaseRows reads alternating names and values.
func readLeaseRows(rows []any) map[string]string {
	leases := make(map[string]string, len(rows)/2)
	for i := 0; i+1 < len(rows); i += 2 {
		name, _ := rows[i].(string)
		value, _ := rows[i+1].(string)
		leases[name] = value
	}
	return leases
}

// renewed records the result of a renewal.
func (m *members) renewed(asked, answered time.Duration, began int64, leases map[string]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	before := m.tenure.ever
	lapsed := m.tenure.renewed(asked, answered, began)
	switch {
	case lapsed:
		m.count.leaseLate.Inc()
		for _, p := range m.peers {
			p.closeIdle() // a replica that was stopped has connections that the others gave up meanwhile
		}
		m.generation.Add(1)
		m.log.Warn("the lease of this replica had ended: others may have taken sessions over", failure.LeaseLost.Attr())
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
}

// learn records a lease that Redis had when it was asked. The caller holds mu.
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
		if p != nil {
			m.log.Info("another replica has left", "replica", p.name, "address", p.address)
			delete(m.peers, name)
			p.left()
		}
		return
	case p != nil && p.refused && p.refusedAt > asked:
		return // the answer is older than what we know
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
	m.missed.came(name)
}

// forget ends a peer. The caller holds mu.
func (m *members) forget(p *peer) {
	if !p.refused {
		m.count.replicasGone.Inc()
		m.missed.went(p, time.Now())
		m.log.Info("another replica has gone", "replica", p.name, "address", p.address, "leaving", p.lease.Leaving)
	}
	delete(m.peers, p.name)
	p.gone()
}

// refuse records that a peer refused connections: unless its lease says that it has left, it
// counts as gone at once. Its lease is deleted, so that all other replicas learn of it with
// their next renewal, and so does the peer if it is alive.
func (m *members) refuse(ctx context.Context, p *peer) {
	m.look(ctx, m.now())
	if !m.bury(p, math.MaxInt64) {
		return
	}
	m.log.Warn("another replica refuses connections: it is taken to have gone", failure.ReplicaGone.Attr(), "replica", p.name, "address", p.address)
	m.resignFor(ctx, p)
}

// resignFor deletes the lease of a buried peer. Until it is deleted, reading it says nothing.
func (m *members) resignFor(ctx context.Context, p *peer) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.times.look)
	defer cancel()
	m.mu.Lock()
	value := p.value
	m.mu.Unlock()
	keys := []string{m.db.Key(leaseNames), m.db.Key(leasePrefix + p.name)}
	_, _ = m.db.Run(ctx, m.scripts.resign, keys, p.name, value) // if this fails, the lease ends by itself
	m.mu.Lock()
	p.refusedAt = m.now()
	m.mu.Unlock()
}

// hasGone reads the leases now, and reports whether an unreachable peer has given up its
// lease. another says that another process answers at its address. If that process is a
// replica with a lease, the peer has gone, too.
func (m *members) hasGone(ctx context.Context, p *peer, another bool) bool {
	m.look(ctx, m.now())
	m.mu.Lock()
	gone, replaced := p.refused || m.peers[p.name] != p, false
	for _, q := range m.peers {
		replaced = replaced || another && q != p && !q.refused && q.address == p.address
	}
	m.mu.Unlock()
	if !gone && replaced {
		m.refuse(ctx, p)
	}
	return gone || replaced
}

// bury marks a peer as refusing connections, and reports whether it was unmarked before. Leases
// that were read until the given time do not bring it back.
func (m *members) bury(p *peer, until time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p.refused || m.peers[p.name] != p {
		return false
	}
	p.refused, p.refusedAt = true, until
	m.count.replicasGone.Inc()
	m.missed.went(p, time.Now())
	p.gone()
	return true
}

// peer returns a replica that can be connected to, or nil.
func (m *members) peer(name string) *peer {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.peers[name]; p != nil && !p.refused {
		return p
	}
	return nil
}

// whereabouts returns the replica that owned something at the given time, or reports that it
// has gone. With neither result, nobody can tell now.
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

// holds reports whether our own lease holds. If it does not and no renewal was tried recently,
// holds renews it first.
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

// held reports whether the lease holds, and when a renewal last ended.
func (m *members) held() (held bool, ended time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now() < m.tenure.end(), m.ended
}

// tellOthers changes our lease, from its next renewal on.
func (m *members) tellOthers(change func(*lease)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.own)
	if err := m.rewrite(); err != nil {
		m.log.Error("the lease of this replica cannot be written", failure.LeaseLost.Attr(), "error", err)
	}
}

// resign writes a last lease that says this replica has left, and has the others read it.
func (m *members) resign(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, m.times.look)
	defer cancel()
	select {
	case m.turn <- struct{}{}: // a renewal that runs has ended
		defer func() { <-m.turn }()
	case <-ctx.Done():
	}
	m.mu.Lock()
	m.closed = true
	m.sure.Store(0)
	m.mu.Unlock()
	m.tellOthers(func(l *lease) { l.Left = true })
	if _, err := m.write(ctx); err == nil { // if this fails, the lease ends by itself
		m.eachPeer(func(p *peer) { _, _ = p.ask(ctx, lookPath) }) // one that does not answer reads it later
	}
}

// forgetAll forgets the other replicas.
func (m *members) forgetAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.peers {
		p.gone()
	}
	clear(m.peers)
}
