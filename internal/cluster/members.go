package cluster

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
)

// broken is members.since while the newest renewal has failed.
const broken = -1

// members knows which replicas are there. Each renewal of our own lease also reads the leases
// of all others, in one round trip for all who wait.
//
// A replica has gone if its lease says so. A missing lease means that its replica has gone, or that
// Redis has lost its data. Our own lease tells these two cases apart (settled).
//
// All times are since the start, by the monotonic clock. A lease counts from the time its renewal
// was sent, so that it ends here no later than in Redis.
type members struct {
	self     string
	db       *redisdb.DB
	scripts  scripts
	seal     leaseSeal
	identity tls.Certificate
	times    times
	network  network
	start    time.Time
	log      *slog.Logger
	count    *Metrics

	turn   chan struct{} // holds one token: taken to renew the lease
	lapsed chan struct{} // holds one token: the lease was renewed after it had lapsed

	// Until sure, no other replica can have taken over a home of this one: our lease holds, or
	// no other replica can tell that it does not. generation changes each time the lease is renewed
	// after it had lapsed; homes of an earlier generation are in doubt. Readers of both must
	// read sure first; it is written last.
	sure       atomic.Int64
	generation atomic.Uint64

	mu     sync.Mutex // guards the fields below; not held over I/O
	own    lease      // our lease
	value  string     // our lease, sealed
	number uint64     // of the newest renewal
	tried  time.Duration
	ended  time.Duration // when a renewal last ended, either way
	asked  time.Duration // when the newest successful renewal was sent
	began  int64         // the number of the renewal that began our lease; 0 before the first
	since  time.Duration // when the oldest renewal was sent after which none failed; or broken
	peers  map[string]*peer
	alive  map[string]bool // names that had a lease at the newest renewal, readable or not; false if it says gone
	missed []Missing       // the first that went first
	// versions are those of all replicas, as the log has them.
	versions string
	closed   bool
}

func newMembers(
	self string, deps Deps, s scripts, id tls.Certificate, address string, t times, n network,
) (*members, error) {
	leases, err := newLeaseSeal(deps.Key, deps.Accepted)
	if err != nil {
		return nil, fmt.Errorf("cluster: key: %w", err)
	}
	m := &members{
		self: self, db: deps.DB, scripts: s, seal: leases, identity: id, times: t, network: n,
		start: time.Now(), log: deps.Log, count: deps.Metrics,
		turn: make(chan struct{}, 1), lapsed: make(chan struct{}, 1),
		own:   lease{Address: address, Digest: digestOf(id.Certificate[0]), Revision: deps.Revision, Version: deps.Version},
		since: broken, peers: make(map[string]*peer),
	}
	m.generation.Store(1) // 0 is no generation
	m.value, err = m.seal.write(self, m.own)
	return m, err
}

// now is the time since the start. Steps of the wall clock do not affect it.
func (m *members) now() time.Duration { return time.Since(m.start) }

