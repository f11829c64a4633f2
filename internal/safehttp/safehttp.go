package safehttp

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/loopback"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Defaults of Options.
const (
	DefaultTimeout  = 5 * time.Second
	DefaultMaxBytes = 1 << 20
)

const (
	maxHeaderBytes = 64 << 10
	maxIdlePerHost = 8
	idleTimeout    = 60 * time.Second
)

// Errors of Do. They never contain more of a URL than its host.
var (
	// ErrForbidden means that the URL, or the address of its host, is not allowed.
	ErrForbidden = errors.New("not allowed")
	// ErrRedirect means that the answer is a redirect, which is never followed.
	ErrRedirect = errors.New("redirects are not followed")
	// ErrTooLarge means that the body exceeds Options.MaxBytes.
	ErrTooLarge = errors.New("answer too large")
)

// Options configure a Client.
type Options struct {
	// Trust lists URLs that the operator configured. Their origins (scheme, host and port,
	// compared exactly) may be at any address, but http only at a loopback address. An
	// origin is trusted for all requests of this Client, so use one Client for each
	// authority.
	Trust []string
	// Timeout bounds a whole exchange, from dialling to the last byte of the body.
	// Default DefaultTimeout.
	Timeout time.Duration
	// MaxBytes bounds the body after decompression. Default DefaultMaxBytes.
	MaxBytes int64
	// Route says how the hosts are reached. Its own certificate is for those of Trust alone.
	Route egress.Config
}

// Response is a complete answer with a status other than 3xx.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Client makes requests. It is safe for concurrent use.
type Client struct {
	timeout  time.Duration
	maxBytes int64
	agent    string
	trusted  map[string]bool // by origin

	// Each pool of connections has its own rule for addresses, so no connection is used
	// under another rule.
	operator  *pool // https, any address
	plaintext *pool // http, loopback addresses
	public    *pool // https, public addresses
}

// New makes a Client.
func New(opts Options) (*Client, error) {
	c := &Client{timeout: opts.Timeout, maxBytes: opts.MaxBytes, agent: mcp.UserAgent(), trusted: make(map[string]bool)}
	if c.timeout <= 0 {
		c.timeout = DefaultTimeout
	}
	if c.maxBytes <= 0 {
		c.maxBytes = DefaultMaxBytes
	}
	for _, raw := range opts.Trust {
		u, err := url.Parse(raw)
		if err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http" {
			return nil, errors.New("safehttp: a trusted URL is not an absolute http or https URL") // it may hold credentials
		}
		if u.Scheme == "http" && !loopback.Host(u.Hostname()) {
			return nil, fmt.Errorf("safehttp: http to %s: only loopback addresses may be reached without TLS", u.Host)
		}
		c.trusted[Origin(u)] = true
	}
	route := egress.New(opts.Route)
	c.operator = newPool(route, c.timeout, nil)
	c.plaintext = newPool(egress.New(egress.Config{Proxy: egress.None}), c.timeout, netip.Addr.IsLoopback)
	c.public = newPool(route.ForOthers(), c.timeout, Public)
	return c, nil
}

// Peer returns the certificate that a host of Options.Trust has shown last, nil for none.
func (c *Client) Peer() *x509.Certificate { return c.operator.peer.Load() }

// Close closes idle connections. The Client can still be used.
func (c *Client) Close() {
	for _, p := range []*pool{c.operator, c.plaintext, c.public} {
		p.http.CloseIdleConnections()
	}
}

// Do makes a request and reads the whole answer. The request's context and the Client's
// timeout both bound it. A redirect is an error; the caller judges other statuses.
func (c *Client) Do(req *http.Request) (*Response, error) {
	from, err := c.choose(req.URL)
	if err != nil {
		closeBody(req)
		return nil, err
	}
	ctx, cancel := context.WithTimeout(req.Context(), c.timeout)
	defer cancel()
	out := req.Clone(ctx)
	out.Host = ""
	if out.Header == nil {
		out.Header = make(http.Header)
	}
	if out.Header.Get("User-Agent") == "" {
		out.Header.Set("User-Agent", c.agent)
	}
	// A RoundTripper, unlike an http.Client, follows no redirects and keeps no cookies.
	resp, err := from.http.RoundTrip(out)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", req.URL.Host, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 == 3 {
		return nil, fmt.Errorf("%s: HTTP %d: %w", req.URL.Host, resp.StatusCode, ErrRedirect)
	}
	if encoding := resp.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return nil, fmt.Errorf("%s: content encoding %.20q was not asked for", req.URL.Host, encoding)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, c.maxBytes+1))
	if err == nil {
		err = context.Cause(ctx) // a server may end its answer because the context has ended
	}
	if err != nil {
		return nil, fmt.Errorf("%s: reading the answer: %w", req.URL.Host, err)
	}
	if int64(len(body)) > c.maxBytes {
		return nil, fmt.Errorf("%s: %w: more than %d bytes", req.URL.Host, ErrTooLarge, c.maxBytes)
	}
	return &Response{Status: resp.StatusCode, Header: resp.Header, Body: body}, nil
}

// choose returns the connection pool for a URL.
func (c *Client) choose(u *url.URL) (*pool, error) {
	switch {
	case u == nil || u.Hostname() == "":
		return nil, fmt.Errorf("%w: the URL has no host", ErrForbidden)
	case u.User != nil:
		return nil, fmt.Errorf("%s: %w: the URL has credentials in it", u.Host, ErrForbidden)
	case u.Scheme == "http" && c.trusted[Origin(u)]:
		return c.plaintext, nil
	case u.Scheme != "https":
		return nil, fmt.Errorf("%s: %w: scheme %.20q: want https", u.Host, ErrForbidden, u.Scheme)
	case c.trusted[Origin(u)]:
		return c.operator, nil
	}
	return c.public, nil
}

// Origin writes scheme, host and port so that equal ones (RFC 6454 §5) are equal strings.
func Origin(u *url.URL) string { return u.Scheme + "://" + strings.ToLower(Address(u)) }

// Address returns the host and port of a URL, which may leave out the port of http and https.
func Address(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	case u.Scheme == "http":
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}
