package dial

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/safehttp"
)

// relay has a proxy send requests over plain HTTP to a server.
type relay struct {
	proxy  *egress.Proxy
	server *url.URL
}

// dialer returns how the proxy is reached.
func (r *relay) dialer(to egress.DialFunc, limit time.Duration) egress.DialFunc {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		conn, err := r.proxy.Dial(ctx, to)
		return conn, unsent(err)
	}
}

// check returns an error if the server's name leads to a service of a host. The proxy resolves the name by itself,
// and nothing proves which host answers.
func (r *relay) check(ctx context.Context) error {
	host := r.server.Hostname()
	if _, err := netip.ParseAddr(host); err == nil {
		return nil // the operator wrote it
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return err
	}
	for _, addr := range found {
		if safehttp.HostService(addr) {
			return ErrHostService
		}
	}
	return nil
}

// send sends a request with the whole URL as its target (RFC 9112 §3.2.2). The URL's host remains
// what connections are kept by.
func (r *relay) send(over http.RoundTripper, req *http.Request) (*http.Response, error) {
	own, at := *req, *req.URL
	at.Opaque = "//" + r.server.Host + at.EscapedPath()
	own.URL = &at
	if own.Host == "" {
		own.Host = r.server.Host
	}
	if proof := r.proxy.Authorization(); proof != "" {
		own.Header = req.Header.Clone()
		own.Header.Set("Proxy-Authorization", proof)
	}
	if err := r.check(req.Context()); err != nil { // also on a connection that is open: the proxy resolves each time
		return nil, unsent(err)
	}
	resp, err := over.RoundTrip(&own)
	if err == nil && resp.StatusCode == http.StatusProxyAuthRequired {
		resp.Body.Close()
		return nil, unsent(r.proxy.Refused(resp.StatusCode))
	}
	return resp, err
}
