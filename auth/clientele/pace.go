package clientele

import (
	"context"
	"net/netip"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	maxAddresses = 5000
	networkBits  = 64 // a client that has one IPv6 address has all of its network
)

// pace bounds how often strangers can cause some work: in all, and for one address.
type pace struct {
	shared func(netip.Addr) bool // nil for none
	all    *rate.Limiter
	atOnce int
	every  time.Duration

	mu  sync.Mutex // guards the making of limiters
	one *lru.Cache[netip.Addr, *rate.Limiter]
}

// newPace makes a pace: how much at once and how often, in all and for one address.
func newPace(shared func(netip.Addr) bool, atOnce int, every time.Duration, ofOne int, everyOfOne time.Duration) *pace {
	return &pace{
		shared: shared, all: rate.NewLimiter(rate.Every(every), atOnce), atOnce: ofOne, every: everyOfOne,
		one: newLRU[netip.Addr, *rate.Limiter](maxAddresses),
	}
}

// by returns the address that a request counts for, for IPv6 its network. It is the zero Addr if the
// address is not known or is that of a proxy which does not say where its requests come from.
func (p *pace) by(ctx context.Context) netip.Addr {
	from, err := netip.ParseAddr(mcp.OriginFrom(ctx).Address)
	if err != nil || p.shared != nil && p.shared(from) {
		return netip.Addr{}
	}
	if network, err := from.Prefix(networkBits); err == nil && from.Is6() {
		return network.Addr()
	}
	return from
}

// allows reports whether the work may be done now for an address. The zero Addr counts only in all.
func (p *pace) allows(by netip.Addr) bool {
	if by.IsValid() && !p.of(by).Allow() {
		return false
	}
	return p.all.Allow()
}

func (p *pace) of(by netip.Addr) *rate.Limiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	l, known := p.one.Get(by)
	if !known {
		l = rate.NewLimiter(rate.Every(p.every), p.atOnce)
		p.one.Add(by, l)
	}
	return l
}
