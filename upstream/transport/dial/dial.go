// Package dial makes the connections to a server on HTTP. There is an http.RoundTripper for each
// upstream, which reaches that server and nothing else.
//
// It owns which client sends a request, how long a connection is kept, which user it belongs to,
// and where it must not lead. It leaves what is sent to transport/streamable. net/http and
// internal/http1 start the goroutines of connections; CloseIdleConnections ends those of idle ones.
package dial

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/http1"
	"github.com/gatehouse-mcp/gatehouse/internal/safehttp"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

const (
	minIdle         = 64
	maxResponseHead = 64 << 10
	tcpKeepAlive    = 30 * time.Second
	// idlePlain is how long an idle connection over plain HTTP is kept. Many servers close theirs
	// after five seconds: what is sent just then is lost, and there is no telling whether it was
	// read. idleTLS is longer, since such a connection costs more to open, and in HTTP/2 a server
	// says what it has not read.
	idlePlain = 3 * time.Second
	idleTLS   = 90 * time.Second
)

// Config says where a server on HTTP is.
type Config struct {
	// URL is its endpoint.
	URL string
	// Timeout bounds a connection, and the TLS handshake on it.
	Timeout time.Duration
	// Idle is how many connections without a request are kept, or 64 when it is less.
	Idle int
	// Standard has net/http's client send all requests.
	Standard bool
	// Route says by which proxy and with which certificates.
	Route egress.Config
}

// Transport is the http.RoundTripper of one upstream. All its connections go to that
// upstream's origin, and no other upstream uses them: what a server sends unasked could be
// taken for the answer to another one's request. It does not decompress or, being a
// RoundTripper, follow redirects.
//
// Small requests over plain HTTP take a client of our own, which needs about half the CPU;
// all others, and those of an upstream with Config.Standard or a proxy, take net/http's.
type Transport struct {
	own      *http1.Transport
	general  *http.Transport
	standard bool   // all requests are for general
	relay    *relay // sends requests over plain HTTP to a proxy; nil for none
	proxy    string // its address, or that of the proxy for https; "" for none

	peer atomic.Pointer[x509.Certificate] // the server's, of the last handshake that succeeded
}

// New makes a Transport. metrics count its connections.
func New(cfg Config, metrics *Metrics) *Transport {
	u, err := url.Parse(cfg.URL)
	if err != nil {
		u = &url.URL{} // upstream.Config.Validate has refused it
	}
	t := &Transport{standard: cfg.Standard}
	keep := idlePlain
	if u.Scheme == "https" {
		keep = idleTLS
	}
	route := egress.New(cfg.Route)
	dial := metrics.counting(t.dialer(cfg, u, route))
	perHost := max(minIdle, cfg.Idle)
	t.own = http1.New(http1.Config{
		Dial:        dial,
		IdlePerHost: perHost,
		IdleTime:    keep,
		HeadBytes:   maxResponseHead,
	})
	t.general = &http.Transport{
		DialContext:            dial,
		DialTLSContext:         t.secure(dial, route, u.Hostname(), cfg.Timeout),
		ForceAttemptHTTP2:      true,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    perHost,
		IdleConnTimeout:        keep,
		MaxResponseHeaderBytes: maxResponseHead,
		ExpectContinueTimeout:  time.Second,
	}
	return t
}

// dialer returns how connections to the server are opened, by its proxy if there is one.
func (t *Transport) dialer(cfg Config, u *url.URL, route *egress.Route) egress.DialFunc {
	d, origin := net.Dialer{Timeout: cfg.Timeout, KeepAlive: tcpKeepAlive}, safehttp.Address(u)
	proxy, err := route.Proxy(u)
	switch {
	case err != nil:
		return func(context.Context, string, string) (net.Conn, error) { return nil, unsent(err) }
	case proxy == nil:
		return guarded(d, origin)
	}
	t.proxy = proxy.Address()
	to := guarded(d, t.proxy)
	if u.Scheme != "https" {
		t.relay = &relay{proxy, u}
		return t.relay.dialer(to, cfg.Timeout)
	}
	// The proxy gets the name. What the name leads to there gets a handshake, and nothing else unless
	// its certificate has the name: no service of a host has it.
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
		defer cancel()
		conn, err := proxy.Tunnel(ctx, to, origin)
		return conn, unsent(err)
	}
}

// unsent marks the error of a connection that has not come about.
func unsent(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", transport.ErrNotSent, err)
}

// secure dials TLS with this host. A failed handshake has an error of its own: the server has
// not seen a request then.
func (t *Transport) secure(dial egress.DialFunc, route *egress.Route, host string,
	limit time.Duration) egress.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		secured, err := route.Secure(ctx, conn, host)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", transport.ErrHandshake, err)
		}
		t.peer.Store(secured.ConnectionState().PeerCertificates[0])
		return secured, nil
	}
}

// Peer returns the server's certificate, nil while none was accepted, and the address of the proxy
// through which it is reached, "" for none.
func (t *Transport) Peer() (certificate *x509.Certificate, proxy string) {
	return t.peer.Load(), t.proxy
}

// RoundTrip sends a request.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.relay != nil {
		return t.relay.send(t.general, req)
	}
	if http1.Handles(req) && !t.standard {
		return t.own.RoundTrip(req)
	}
	return t.general.RoundTrip(req)
}

// For returns the http.RoundTripper of one user, by mcp.Caller.User: no request with
// another credential goes over the same connections.
func (t *Transport) For(user string) http.RoundTripper { return &userTransport{t, user} }

type userTransport struct {
	*Transport
	user string
}

// RoundTrip sends a request. Transports keep connections by the host of the URL, which has no
// other use: the request has its own Host, and there is only one origin to dial.
func (t *userTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	own, at := *req, *req.URL
	at.Host, own.URL = t.user, &at
	return t.Transport.RoundTrip(&own)
}

// CloseIdleConnections closes what no request uses.
func (t *Transport) CloseIdleConnections() {
	t.own.CloseIdleConnections()
	t.general.CloseIdleConnections()
}

// ErrHostService: a server's name leads to an address of the host's own services.
var ErrHostService = errors.New("the name leads to an address of the host's own services")

// guarded dials what an operator named, whatever it is called with. Most servers are at private
// addresses, and the owner of a name decides where it leads; over https the certificate proves
// who answers. But no name may lead to the services of the host itself, such as a cloud's
// metadata: the address is checked when it is dialled, so changing it in DNS does not help. An
// address that the operator wrote in place of a name is dialled.
func guarded(d net.Dialer, named string) egress.DialFunc {
	if _, err := netip.ParseAddrPort(named); err != nil {
		d.Control = func(_, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			if safehttp.HostService(to.Addr()) {
				return ErrHostService
			}
			return nil
		}
	}
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return d.DialContext(ctx, network, named)
	}
}
