package clientele

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// How often clients may register: in all, and from one address. A registration keeps nothing here, but
// costs some work.
const (
	atOnce        = 600
	every         = 100 * time.Millisecond
	atOnceOfOne   = 60
	everyOfOne    = time.Second
	maxAddresses  = 5000
	networkBits   = 64 // whoever has one IPv6 address has all of its network
	sayRetryAfter = "30"
)

// pace bounds how often clients register.
type pace struct {
	all *rate.Limiter

	mu  sync.Mutex // guards the making of limiters
	one *lru.Cache[netip.Addr, *rate.Limiter]
}

func newPace() *pace {
	one, err := lru.New[netip.Addr, *rate.Limiter](maxAddresses)
	if err != nil {
		panic(err) // the size is a constant above 0
	}
	return &pace{all: rate.NewLimiter(rate.Every(every), atOnce), one: one}
}

// allows reports whether somebody at this address may register now. An address that many share counts
// only in all.
func (p *pace) allows(from netip.Addr, shared bool) bool {
	if !shared && !p.of(from).Allow() {
		return false
	}
	return p.all.Allow()
}

func (p *pace) of(from netip.Addr) *rate.Limiter {
	if from.Is6() {
		if network, err := from.Prefix(networkBits); err == nil {
			from = network.Addr()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l, known := p.one.Get(from)
	if !known {
		l = rate.NewLimiter(rate.Every(everyOfOne), atOnceOfOne)
		p.one.Add(from, l)
	}
	return l
}

// addressOf returns where a request comes from.
func addressOf(r *http.Request) netip.Addr {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return from.Addr().Unmap().WithZone("")
}
