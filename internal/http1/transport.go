package http1

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

const (
	// MaxRequest is the largest request body that is taken: with its head it fits what
	// the kernels at both ends buffer, so that writing does not wait for a server that
	// answers before it has read.
	MaxRequest = 32 << 10

	defaultIdle     = 64
	defaultIdleTime = 90 * time.Second
	defaultHead     = 64 << 10
)

// Config is what a Transport is made with; its zero value is one that works.
type Config struct {
	// Dial connects to an address, "host:port"; by default as a net.Dialer does.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// IdlePerHost is how many connections to a host are kept for later, by default 64.
	IdlePerHost int
	// IdleTime is after what time without use none is used again, by default 90 s. It is
	// closed then, or a quarter later.
	IdleTime time.Duration
	// HeadBytes bounds the head of an answer, with the interim ones before it; by
	// default 64 KiB.
	HeadBytes int
}

// Transport is an http.RoundTripper. It uses its connections again where that is
// certainly safe. Its methods may be called concurrently.
type Transport struct {
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	head    int
	pool    *pool
	buffers sync.Pool // of *[]byte, for requests as they are written
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
	t.buffers.New = func() any { return new([]byte) }
	return t
}

// Handles reports whether a Transport takes a request: one for http, with no body or
// a small one whose length is known. What it does not take it refuses, unsent.
func Handles(req *http.Request) bool { return unsupported(req) == "" }

// unsupported says what keeps a Transport from taking a request, "" if nothing does.
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

// RoundTrip sends a request and returns the answer as soon as its head is there. The
// request's body is read to its end at once: it must not make its reader wait. When
// the request's context ends the connection does too, and the error is the context's
// cause.
//
// Where a connection that was used before turns out to be closed, the request is sent
// again on a new one, once, provided that not a byte of it was sent, or that it is a
// GET, HEAD, OPTIONS or TRACE and not a byte of an answer came.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer req.Body.Close()
	}
	if what := unsupported(req); what != "" {
		return nil, errors.New("http1: not supported: " + what)
	}
	buf := t.buffers.Get().(*[]byte)
	defer t.buffers.Put(buf)
	out, err := appendRequest((*buf)[:0], req)
	*buf = out[:0]
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

// CloseIdleConnections closes what no request uses now. What is in use is closed when
// its request ends, unless another one began meanwhile.
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

// exchange sends a request as it was written and returns the answer. The connection
// goes to the answer's body and from there back to the pool.
func (t *Transport) exchange(ctx context.Context, c *conn, req *http.Request, out []byte) (*http.Response, error) {
	// The context's end, be it a deadline or not, closes the connection: that ends
	// reading and writing. A connection is used again only if stop came before it.
	stop := afterFunc(ctx, c.interrupt)
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

// afterFunc is context.AfterFunc, with the way round it for a context that has the
// method which it would call.
func afterFunc(ctx context.Context, f func()) (stop func() bool) {
	if c, ok := ctx.(interface {
		AfterFunc(func()) (stop func() bool)
	}); ok {
		return c.AfterFunc(f)
	}
	return context.AfterFunc(ctx, f)
}

// ErrNotSent is in the errors of requests of which not a byte was sent on a connection that
// was there.
var ErrNotSent = errors.New("http1: the request was not sent")

// errSpokeFirst: what comes before a request would be taken for the answer to it.
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

// Is makes it ErrNotSent where it is.
func (e *staleError) Is(target error) bool { return target == ErrNotSent && !e.sent }

// isStale reports whether a request that failed so on a used connection may be sent
// again: it did not run, or it may run twice (RFC 9110 §9.2.1).
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