// renewAlways renews the lease until ctx ends.
func (m *members) renewAlways(ctx context.Context) {
	each(ctx, m.times.beat, func() { m.look(ctx, m.now()) })
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

// lookAgain reads the leases once for all callers of a short interval.
func (m *members) lookAgain(ctx context.Context) {
	now := m.now()
	m.mu.Lock()
	wait := m.tried + m.times.again - now
	m.mu.Unlock()
	select {
	case <-time.After(wait):
		m.look(ctx, now)
	case <-ctx.Done():
	}
}

// renew renews the lease. It has a time limit of its own, so that a caller who leaves does not
// look like a failure of Redis.
func (m *members) renew() {
	ctx, cancel := context.WithTimeout(context.Background(), m.times.look)
	defer cancel()
	asked := m.now()
	got, err := m.write(ctx)
	rows, _ := got.([]any)
	if err != nil || len(rows) == 0 {
		m.failed()
	} else {
		began, _ := rows[0].(int64)
		m.renewed(asked, began, readLeaseRows(rows[1:]))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = m.now()
}

// write writes our lease and returns the result of the script renew.
func (m *members) write(ctx context.Context) (any, error) {
	m.mu.Lock()
	m.number++
	number, value := m.number, m.value
	m.tried = m.now()
	m.mu.Unlock()
	return m.db.Run(ctx, m.scripts.renew, []string{m.db.Key(leaseNames)},
		m.db.Key(leasePrefix), maxReplicas, m.self, value, m.times.lease.Milliseconds(), number)
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

// failed records a failed renewal. What is sure stays so as long as no other replica reaches Redis
// either: then each of them takes no home over until it has renewed its own lease for a whole lease.
// The first of these renewals may have been under way when it was asked. A replica that has started
// since Redis last answered is unknown here; the fence protects against it.
func (m *members) failed() {
	m.count.leaseFailed.Inc()
	m.mu.Lock()
	m.since = broken
	m.mu.Unlock()
	asked := m.now()
	reached := m.othersReach()
	m.mu.Lock()
	defer m.mu.Unlock()
	if until := int64(asked + m.times.lease - m.times.look); !reached && int64(m.now()) < m.sure.Load() {
		m.sure.Store(max(m.sure.Load(), until))
	}
}

// renewed records the result of a renewal, with the number of the renewal that began the lease.
func (m *members) renewed(asked time.Duration, began int64, leases map[string]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	lapsed := m.began != 0 && (began != m.began || asked >= m.asked+m.times.lease)
	switch {
	case lapsed:
		m.count.leaseLate.Inc()
		for _, p := range m.peers {
			p.closeIdle() // a replica that was stopped has connections that the others have given up
		}
		m.generation.Add(1)
		m.log.Warn("the lease of this replica had ended: others may have taken sessions over", failure.LeaseLost.Attr())
	case m.began != 0:
		m.count.leaseRenewed.Inc()
	}
	if lapsed || m.since == broken {
		m.since = asked
	}
	m.began, m.asked = began, asked
	m.sure.Store(int64(asked + m.times.lease))
	if lapsed {
		select {
		case m.lapsed <- struct{}{}:
		default:
		}
	}
	m.alive = make(map[string]bool, len(leases))
	for name, value := range leases {
		m.alive[name] = true
		m.learn(name, value)
	}
	defer m.tellVersions()
	if !m.settled() {
		return
	}
	for name, p := range m.peers {
		if _, ok := m.alive[name]; !ok {
			m.forget(p)
		}
	}
}

// tellVersions logs once when replicas of other versions have come, or have gone. The caller holds mu.
func (m *members) tellVersions() {
	all := map[string]bool{version(m.own): true}
	for _, p := range m.peers {
		all[version(p.lease)] = true
	}
	if now := strings.Join(slices.Sorted(maps.Keys(all)), " "); now != m.versions {
		if len(all) > 1 || m.versions != "" {
			m.log.Info("the versions of the replicas that share this Redis have changed", "versions", now)
		}
		m.versions = now
	}
}

// version is that of a replica's program.
func version(l lease) string { return cmp.Or(l.Version, UnknownVersion) }

// settled reports whether the newest renewal found the lease unbroken for a whole lease. By then
// every live replica has renewed its lease, even if Redis had lost its data or had answered no
// replica. Before that, a missing lease says nothing.
func (m *members) settled() bool { return m.since != broken && m.asked-m.since >= m.times.lease }

// learn records a lease. The caller holds mu.
func (m *members) learn(name, value string) {
	p := m.peers[name]
	if p != nil && p.value == value {
		return
	}
	l, err := m.seal.read(name, value)
	if err != nil {
		m.db.Unopened("replica lease")
		return
	}
	m.alive[name] = !l.Left && !l.Gone
	switch {
	case p != nil && l.Gone:
		m.forget(p)
	case p != nil && l.Left:
		m.log.Info("another replica has left", "replica", p.name, "address", p.address)
		delete(m.peers, name)
		p.left()
	case p != nil:
		p.value, p.lease = value, l
		p.leaving.Store(l.Leaving)
	case m.alive[name] && len(m.peers) < maxReplicas:
		m.peers[name] = newPeer(name, value, l, m.identity, m.times, m.network)
		m.came(name)
	}
}

// forget ends a peer that has gone. The caller holds mu.
func (m *members) forget(p *peer) {
	m.count.replicasGone.Inc()
	m.went(p)
	m.log.Info("another replica has gone", "replica", p.name, "address", p.address, "leaving", p.lease.Leaving)
	delete(m.peers, p.name)
	p.gone()
}

// markGone has a peer that refuses connections count as gone at once, here and at all other replicas:
// its lease says so. If the peer is alive, its next renewal begins another lease.
func (m *members) markGone(ctx context.Context, p *peer) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.times.look)
	defer cancel()
	m.mu.Lock()
	value, l := p.value, p.lease
	m.mu.Unlock()
	l.Gone = true
	last, err := m.seal.write(p.name, l)
	if err != nil {
		return
	}
	keys := []string{m.db.Key(leaseNames), m.db.Key(leasePrefix + p.name)}
	got, err := m.db.Run(ctx, m.scripts.bury, keys, p.name, value, last, m.times.lease.Milliseconds())
	if err == nil && got == int64(1) {
		m.log.Warn("another replica refuses connections: it is taken to have gone",
			failure.ReplicaGone.Attr(), "replica", p.name, "address", p.address)
	}
	m.look(ctx, m.now())
}

// hasGone reads the leases now, and reports whether an unreachable peer has given up its
// lease. another says that another process answers at its address. If that process is a
// replica with a lease, the peer has gone, too.
func (m *members) hasGone(ctx context.Context, p *peer, another bool) bool {
	m.look(ctx, m.now())
	m.mu.Lock()
	gone, replaced := m.peers[p.name] != p, false
	for _, q := range m.peers {
		replaced = replaced || another && q != p && q.address == p.address
	}
	m.mu.Unlock()
	if !gone && replaced {
		m.markGone(ctx, p)
	}
	return gone || replaced
}

// peer returns a replica that can be connected to, or nil.
func (m *members) peer(name string) *peer {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.peers[name]
}

// whereabouts returns the replica that owned something at the given time, or reports that it
// has gone. With neither result, that cannot be determined now.
func (m *members) whereabouts(ctx context.Context, name string, at time.Duration) (p *peer, gone bool) {
	if p, gone = m.known(name, at); p == nil && !gone {
		m.look(ctx, at)
		p, gone = m.known(name, at)
	}
	return p, gone
}

func (m *members) known(name string, at time.Duration) (p *peer, gone bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.peers[name]; p != nil {
		return p, false
	}
	alive, listed := m.alive[name]
	return nil, listed && !alive || !listed && m.asked >= at && m.settled()
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

// held reports whether the lease holds, and no Close has ended it, and when a renewal last ended.
func (m *members) held() (held bool, ended time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.closed && m.began != 0 && m.now() < m.asked+m.times.lease, m.ended
}

// tellOthers changes our lease, from its next renewal on.
func (m *members) tellOthers(change func(*lease)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.own)
	value, err := m.seal.write(m.self, m.own)
	if err != nil {
		m.log.Error("the lease of this replica cannot be written", failure.LeaseLost.Attr(), "error", err)
		return
	}
	m.value = value
}

// release writes a last lease that says this replica has left, and has the others read it.
func (m *members) release(ctx context.Context) {
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
