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
	minIdlePerHost  = 64
	idleConnTimeout = 90 * time.Second
	maxResponseHead = 64 << 10
	tcpKeepAlive    = 30 * time.Second

	clientOwn      = "own"
	clientStandard = "standard"
)

// HTTPTransport is the http.RoundTripper that all upstreams share, one pool of
// connections per origin. It does not decompress, follow proxies of the environment
// or, being a RoundTripper, redirects.
//
// Small requests over plain HTTP take a client of our own, which needs about half the
// CPU; all others, and those of upstreams that say so (Config.HTTPClient), net/http's.
type HTTPTransport struct {
	own      *http1.Transport
	general  *http.Transport
	standard map[string]bool // hosts that are only for general
}

// NewTransport makes the HTTPTransport of these upstreams. metrics count its connections;
// nil for nobody to know.
func NewTransport(metrics *Metrics, cfgs ...Config) *HTTPTransport {
	perHost, connect := minIdlePerHost, time.Duration(0)
	standard := make(map[string]bool)
	for _, cfg := range cfgs {
		cfg = cfg.withDefaults()
		perHost = max(perHost, cfg.Limits.Concurrent)
		if cfg.URL == "" {
			continue
		}
		connect = max(connect, cfg.Timeout.Connect)
		if u, err := url.Parse(cfg.URL); err == nil && cfg.HTTPClient == clientStandard {
			standard[u.Host] = true
		}
	}
	connect = or(connect, defaultConnect)
	if metrics == nil {
		metrics = NewMetrics(nil)
	}
	dial := metrics.counting(guarded(net.Dialer{Timeout: connect, KeepAlive: tcpKeepAlive}))
	return &HTTPTransport{
		own: http1.New(http1.Config{
			Dial:        dial,
			IdlePerHost: perHost,
			IdleTime:    idleConnTimeout,
			HeadBytes:   maxResponseHead,
		}),
		general: &http.Transport{
			DialContext:            dial,
			DialTLSContext:         secure(dial, connect),
			ForceAttemptHTTP2:      true,
			DisableCompression:     true,
			MaxIdleConns:           0, // no limit over all origins: there are as many as upstreams
			MaxIdleConnsPerHost:    perHost,
			IdleConnTimeout:        idleConnTimeout,
			MaxResponseHeaderBytes: maxResponseHead,
			ExpectContinueTimeout:  time.Second,
		},
		standard: standard,
	}
}

// secure dials TLS. What goes wrong in the handshake is told apart from what goes wrong
// later: the server has not seen a request then.
func secure(dial func(ctx context.Context, network, address string) (net.Conn, error), limit time.Duration) func(context.Context, string, string) (net.Conn, error) {
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
	if http1.Handles(req) && !t.standard[req.URL.Host] {
		return t.own.RoundTrip(req)
	}
	return t.general.RoundTrip(req)
}

// CloseIdleConnections closes what no request uses.
func (t *HTTPTransport) CloseIdleConnections() {
	t.own.CloseIdleConnections()
	t.general.CloseIdleConnections()
}
