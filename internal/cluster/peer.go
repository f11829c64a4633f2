package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/gatehouse-mcp/gatehouse/internal/http1"
)

const (
	// refusedPause is the time after which a peer that refused a connection is tried once
	// more. A peer that is about to listen does not count as gone.
	refusedPause = 50 * time.Millisecond
	// missedPause is the time between two attempts to reach a peer.
	missedPause = 100 * time.Millisecond
	// idleConnTime is how long an unused connection to a peer is kept.
	idleConnTime = 90 * time.Second
	// streamWindow is how many bytes of one answer may wait in memory for its client.
	streamWindow = 256 << 10
)

// errEnded is the cause that ends a peer's context: its lease ended, or it refused
// connections.
var errEnded = errors.New("cluster: the replica has gone")

// errAnother means that the process that answers is not the replica that has the lease.
var errAnother = errors.New("cluster: at the address of a replica another one answers")

// dialError means that there is no connection to a peer, and nothing was sent.
type dialError struct {
	err     error
	refused bool // twice: nothing listens there
}

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// peer is another replica.
type peer struct {
	name      string
	address   string
	digest    []byte
	ctx       context.Context // ends when the peer has gone; connections to it end with it
	end       context.CancelCauseFunc
	tls       *tls.Config
	transport *http.Transport  // HTTP/2
	calls     *http1.Transport // for small requests
	free      chan struct{}    // holds a token for each request of calls
	leaving   atomic.Bool      // it is about to stop: see begin
	network   network
	times     times
	conns     atomic.Int64       // open connections
	silent    atomic.Int64       // members.now of the first failure to reach it since it last answered; 0 for none
	first     singleflight.Group // opens the first connection once for all who wait for it

	cutting sync.Mutex      // guards the fields below
	path    context.Context // connections end with it, at the latest when the peer has gone
	endPath context.CancelFunc

	// The fields below are guarded by members.mu.
	value string // its lease as it is in Redis
	lease lease
	err   error // why it could not be reached when it was last tried
}

// newPeer makes a peer that lives until its end is called. identity is our certificate.
func newPeer(name, value string, l lease, identity tls.Certificate, t times, n network) *peer {
	ctx, end := context.WithCancelCause(context.Background()) // until end
	p := &peer{
		name: name, address: l.Address, digest: l.Digest, ctx: ctx, end: end, network: n, times: t, value: value, lease: l,
		free: make(chan struct{}, maxCalls),
	}
	p.path, p.endPath = context.WithCancel(ctx)
	p.leaving.Store(l.Leaving)
	p.tls = linkTLS(identity, protoStreams)
	p.tls.ServerName = name
	p.tls.InsecureSkipVerify = true // no authority signs for replicas: the lease has the digest
	p.tls.VerifyConnection = p.verify
	p.transport = &http.Transport{
		DialTLSContext:     func(ctx context.Context, _, _ string) (net.Conn, error) { return p.dial(ctx, p.tls) },
		Protocols:          onlyHTTP2(),
		DisableCompression: true,
		IdleConnTimeout:    idleConnTime,
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: t.idle, PingTimeout: t.ping, WriteByteTimeout: t.idle + t.ping,
			MaxReceiveBufferPerStream: streamWindow,
		},
	}
	p.calls = newCalls(p)
	return p
}

// verify checks the certificate of each connection.
func (p *peer) verify(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 || !bytes.Equal(digestOf(state.PeerCertificates[0].Raw), p.digest) {
		return fmt.Errorf("%w: replica %s", errAnother, p.name)
	}
	return nil
}

// send sends a request. sent says that the request may have been sent, unless the error is a
// *dialError or http1.ErrNotSent. If there is no connection yet, send first asks the peer whether it
// reaches Redis. So a thousand requests do not open a thousand connections, and a peer that does not
// admit us has received nothing.
func (p *peer) send(r *http.Request) (resp *http.Response, sent bool, err error) {
	if p.conns.Load() == 0 {
		_, err, _ := p.first.Do("", func() (any, error) {
			return p.ask(p.ctx, contactPath) // several callers wait for it
		})
		if err != nil {
			return nil, false, err
		}
	}
	if begun := p.begin(r); begun != nil {
		resp, err = p.call(begun)
		return resp, true, err
	}
	var connected atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	resp, err = p.transport.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	return resp, connected.Load(), err
}

// dial connects to the peer. Errors: *dialError.
func (p *peer) dial(ctx context.Context, config *tls.Config) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.times.dial)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	raw, err := p.network.dial(ctx, p.address)
	if errors.Is(err, syscall.ECONNREFUSED) {
		select {
		case <-time.After(refusedPause):
			raw, err = p.network.dial(ctx, p.address)
		case <-ctx.Done():
			return nil, &dialError{err: ctx.Err()}
		}
	}
	if err != nil {
		return nil, &dialError{err: err, refused: errors.Is(err, syscall.ECONNREFUSED)}
	}
	p.cutting.Lock()
	below := &boundConn{Conn: raw, peer: p, stop: context.AfterFunc(p.path, func() { raw.Close() })}
	p.cutting.Unlock()
	conn := tls.Client(below, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		below.Close()
		return nil, &dialError{err: err}
	}
	below.counted.Store(true) // the peer has answered on it
	p.conns.Add(1)
	return conn, nil
}

// boundConn is a connection that ends with the path to a peer, and that is counted until Close.
type boundConn struct {
	net.Conn
	peer    *peer
	stop    func() bool
	counted atomic.Bool
}

func (c *boundConn) Close() error {
	c.stop()
	if c.counted.Swap(false) {
		c.peer.conns.Add(-1)
	}
	return c.Conn.Close()
}

// cut closes all connections: HTTP/1.1 has no pings that would notice an unreachable peer.
func (p *peer) cut() {
	p.cutting.Lock()
	defer p.cutting.Unlock()
	p.endPath()
	p.path, p.endPath = context.WithCancel(p.ctx)
}

// left ends a peer that has left in good order. It had answered all requests by then: the
// answers have the time of a lease to arrive.
func (p *peer) left() {
	p.leaving.Store(true)
	p.closeIdle()
	time.AfterFunc(p.times.lease, p.gone)
}

// gone ends everything that waits for the peer.
func (p *peer) gone() {
	p.end(errEnded)
	p.closeIdle()
}

func (p *peer) closeIdle() {
	p.transport.CloseIdleConnections()
	p.calls.CloseIdleConnections()
}
