package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
)

const (
	// maxAsked bounds how many peers are asked at a time.
	maxAsked = 16
	// contactPath is where a replica reports its contact with Redis.
	contactPath = "/contact"
	// lookPath is the same, after the replica has read the leases again.
	lookPath   = "/look"
	maxContact = 64 // bytes of the report
)

// contact is whether and when Redis last answered a replica.
type contact struct {
	// unbroken says that the newest renewal succeeded. A replica for which this is false
	// considers nobody gone for a whole lease.
	unbroken bool
	// age is the time since Redis last answered a renewal.
	age time.Duration
}

// reach is the result of asking a peer. Its times are ours.
type reach struct {
	asked, answered time.Duration // the newest time, even if no answer came
	told            contact
	err             error
	reported        bool          // the log says that the peer cannot be reached
	harmless        time.Duration // when it was last asked and was harmless; 0 for never
}

// tell returns our own contact with Redis.
func (m *members) tell() contact {
	m.mu.Lock()
	defer m.mu.Unlock()
	return contact{unbroken: m.tenure.unbroken, age: m.now() - m.tenure.answered}
}

func (s contact) String() string {
	return strconv.FormatBool(s.unbroken) + " " + strconv.FormatInt(s.age.Milliseconds(), 10)
}

func parseContact(text string) (contact, error) {
	word, digits, _ := strings.Cut(text, " ")
	age, err := strconv.ParseUint(digits, 10, 42)
	if err != nil || word != "true" && word != "false" {
		return contact{}, fmt.Errorf("cluster: a replica says %q", text)
	}
	return contact{unbroken: word == "true", age: time.Duration(age) * time.Millisecond}, nil
}

// ask asks a peer for its contact with Redis, at contactPath or lookPath.
func (p *peer) ask(ctx context.Context, path string) (contact, error) {
	ctx, cancel := context.WithTimeout(ctx, p.times.look)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+p.name+path, nil)
	if err != nil {
		return contact{}, fmt.Errorf("cluster: %w", err)
	}
	resp, err := p.transport.RoundTrip(req)
	if err != nil {
		return contact{}, err
	}
	p.heard()
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxContact))
	if err != nil {
		return contact{}, err
	}
	if resp.StatusCode != http.StatusOK {
		return contact{}, fmt.Errorf("cluster: a replica answers %s", resp.Status)
	}
	return parseContact(string(text))
}

// eachPeer calls do for all peers that are not known to have gone, several at a time.
func (m *members) eachPeer(do func(*peer)) (all []*peer) {
	m.mu.Lock()
	for _, p := range m.peers {
		if !p.refused {
			all = append(all, p)
		}
	}
	m.mu.Unlock()
	var running sync.WaitGroup
	free := make(chan struct{}, maxAsked)
	for _, p := range all {
		free <- struct{}{}
		running.Go(func() {
			defer func() { <-free }()
			do(p)
		})
	}
	running.Wait()
	return all
}

// reached asks a peer, records the result, and reports whether it answered.
func (m *members) reached(ctx context.Context, p *peer) bool {
	sent := m.now()
	told, err := p.ask(ctx, contactPath)
	m.mu.Lock()
	defer m.mu.Unlock()
	p.reach.asked, p.reach.answered, p.reach.told, p.reach.err = sent, m.now(), told, err
	return err == nil
}

// askAround finds out whether Redis answers the other replicas while it does not answer us. If
// all peers are harmless, nobody has taken anything over from us, and nobody can for a while.
// A replica that has started since Redis last answered is unknown here; the fence protects
// against it.
func (m *members) askAround() {
	began := m.now()
	peers := m.eachPeer(func(p *peer) { m.reached(context.Background(), p) }) // each request has a time limit
	m.mu.Lock()
	safe := m.tenure.ever && !m.closed
	var dead []*peer
	for _, p := range peers {
		switch p.reach.judge(m.tenure, m.times.grace()) {
		case gone:
			dead = append(dead, p)
		case harmless:
			p.reach.harmless = p.reach.asked
		default:
			safe = false
		}
	}
	if safe {
		m.sure.Store(max(m.sure.Load(), int64(began+m.times.grace())))
	}
	m.mu.Unlock()
	for _, p := range dead {
		m.bury(p, m.now())
	}
}

// verdict is what a peer may have done while our own lease could not be renewed.
type verdict int

const (
	suspect  verdict = iota // it may have taken something over from us, or may be about to
	harmless                // it has not, and cannot until times.grace after it was asked
	gone                    // it has not, and never will
)

