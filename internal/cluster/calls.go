package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/gatehouse-mcp/gatehouse/internal/http1"
)

const (
	// maxCalls bounds the small requests that run at one peer at a time on connections of
	// their own. Further ones share a connection, as streams do.
	maxCalls = 128
	// maxDials bounds the connections that are opened to one peer at a time, so that a burst
	// of requests does not become a burst of handshakes.
	maxDials = 4
)

// errShare means that the request was not sent and has to use the shared connection.
var errShare = errors.New("cluster: there is no connection for this request alone")

// calls sends small requests to a peer over HTTP/1.1. For a request that is answered soon,
// this costs half of what HTTP/2 does (make bench).
type calls struct {
	peer      *peer
	transport *http1.Transport
	tls       *tls.Config
	leaving   atomic.Bool   // the peer is about to stop: see begin
	free      chan struct{} // holds a token for each request
	dials     chan struct{} // holds a token for each connection that is being opened

	mu   sync.Mutex // guards the fields below
	path context.Context
	end  context.CancelFunc
}

func newCalls(p *peer) *calls {
	c := &calls{peer: p, tls: p.tls.Clone(), free: make(chan struct{}, maxCalls), dials: make(chan struct{}, maxDials)}
	c.tls.NextProtos = []string{protoCalls}
	c.path, c.end = context.WithCancel(p.ctx)
	c.transport = http1.New(http1.Config{Dial: c.dial, IdlePerHost: maxCalls, IdleTime: idleConnTime, HeadBytes: maxHeaders})
	return c
}

// begin returns the request as roundTrip takes it, or nil if the request does not qualify or
// there is no room. A peer that stops closes its idle connections, and a request sent at that
// moment is lost. Over HTTP/2 the peer announces the close first.
func (c *calls) begin(r *http.Request) *http.Request {
	if c.leaving.Load() || r.Method != http.MethodPost || r.Body != nil && r.GetBody == nil {
		return nil
	}
	plain := *r.URL // dial adds TLS
	plain.Scheme = "http"
	begun := *r
	begun.URL = &plain
	if !http1.Handles(&begun) {
		return nil
	}
	select {
	case c.free <- struct{}{}:
		return &begun
	default:
		return nil
	}
}

// roundTrip sends a request that begin returned. Its place becomes free when the answer ends.
// Errors: errShare, and those of http1.Transport.
func (c *calls) roundTrip(begun *http.Request) (*http.Response, error) {
	resp, err := c.transport.RoundTrip(begun)
	if err != nil {
		<-c.free
		return nil, err
	}
	resp.Body = &callBody{ReadCloser: resp.Body, free: c.free}
	return resp, nil
}

// dial opens a connection that closes when the peer has gone or when cut is called.
func (c *calls) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	select {
	case c.dials <- struct{}{}:
		defer func() { <-c.dials }()
	default:
		return nil, errShare
	}
	conn, err := c.peer.dial(ctx, c.tls)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return &callConn{Conn: conn, stop: context.AfterFunc(c.path, func() { conn.NetConn().Close() })}, nil
}

// cut closes all connections. HTTP/1.1 has no pings that would notice an unreachable peer.
func (c *calls) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end()
	c.path, c.end = context.WithCancel(c.peer.ctx)
}

type callBody struct {
	io.ReadCloser
	free   chan struct{}
	closed atomic.Bool
}

func (b *callBody) Close() error {
	if !b.closed.Swap(true) {
		<-b.free
	}
	return b.ReadCloser.Close()
}

// callConn is a TLS connection that http1 can inspect before it reuses it.
type callConn struct {
	*tls.Conn
	stop  func() bool
	heard bool // something was read; for the reader
}

// Read returns http1.ErrNotSent if the peer did not admit the connection. With TLS 1.3, a request
// may be sent before the peer has judged our certificate; then it does not read the request.
func (c *callConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.heard = c.heard || n > 0
	if alert, ok := errors.AsType[*net.OpError](err); ok && alert.Op == "remote error" && !c.heard {
		err = fmt.Errorf("%w: %w", http1.ErrNotSent, err)
	}
	return n, err
}

// Close closes the connection below TLS. The peer would take TLS's close_notify for the end of
// the client, and could still answer a request whose client has just gone.
func (c *callConn) Close() error {
	c.stop()
	return c.NetConn().Close()
}

// SyscallConn returns the connection below TLS. Between an answer and the next request nothing
// arrives there except the end of the connection: there are no session tickets and no key
// updates.
func (c *callConn) SyscallConn() (syscall.RawConn, error) {
	return c.NetConn().(*boundConn).Conn.(syscall.Conn).SyscallConn()
}
