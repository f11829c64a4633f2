package auth

import (
	"context"
	"errors"
	"net/netip"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	// suspectAfter is how many opaque tokens of one address may be no good within
	// suspectFor, if none was good. Then all such addresses together have one introspection
	// at a time: who makes tokens up costs the issuer little, and keeps nobody waiting at
	// another address. An address that good tokens come from may be a proxy's, with all
	// users behind it.
	suspectAfter = 20
	suspectFor   = time.Minute
	maxSuspects  = 10_000 // addresses that are counted
	maxQueued    = 64     // requests of suspects that wait for their turn
	networkBits  = 64     // how much of an IPv6 address counts as one
)

var errQueued = errors.New("too many tokens from this address were no good")

// suspects are the addresses that tokens which are no good come from.
type suspects struct {
	counts *lru.Cache[netip.Prefix, count]
	queue  chan struct{} // holds one for each that waits, or has its turn
	turn   chan struct{}
}

// count is how many tokens were no good since a time, and whether one ever was good.
type count struct {
	since time.Time
	bad   int
	good  bool
}

func newSuspects() (*suspects, error) {
	counts, err := lru.New[netip.Prefix, count](maxSuspects)
	return &suspects{counts, make(chan struct{}, maxQueued), make(chan struct{}, 1)}, err
}

// networkOf is whom a remote address counts as.
func networkOf(remote string) netip.Prefix {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{} // all of these together
	}
	addr := at.Addr().Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = networkBits
	}
	network, _ := addr.Prefix(bits) // of a right length
	return network
}

// wait returns when an address may have a token introspected; done ends that.
func (s *suspects) wait(ctx context.Context, from netip.Prefix) (done func(), err error) {
	c, ok := s.counts.Get(from)
	if !ok || c.good || c.bad < suspectAfter || time.Since(c.since) >= suspectFor {
		return func() {}, nil
	}
	select {
	case s.queue <- struct{}{}:
	default:
		return nil, &staleError{suspectFor, errQueued}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*fetchTime)
	defer cancel()
	select {
	case s.turn <- struct{}{}:
		return func() { <-s.turn; <-s.queue }, nil
	case <-ctx.Done():
		<-s.queue
		return nil, &staleError{retryMin, errQueued}
	}
}

// bad notes a token that was no good. Two at the same time may count as one.
func (s *suspects) bad(from netip.Prefix) {
	c, ok := s.counts.Get(from)
	if !ok || time.Since(c.since) >= suspectFor {
		c = count{since: time.Now(), good: c.good}
	}
	c.bad++
	s.counts.Add(from, c)
}

// good notes a token that was good.
func (s *suspects) good(from netip.Prefix) {
	if c, _ := s.counts.Get(from); !c.good {
		s.counts.Add(from, count{since: time.Now(), good: true})
	}
}