// grace is the time during which a peer considers nobody gone, after it said that its newest
// renewal had failed. The next renewal may have been under way, and a lease counts from the
// start of its renewal.
func (t times) grace() time.Duration { return t.lease - t.look }

// judge draws the conclusion from asking a peer. A peer has taken nothing over if Redis has
// not answered it since our own lease ended; it will take nothing over for a while if its
// newest renewal failed. A peer that does not answer may do anything. A peer that refuses
// connections has gone: if it was harmless until then, it stays so.
func (r reach) judge(own tenure, good time.Duration) verdict {
	dial, _ := errors.AsType[*dialError](r.err)
	switch {
	case dial != nil && dial.refused && r.answered < max(own.end(), r.harmless+good):
		return gone
	case r.err == nil && !r.told.unbroken && r.answered-r.told.age < own.end():
		return harmless
	}
	return suspect
}

// reportAll reports the results of asking peers.
func (m *members) reportAll(asked []*peer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	unreachable := 0
	for _, p := range asked {
		m.report(p)
		if p.reach.err != nil && p.ctx.Err() == nil {
			unreachable++
		}
	}
	m.count.unreachable.Set(float64(unreachable))
}

// again waits after a failure to reach a peer, and reports whether to try again: until the caller
// has tried since began for times.patience, or the peer has given nobody an answer for as long, or
// it has gone, or ctx has ended. So a peer that is stopped for a moment costs nobody an error, and
// requests do not wait for one that stays unreachable.
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

// unreached records that a forward could not reach a peer.
func (m *members) unreached(p *peer, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p.reach.err = err
	m.report(p)
}

// report logs, once for each change, that a peer cannot be reached or can be reached again.
// The caller holds mu.
func (m *members) report(p *peer) {
	err, before := p.reach.err, p.reach.reported
	p.reach.reported = err != nil
	switch {
	case p.ctx.Err() != nil || before == (err != nil):
	case before:
		m.log.Info("another replica can be reached again", "replica", p.name, "address", p.address)
	default:
		p.calls.cut()
		m.log.Warn("another replica cannot be reached: sessions that it owns are not served here", failure.ReplicaUnreachable.Attr(), "replica", p.name, "address", p.address, "error", err)
	}
}

// Peer describes another replica, as its lease does.
type Peer struct {
	Name     string
	Address  string // of its link
	Revision string // of its configuration
	Leaving  bool
	// Err is why the last attempt to reach it failed; nil if it succeeded or none was made
	// yet.
	Err error
}

func (m *members) list() []Peer {
	m.mu.Lock()
	defer m.mu.Unlock()
	var peers []Peer
	for _, p := range m.peers {
		if !p.refused {
			peers = append(peers, p.shown(p.reach.err))
		}
	}
	return inOrder(peers)
}

func (p *peer) shown(err error) Peer {
	return Peer{Name: p.name, Address: p.address, Revision: p.lease.Revision, Leaving: p.lease.Leaving, Err: err}
}

func inOrder(peers []Peer) []Peer {
	slices.SortFunc(peers, func(a, b Peer) int { return strings.Compare(a.Name, b.Name) })
	return peers
}

// Check lists the replicas that have leases in a Redis, and tries to connect to each, without
// becoming a replica itself. Errors: those of redisdb.DB.Run, and an error for a key that is
// too weak.
func Check(ctx context.Context, db *redisdb.DB, key []byte, accepted [][]byte) ([]Peer, error) {
	leases, err := newLeaseSeal(key, accepted)
	if err != nil {
		return nil, fmt.Errorf("cluster: key: %w", err)
	}
	got, err := db.Run(ctx, newScripts().leases, []string{db.Key(leaseNames)}, db.Key(leasePrefix), maxReplicas)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	rows, _ := got.([]any)
	var peers []Peer
	for name, value := range readLeaseRows(rows) {
		l, err := leases.read(name, value)
		if err != nil {
			peers = append(peers, Peer{Name: name, Err: fmt.Errorf("cluster: its lease was sealed with another key: %w", err)})
			continue
		}
		if l.Left {
			continue
		}
		p := newPeer(name, value, l, tls.Certificate{}, usualTimes())
		conn, err := p.dial(ctx, p.tls)
		if err == nil {
			conn.Close()
		}
		p.gone()
		peers = append(peers, p.shown(err))
	}
	return inOrder(peers), nil
}
