package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
)

const (
	// maxAsked bounds how many peers are asked at a time.
	maxAsked = 16
	// contactPath is the path of the question whether a replica's newest renewal has reached Redis.
	contactPath = "/contact"
	// lookPath is the same, after the replica has read the leases again.
	lookPath = "/look"
	// yes and no are the answers. Their first words count; releases before wrote another number, and
	// expect one.
	yes, no = "true 0", "false 0"
	// maxContact bounds an answer, in bytes.
	maxContact = 64
	// missedFor is how long a replica counts as missing.
	missedFor = time.Hour
)

// reaches reports whether our newest renewal has reached Redis. If not, we take nothing over for a
// whole lease.
func (m *members) reaches() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.since == broken {
		return no
	}
	return yes
}

// ask asks a peer whether it reaches Redis, at contactPath or lookPath. It bounds itself.
func (p *peer) ask(ctx context.Context, path string) (reaches bool, err error) {
	status, answer, err := p.get(ctx, p.times.look, http.MethodGet, path, maxContact)
	word, _, _ := strings.Cut(string(answer), " ")
	if err == nil && word != "true" && word != "false" {
		err = fmt.Errorf("cluster: a replica answers %d %q", status, answer)
	}
	return word == "true", err
}

// get makes a request without a body within a time limit. It returns the answer, of so many bytes at most.
func (p *peer) get(ctx context.Context, limit time.Duration, method, path string, most int) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "https://"+p.name+path, nil)
	if err != nil {
		return 0, nil, fmt.Errorf("cluster: %w", err)
	}
	resp, err := p.transport.RoundTrip(req)
	if err != nil {
		return 0, nil, fmt.Errorf("cluster: %w", err)
	}
	p.silent.Store(0)
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(most)+1))
	if err == nil && len(body) > most {
		err = fmt.Errorf("cluster: the answer is larger than %d bytes", most)
	}
	return resp.StatusCode, body, err
}

// othersReach reports whether another replica may reach Redis. One that refuses connections does not.
func (m *members) othersReach() bool {
	var reach atomic.Bool
	m.eachPeer(func(p *peer) {
		yes, err := p.ask(context.Background(), contactPath)
		dial, _ := errors.AsType[*dialError](err)
		if yes || err != nil && (dial == nil || !dial.refused) {
			reach.Store(true)
		}
	})
	return reach.Load()
}

// eachPeer calls do for all peers, several at a time.
func (m *members) eachPeer(do func(*peer)) {
	var running sync.WaitGroup
	free := make(chan struct{}, maxAsked)
	for _, p := range m.all() {
		free <- struct{}{}
		running.Go(func() {
			defer func() { <-free }()
			do(p)
		})
	}
	running.Wait()
}

// all returns the peers, ordered by name.
func (m *members) all() (all []*peer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.peers {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *peer) int { return strings.Compare(a.name, b.name) })
	return all
}

// tryAlways tests at intervals whether the peers can be reached, until ctx ends.
func (m *members) tryAlways(ctx context.Context) {
	each(ctx, m.times.lease, func() {
		began := m.now()
		m.eachPeer(func(p *peer) {
			_, err := p.ask(ctx, contactPath)
			for err != nil && m.again(ctx, p, began) {
				_, err = p.ask(ctx, contactPath)
			}
			m.reached(p, err)
		})
		unreachable := 0
		for _, p := range m.list() {
			if p.Err != nil {
				unreachable++
			}
		}
		m.count.unreachable.Set(float64(unreachable))
	})
}

// again waits after a failure to reach a peer, and reports whether to try again: until the caller
// has tried since began for times.patience, or the peer has given no answer for as long, or it has
// gone, or ctx has ended. So a peer that is stopped for a moment causes no errors, and requests do
// not wait for one that stays unreachable.
func (m *members) again(ctx context.Context, p *peer, began time.Duration) bool {
	now := m.now()
	p.silent.CompareAndSwap(0, int64(now))
	if silent := time.Duration(p.silent.Load()); silent > 0 {
		began = min(began, silent)
	}
	if now-began >= m.times.patience {
		return false
	}
	select {
	case <-time.After(missedPause):
	case <-p.ctx.Done():
	case <-ctx.Done():
	}
	return p.ctx.Err() == nil && ctx.Err() == nil
}

