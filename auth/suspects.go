package auth

import (
	"context"
	"errors"
	"net/netip"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	// suspectAfter is how many invalid opaque tokens or unknown codes within suspectFor make an
	// address suspect, without a valid one. All suspect addresses together have one request to the
	// issuer at a time: so what is made up costs the issuer little, and other addresses do not have
	// to wait. An address with valid ones may be a proxy's, with many users.
	suspectAfter = 20
	suspectFor   = time.Minute
	maxSuspects  = 10_000 // addresses that are counted
	maxQueued    = 64     // requests of suspects that wait for their turn
	networkBits  = 64     // how much of an IPv6 address counts as one
)

var errQueued = errors.New("too much from this address was no good")

// suspects are the addresses that send invalid tokens, or codes.
type suspects struct {
	counts *lru.Cache[netip.Prefix, count]
	queue  chan struct{} // holds one for each that waits, or has its turn
	turn   chan struct{}
}

// count is the number of invalid ones since a time, and whether there was a valid one.
type count struct {
	since time.Time
	bad   int
	good  bool
}

func newSuspects() (*suspects, error) {
	counts, err := lru.New[netip.Prefix, count](maxSuspects)
	return &suspects{counts, make(chan struct{}, maxQueued), make(chan struct{}, 1)}, err
}

// networkOf is the address, or network, that a remote address counts as, with or without a port.
func networkOf(remote string) netip.Prefix {
	addr, err := netip.ParseAddr(remote)
	if at, portErr := netip.ParseAddrPort(remote); portErr == nil {
		addr, err = at.Addr(), nil
	}
	if err != nil {
		return netip.Prefix{} // all of these together
	}
	addr = addr.Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = networkBits
	}
	network, _ := addr.Prefix(bits) // of a right length
	return network
}

// wait returns when the issuer may be asked about what came from an address. The caller calls done after
// that.
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

// bad counts an invalid token or code. Two at the same time may count as one.
func (s *suspects) bad(from netip.Prefix) {
	c, ok := s.counts.Get(from)
	if !ok || time.Since(c.since) >= suspectFor {
		c = count{since: time.Now(), good: c.good}
	}
	c.bad++
	s.counts.Add(from, c)
}

// good records a valid token or code.
func (s *suspects) good(from netip.Prefix) {
	if c, _ := s.counts.Get(from); !c.good {
		s.counts.Add(from, count{since: time.Now(), good: true})
	}
}
