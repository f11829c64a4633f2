package http1

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"
)

const (
	// MaxRequest is the largest request body that is accepted: with its head it fits the
	// kernel buffers at both ends, so writing does not wait for a server that answers
	// before it has read.
	MaxRequest = 32 << 10

	defaultIdle     = 64
	defaultIdleTime = 90 * time.Second
	defaultHead     = 64 << 10
)

// Config configures a Transport. Its zero value works.
type Config struct {
	// Dial connects to an address, "host:port"; by default as a net.Dialer does.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// IdlePerHost is how many connections to a host are kept for later, by default 64.
	IdlePerHost int
	// IdleTime is how long a connection without a request may be used again, by default
	// 90 s. It is closed then, or a quarter of the time later.
	IdleTime time.Duration
	// HeadBytes bounds the head of an answer, with the interim ones before it; by
	// default 64 KiB.
	HeadBytes int
}

// Transport is an http.RoundTripper. It reuses its connections where that is certainly safe.
// Its methods may be called concurrently.
type Transport struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)
	head int
	pool *pool
}

// New makes a Transport.
func New(cfg Config) *Transport {
	t := &Transport{
		dial: cfg.Dial,
		head: cmp.Or(cfg.HeadBytes, defaultHead),
		pool: newPool(cmp.Or(cfg.IdlePerHost, defaultIdle), cmp.Or(cfg.IdleTime, defaultIdleTime)),
	}
	if t.dial == nil {
		t.dial = (&net.Dialer{}).DialContext
	}
	return t
}

// Handles reports whether a Transport accepts a request: one for http, with no body or a small one
// of known length. It refuses all others, unsent.
func Handles(req *http.Request) bool { return unsupported(req) == "" }

// unsupported returns why a Transport does not accept a request, "" if it does.
func unsupported(req *http.Request) string {
	hasBody := req.Body != nil && req.Body != http.NoBody
	switch {
	case !canReuse:
		return "this system" // where each connection would serve one request
	case req.URL == nil || req.URL.Scheme != "http":
		return "a URL that is not http"
	case !isHost(req.URL.Host) || req.Host != "" && !isHost(req.Host):
		return "the host's name"
	case req.URL.User != nil:
		return "a user in the URL"
	case hasBody != (req.ContentLength > 0):
		return "a body of unknown length"
	case req.ContentLength > MaxRequest:
		return "a large body"
	case len(req.TransferEncoding) > 0 || len(req.Trailer) > 0:
		return "a transfer encoding"
	}
	return ""
}

// RoundTrip sends a request and returns the answer as soon as its head is there. It reads the
// request's body to its end first: the body must not make its reader wait. The end of the
// request's context closes the connection, and the error is the context's cause.
//
// If a reused connection turns out to be closed, RoundTrip sends the request once more on a new
// one. It does so if not a byte of it was sent, or if it is a GET, HEAD, OPTIONS or TRACE without a
// byte of an answer.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer req.Body.Close()
	}
	if what := unsupported(req); what != "" {
		return nil, errors.New("http1: not supported: " + what)
	}
	buf := borrow()
	defer giveBack(buf)
	out, err := appendRequest(*buf, req)
	*buf = out
	if err != nil {
		return nil, err
	}
	ctx := req.Context()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if c := t.pool.take(req.URL.Host); c != nil {
		resp, err := t.exchange(ctx, c, req, out)
		if !isStale(err, req.Method) || ctx.Err() != nil {
			return resp, err
		}
	}
	c, err := t.connect(ctx, req.URL)
	if err != nil {
		return nil, err
	}
	if c.raw != nil && !c.alive() {
		c.close()
		return nil, errSpokeFirst
	}
	return t.exchange(ctx, c, req, out)
}

// CloseIdleConnections closes the connections that no request uses. Those in use are closed when
// their requests end, unless another one has begun by then.
func (t *Transport) CloseIdleConnections() { t.pool.close() }

func (t *Transport) connect(ctx context.Context, u *url.URL) (*conn, error) {
	address := u.Host
	if u.Port() == "" {
		address = net.JoinHostPort(u.Hostname(), "80")
	}
	nc, err := t.dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return newConn(nc, u.Host), nil
}

// exchange sends a request that is already written and returns the answer. The connection goes
// to the answer's body and from there back to the pool.
func (t *Transport) exchange(ctx context.Context, c *conn, req *http.Request, out []byte) (*http.Response, error) {
	// The end of the context closes the connection, which ends reading and writing. A
	// connection is used again only if stop came first.
	stop := context.AfterFunc(ctx, c.interrupt)
	a, err := c.roundTrip(req, out, t.head)
	if err != nil {
		stop()
		c.close()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	b := &a.body
	b.pool, b.ctx, b.stop = t.pool, ctx, stop
	if b.kind == none {
		b.finish()
		a.response.Body = http.NoBody
	}
	return &a.response, nil
}

// ErrNotSent is in the errors of requests if not a byte of them was sent on an open connection.
var ErrNotSent = errors.New("http1: the request was not sent")

// errSpokeFirst: whatever comes before a request would be taken for its answer.
var errSpokeFirst = fmt.Errorf("%w: the server closed the connection, or spoke, before it was asked", ErrNotSent)

// staleError says that a connection was closed before a byte of the answer came.
type staleError struct {
	err  error
	sent bool // the server may have got some of the request
}

func (e *staleError) Error() string {
	return "http1: the connection was closed before an answer came: " + e.err.Error()
}

func (e *staleError) Unwrap() error { return e.err }

// Is reports that the error is ErrNotSent if nothing was sent.
func (e *staleError) Is(target error) bool { return target == ErrNotSent && !e.sent }

// isStale reports whether a request that failed with this error on a reused connection may be
// sent again: it did not run, or it may run twice (RFC 9110 §9.2.1).
func isStale(err error, method string) bool {
	stale, ok := errors.AsType[*staleError](err)
	if !ok || !stale.sent {
		return ok
	}
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}
