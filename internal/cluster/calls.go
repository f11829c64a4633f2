package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/gatehouse-mcp/gatehouse/internal/http1"
)

const (
	// maxCalls is how many small requests are at a peer at a time on connections of their own.
	// More of them share one, as streams do.
	maxCalls = 128
	// maxDials is how many of these connections are opened at a time: a burst of requests does
	// not become one of handshakes.
	maxDials = 4
)

// errShare: the request was not sent, and goes where others share a connection.
var errShare = errors.New("cluster: there is no connection for this request alone")

// calls sends small requests to a peer over HTTP/1.1: for a request that is answered soon
// that costs half of what HTTP/2 does (make bench).
type calls struct {
	peer      *peer
	transport *http1.Transport
	tls       *tls.Config
	leaving   atomic.Bool   // the peer is about to stop: see begin
	free      chan struct{} // a place is taken for each request
	dials     chan struct{} // and for each connection that is being opened

	mu   sync.Mutex // guards what follows
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

// begin returns a request as this way takes it, nil if it is none for it or there is no room.
// A peer that stops closes connections that are idle, and a request that meets that is lost;
// over HTTP/2 it says so first.
func (c *calls) begin(r *http.Request) *http.Request {
	if c.leaving.Load() || r.Method != http.MethodPost || r.Body != nil && r.GetBody == nil {
		return nil
	}
	plain := *r.URL // TLS is below: see dial
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

// roundTrip sends a request that has begun. Its place is free again when its answer ends.
// Errors: errShare, and those of http1.Transport.
func (c *calls) roundTrip(begun *http.Request) (*http.Response, error) {
	resp, err := c.transport.RoundTrip(begun)
	if err != nil {
		<-c.free
		return nil, err
	}
	resp.Body = &callBody{resp.Body, sync.OnceFunc(func() { <-c.free })}
	return resp, nil
}

// dial opens a connection that ends with the peer, or when the way to it is cut.
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
	return &callConn{conn, context.AfterFunc(c.path, func() { conn.NetConn().Close() })}, nil
}

// cut ends all connections: HTTP/1.1 has no pings that would tell of a peer that cannot be
// reached any more.
func (c *calls) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end()
	c.path, c.end = context.WithCancel(c.peer.ctx)
}

// callBody is the body of an answer.
type callBody struct {
	io.ReadCloser
	done func()
}

func (b *callBody) Close() error {
	b.done()
	return b.ReadCloser.Close()
}

// callConn is a connection of TLS that http1 can look at before it uses it again.
type callConn struct {
	*tls.Conn
	stop func() bool
}

// Close closes what lies below TLS: the peer would take TLS's farewell for the end of the
// client, and could answer a request whose client has just gone.
func (c *callConn) Close() error {
	c.stop()
	return c.NetConn().Close()
}

// SyscallConn returns what lies below TLS. Nothing comes there between an answer and the next
// request but the connection's end: no session tickets, and no request to change keys.
func (c *callConn) SyscallConn() (syscall.RawConn, error) {
	return c.NetConn().(*boundConn).Conn.(syscall.Conn).SyscallConn()
}
