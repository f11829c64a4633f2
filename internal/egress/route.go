package egress

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpproxy"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/tlsfiles"
)

// Config says how one server is reached, and what belongs to it, such as its token endpoint. Its
// zero value is what needs no configuration.
type Config struct {
	TLS TLS
	// Proxy is the URL of a proxy, Environment or None. Default Environment.
	Proxy mcp.Secret
	// URL is the server's. TLS.ServerName is for its host alone.
	URL string
}

// Route makes connections as a Config says. Its methods may be called concurrently.
type Route struct {
	cfg   Config
	files *tlsfiles.Renewed
	// authorities has no certificate of the gateway's: a proxy is not whom that is for.
	authorities *tlsfiles.Renewed

	host  string // its certificate has name
	name  string
	proxy func(*url.URL) (*url.URL, error)
}

// New makes a Route. It reads the proxies of the environment, but no files.
func New(cfg Config) *Route {
	r := &Route{cfg: cfg, files: tlsfiles.NewRenewed(cfg.TLS.Files()), name: cfg.TLS.ServerName,
		authorities: tlsfiles.NewRenewed(tlsfiles.Files{CA: cfg.TLS.Files().CA})}
	if u, err := url.Parse(cfg.URL); err == nil {
		r.host = u.Hostname()
	}
	switch cfg.Proxy {
	case "", Environment:
		r.proxy = httpproxy.FromEnvironment().ProxyFunc() // never for a loopback address
	case None:
		r.proxy = func(*url.URL) (*url.URL, error) { return nil, nil }
	default:
		named, err := parseProxy(string(cfg.Proxy))
		r.proxy = func(*url.URL) (*url.URL, error) { return named, err }
	}
	return r
}

// ForOthers returns the route to hosts that the operator has not named: without the gateway's own
// certificate, which says who it is.
func (r *Route) ForOthers() *Route {
	cfg := r.cfg
	cfg.TLS.CertFile, cfg.TLS.KeyFile, cfg.TLS.ServerName = "", "", ""
	return New(cfg)
}

// Proxy returns the proxy for the host of a URL, nil for none.
func (r *Route) Proxy(to *url.URL) (*Proxy, error) {
	u, err := r.proxy(to)
	switch {
	case err != nil:
		return nil, fmt.Errorf("proxy: %w", err)
	case u == nil:
		return nil, nil
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("the environment has a proxy with %s:// for %s: want http:// or https://, or set proxy: none",
			u.Scheme, to.Host)
	}
	return &Proxy{url: u, files: r.authorities}, nil
}

// Secure makes a TLS connection with a host over conn, which it closes if that fails. A certificate
// that is not valid is a *CertificateError.
func (r *Route) Secure(ctx context.Context, conn net.Conn, host string) (*tls.Conn, error) {
	name := host
	if strings.EqualFold(host, r.host) {
		name = cmp.Or(r.name, host)
	}
	return handshake(ctx, r.files, conn, name, "h2", "http/1.1")
}

func handshake(ctx context.Context, files *tlsfiles.Renewed, conn net.Conn, name string,
	protocols ...string) (*tls.Conn, error) {
	cfg, err := files.Config()
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("tls: %w", err)
	}
	cfg.ServerName, cfg.NextProtos = name, protocols
	secured := tls.Client(conn, cfg)
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, explained(err)
	}
	return secured, nil
}
