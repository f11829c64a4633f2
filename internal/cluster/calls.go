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
	"syscall"

	"github.com/gatehouse-mcp/gatehouse/internal/http1"
)

// maxCalls bounds the small requests that run at one peer at a time on connections of their own.
// Further ones share a connection, as streams do.
const maxCalls = 128

// newCalls makes the transport that sends small requests to a peer over HTTP/1.1. For a request that
// is answered soon, this costs half of what HTTP/2 does (make bench).
func newCalls(p *peer) *http1.Transport {
	config := p.tls.Clone()
	config.NextProtos = []string{protoCalls}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := p.dial(ctx, config)
		if err != nil {
			return nil, err
		}
		return &callConn{Conn: conn}, nil
	}
	return http1.New(http1.Config{Dial: dial, IdlePerHost: maxCalls, IdleTime: idleConnTime, HeadBytes: maxHeaders})
}

// begin returns the request for call, nil if the request does not qualify or there is no room. A
// peer that stops closes its idle connections, and a request sent at that moment is lost. Over
// HTTP/2 the peer announces the close first.
func (p *peer) begin(r *http.Request) *http.Request {
	if p.leaving.Load() || r.Method != http.MethodPost || r.Body != nil && r.GetBody == nil {
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
	case p.free <- struct{}{}:
		return &begun
	default:
		return nil
	}
}

// call sends a request that begin returned. Its place becomes free when the answer ends. Errors:
// those of http1.Transport.
func (p *peer) call(begun *http.Request) (*http.Response, error) {
	resp, err := p.calls.RoundTrip(begun)
	if err != nil {
		<-p.free
		return nil, err
	}
	resp.Body = &callBody{ReadCloser: resp.Body, leave: sync.OnceFunc(func() { <-p.free })}
	return resp, nil
}

type callBody struct {
	io.ReadCloser
	leave func()
}

func (b *callBody) Close() error {
	b.leave()
	return b.ReadCloser.Close()
}

// callConn is a TLS connection that http1 can inspect before it reuses it.
type callConn struct {
	*tls.Conn
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
// the client, and could still answer a request after its client has gone.
func (c *callConn) Close() error { return c.NetConn().Close() }

// SyscallConn returns the connection below TLS. Between an answer and the next request nothing
// arrives there except the end of the connection: there are no session tickets and no key
// updates.
func (c *callConn) SyscallConn() (syscall.RawConn, error) {
	return c.NetConn().(*boundConn).Conn.(syscall.Conn).SyscallConn()
}
