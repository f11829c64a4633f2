package observe

import (
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// Any client can cause refusals, and must neither fill the disk with their records nor displace
// those of others.
const (
	// refusalsRecorded bounds the refusals of one address with a record of their own in a minute.
	// Of those that follow, the 16th has one, the 32nd, the 64th and so on; each counts those since
	// the last.
	refusalsRecorded = 8
	// refusalsInAll bounds the records in a minute, of all addresses.
	refusalsInAll = 300
	// mostShares bounds the addresses that are counted.
	mostShares = 4096
	// networkBits is the part of an IPv6 address that identifies a client.
	networkBits = 64
)

// ration bounds the records of one sort. Its zero value is ready to use.
type ration struct {
	mu     sync.Mutex // guards the fields below
	minute time.Time  // that is counted
	n      int        // of records
	of     *simplelru.LRU[netip.Addr, *share]
}

// share is the part of a ration that an address has used.
type share struct {
	minute time.Time // that is counted
	n      int       // of refusals
	silent int64     // since the last record
}

// ration records a refusal, unless there were too many of its sort and of its client.
func (e *Events) ration(of *ration, r *record.Record) {
	if !e.journal.Enabled() {
		return
	}
	ok := false
	if r.Count, ok = of.take(r.ClientAddress, time.Now()); ok {
		e.journal.Put(r)
	}
}

// take counts a refusal of an address. It returns false if it gets no record, else the number that
// the record stands for if there were some without one before.
func (r *ration) take(address string, now time.Time) (standsFor int64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.minute) >= time.Minute {
		r.minute, r.n = now, 0
	}
	s := r.share(address, now)
	s.n++
	s.silent++
	if s.n > refusalsRecorded && s.n&(s.n-1) != 0 || r.n >= refusalsInAll {
		return 0, false
	}
	r.n++
	if s.silent > 1 {
		standsFor = s.silent
	}
	s.silent = 0
	return standsFor, true
}

// share returns the share of an address. The caller holds mu.
func (r *ration) share(address string, now time.Time) *share {
	from, _ := netip.ParseAddr(address) // those that are not known share one
	if network, err := from.Prefix(networkBits); err == nil && from.Is6() {
		from = network.Addr()
	}
	if r.of == nil {
		r.of, _ = simplelru.NewLRU[netip.Addr, *share](mostShares, nil) // it has room for one
	}
	s, known := r.of.Get(from)
	if !known {
		s = &share{minute: now}
		r.of.Add(from, s)
	}
	if now.Sub(s.minute) >= time.Minute {
		s.minute, s.n = now, 0
	}
	return s
}
