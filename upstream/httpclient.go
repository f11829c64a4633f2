package upstream

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/http1"
)

const (
	minIdle         = 64
	maxResponseHead = 64 << 10
	tcpKeepAlive    = 30 * time.Second
	// idlePlain is for how long a connection over plain HTTP is used again. Many servers
	// close theirs after five seconds: what is sent just then is lost, and nobody knows
	// whether it was read. idleTLS is longer, since it costs more to open one; in HTTP/2
	// a server says what it has not read.
	idlePlain = 3 * time.Second
	idleTLS   = 90 * time.Second

	clientOwn      = "own"
	clientStandard = "standard"
)

// HTTPTransport is the http.RoundTripper of one upstream. All its connections go to the
// origin of that, and no other upstream uses them: what a server says when it was not asked
// could be taken for the answer to another one's request. It does not decompress, follow
// proxies of the environment or, being a RoundTripper, redirects.
//
// Small requests over plain HTTP take a client of our own, which needs about half the
// CPU; all others, and those of an upstream that says so (Config.HTTPClient), net/http's.
type HTTPTransport struct {
	own      *http1.Transport
	general  *http.Transport
	standard bool // all requests are for general
}

// NewTransport makes the HTTPTransport of an upstream, which has a URL. metrics count its
// connections; nil for nobody to know.
func NewTransport(metrics *Metrics, cfg Config) *HTTPTransport {
	cfg = cfg.withDefaults()
	if metrics == nil {
		metrics = NewMetrics(nil)
	}
	connect, origin, keep := cfg.Timeout.Connect, "", idlePlain
	if u, err := url.Parse(cfg.URL); err == nil {
		origin = net.JoinHostPort(u.Hostname(), portOf(u))
		if u.Scheme == "https" {
			keep = idleTLS
		}
	}
	dial := metrics.counting(guarded(net.Dialer{Timeout: connect, KeepAlive: tcpKeepAlive}))
	perHost := max(minIdle, cfg.Limits.Concurrent)
	return &HTTPTransport{
		own: http1.New(http1.Config{
			Dial:        only(origin, dial),
			IdlePerHost: perHost,
			IdleTime:    keep,
			HeadBytes:   maxResponseHead,
		}),
		general: &http.Transport{
			DialContext:            only(origin, dial),
			DialTLSContext:         only(origin, secure(dial, connect)),
			ForceAttemptHTTP2:      true,
			DisableCompression:     true,
			MaxIdleConnsPerHost:    perHost,
			IdleConnTimeout:        keep,
			MaxResponseHeaderBytes: maxResponseHead,
			ExpectContinueTimeout:  time.Second,
		},
		standard: cfg.HTTPClient == clientStandard,
	}
}

// only dials one address, whatever is asked for.
func only(origin string, dial dialFunc) dialFunc {
	return func(ctx context.Context, network, _ string) (net.Conn, error) { return dial(ctx, network, origin) }
}

// secure dials TLS. What goes wrong in the handshake is told apart from what goes wrong
// later: the server has not seen a request then.
func secure(dial dialFunc, limit time.Duration) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		secured := tls.Client(conn, &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host, NextProtos: []string{"h2", "http/1.1"}})
		if err := secured.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, fmt.Errorf("%w: %w", errHandshake, err)
		}
		return secured, nil
	}
}

// RoundTrip sends a request.
func (t *HTTPTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if http1.Handles(req) && !t.standard {
		return t.own.RoundTrip(req)
	}
	return t.general.RoundTrip(req)
}

// For returns the http.RoundTripper of one user, by mcp.Caller.User: no request with
// another credential goes over the same connections.
func (t *HTTPTransport) For(user string) http.RoundTripper { return &userTransport{t, user} }

type userTransport struct {
	*HTTPTransport
	user string
}

// RoundTrip sends a request. Transports keep connections by the host of the URL, which
// nobody else looks at: Host is in the request apart, and there is but one origin to dial.
func (t *userTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	own, at := *req, *req.URL
	own.Host = or(req.Host, req.URL.Host)
	at.Host, own.URL = t.user, &at
	return t.HTTPTransport.RoundTrip(&own)
}

// CloseIdleConnections closes what no request uses.
func (t *HTTPTransport) CloseIdleConnections() {
	t.own.CloseIdleConnections()
	t.general.CloseIdleConnections()
}