// reached records whether a peer could be reached, and logs changes.
func (m *members) reached(p *peer, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := p.err
	p.err = err
	switch {
	case p.ctx.Err() != nil || (before == nil) == (err == nil):
	case err == nil:
		m.log.Info("another replica can be reached again", "replica", p.name, "address", p.address)
	default:
		p.cut()
		m.log.Warn("another replica cannot be reached: sessions that it owns are not served here",
			failure.ReplicaUnreachable.Attr(), "replica", p.name, "address", p.address, "error", err)
	}
}

// Missing is a replica that has gone without leaving, and that no other has replaced since.
type Missing struct {
	Name, Address string
	Gone          time.Time
}

// Missing returns the replicas that have gone within the last hour, without leaving and without
// others in their place.
func (c *Cluster) Missing() (all []Missing) {
	if c.members == nil {
		return nil
	}
	c.members.mu.Lock()
	defer c.members.mu.Unlock()
	for _, one := range c.members.missed {
		if time.Since(one.Gone) < missedFor {
			all = append(all, one)
		}
	}
	return all
}

// went records a peer that has gone, unless it was leaving. The caller holds mu.
func (m *members) went(p *peer) {
	if !p.lease.Leaving && len(m.missed) < maxReplicas {
		m.missed = append(m.missed, Missing{Name: p.name, Address: p.address, Gone: time.Now()})
	}
}

// came counts a new replica as the return of a missing one: for itself, or else for the first that
// went, since a process has another name than the one before it. The caller holds mu.
func (m *members) came(name string) {
	at := max(0, slices.IndexFunc(m.missed, func(one Missing) bool { return one.Name == name }))
	if at < len(m.missed) {
		m.missed = slices.Delete(m.missed, at, at+1)
	}
}

// UnknownVersion stands for releases that did not announce their version.
const UnknownVersion = "unknown"

// Peer describes another replica, as its lease does.
type Peer struct {
	Name     string
	Address  string // of its link
	Revision string // of its configuration
	Version  string // of its program, or UnknownVersion
	Leaving  bool
	// Err is why the last attempt to reach it failed; nil if it succeeded or none was made
	// yet.
	Err error
}

// list describes the peers.
func (m *members) list() (all []Peer) {
	peers := m.all()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range peers {
		all = append(all, p.shown(p.err))
	}
	return all
}

// Peers returns the other replicas, ordered by name.
func (c *Cluster) Peers() []Peer {
	if c.members == nil {
		return nil
	}
	return c.members.list()
}

// shown describes a peer. The caller holds members.mu.
func (p *peer) shown(err error) Peer {
	return Peer{Name: p.name, Address: p.address, Revision: p.lease.Revision,
		Version: version(p.lease), Leaving: p.lease.Leaving, Err: err}
}

// Check lists the replicas with leases in a Redis, ordered by name, and tries to connect to each.
// It does not become a replica itself. Errors: those of redisdb.DB.Run, and an error for a key that
// is too weak.
func Check(ctx context.Context, db *redisdb.DB, key []byte, accepted [][]byte) (peers []Peer, err error) {
	leases, err := newLeaseSeal(key, accepted)
	if err != nil {
		return nil, fmt.Errorf("cluster: key: %w", err)
	}
	got, err := db.Run(ctx, newScripts().leases, []string{db.Key(leaseNames)}, db.Key(leasePrefix), maxReplicas)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	rows, _ := got.([]any)
	for name, value := range readLeaseRows(rows) {
		l, err := leases.read(name, value)
		if err != nil {
			err = fmt.Errorf("cluster: its lease was sealed with another key: %w", err)
			peers = append(peers, Peer{Name: name, Err: err})
			continue
		}
		if l.Left || l.Gone {
			continue
		}
		p := newPeer(name, value, l, tls.Certificate{}, usualTimes(), tcp{})
		conn, err := p.dial(ctx, p.tls)
		if err == nil {
			conn.Close()
		}
		p.gone()
		peers = append(peers, p.shown(err))
	}
	slices.SortFunc(peers, func(a, b Peer) int { return strings.Compare(a.Name, b.Name) })
	return peers, nil
}
