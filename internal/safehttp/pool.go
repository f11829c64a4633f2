package safehttp

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/egress"
)

// pool keeps connections to the addresses that allowed accepts.
type pool struct {
	route   *egress.Route
	timeout time.Duration
	allowed func(netip.Addr) bool // nil for all
	dialer  *net.Dialer
	http    *http.Transport
	peer    atomic.Pointer[x509.Certificate] // of the last host of https
}

func newPool(route *egress.Route, timeout time.Duration, allowed func(netip.Addr) bool) *pool {
	p := &pool{route: route, timeout: timeout, allowed: allowed, dialer: newDialer(timeout, allowed)}
	p.http = &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return p.dialer.DialContext(ctx, network, address)
		},
		DialTLSContext:         p.dialTLS,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    maxIdlePerHost,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
	return p
}

func (p *pool) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout) // net/http may go on dialling for the next request
	defer cancel()
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	conn, err := p.open(ctx, network, address)
	if err != nil {
		return nil, err
	}
	secured, err := p.route.Secure(ctx, conn, host)
	if err != nil {
		return nil, err // not a nil *tls.Conn
	}
	p.peer.Store(secured.ConnectionState().PeerCertificates[0])
	return secured, nil
}

// open connects to an address of https, by its proxy if there is one. A proxy resolves names by
// itself and is inside of the network, so where not all addresses are allowed, it gets an address
// that was checked here, and no name.
func (p *pool) open(ctx context.Context, network, address string) (net.Conn, error) {
	proxy, err := p.route.Proxy(&url.URL{Scheme: "https", Host: address})
	if err != nil {
		return nil, err
	}
	if proxy == nil {
		return p.dialer.DialContext(ctx, network, address)
	}
	if p.allowed != nil {
		if address, err = p.resolve(ctx, address); err != nil {
			return nil, err
		}
	}
	return proxy.Tunnel(ctx, newDialer(p.timeout, nil).DialContext, address)
}

// resolve returns an allowed address of a host, preferably IPv4, which all proxies reach.
func (p *pool) resolve(ctx context.Context, address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	resolver := p.dialer.Resolver
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	found, err := resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return "", err
	}
	found = slices.DeleteFunc(found, func(a netip.Addr) bool { return !p.allowed(a.Unmap()) })
	if len(found) == 0 {
		return "", errAddress
	}
	first := max(0, slices.IndexFunc(found, func(a netip.Addr) bool { return a.Unmap().Is4() }))
	return net.JoinHostPort(found[first].Unmap().String(), port), nil
}

var errAddress = fmt.Errorf("%w: the address is not one that may be dialled", ErrForbidden)

// newDialer makes a dialer that calls allowed for each resolved address, before anything is sent. Nil
// allows all.
func newDialer(timeout time.Duration, allowed func(netip.Addr) bool) *net.Dialer {
	d := &net.Dialer{Timeout: timeout} // net/http may go on dialling for the next request
	if allowed != nil {
		d.Control = func(_, address string, _ syscall.RawConn) error {
			if to, err := netip.ParseAddrPort(address); err != nil || !allowed(to.Addr().Unmap()) {
				return errAddress
			}
			return nil
		}
	}
	return d
}
