package egress

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/tlsfiles"
)

// maxAnswer bounds the head of a proxy's answer, in bytes.
const maxAnswer = 64 << 10

// Proxy is a forward proxy (RFC 9110 §3.7).
type Proxy struct {
	url   *url.URL
	files *tlsfiles.Renewed // their authorities are for its certificate, too
}

// ProxyError means that a proxy has not connected the gateway with a host, which has got nothing.
type ProxyError struct {
	// Proxy is its address, host:port.
	Proxy string
	// Status is the HTTP status by which it refused, 0 if it did not answer.
	Status int

	err error
}

// Error says what the proxy did. It has no credentials.
func (e *ProxyError) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("the proxy at %s refused: %d %s", e.Proxy, e.Status, http.StatusText(e.Status))
	}
	return fmt.Sprintf("the proxy at %s does not connect: %v", e.Proxy, e.err)
}

// Unwrap returns the reason, nil for a refusal.
func (e *ProxyError) Unwrap() error { return e.err }

// DialFunc connects to an address, as a net.Dialer does.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// Address is the proxy's own, host:port.
func (p *Proxy) Address() string { return address(p.url) }

// Refused returns the error for a status by which the proxy refused.
func (p *Proxy) Refused(status int) *ProxyError {
	return &ProxyError{Proxy: p.Address(), Status: status}
}

// Authorization is the value of Proxy-Authorization, "" for none.
func (p *Proxy) Authorization() string {
	if p.url.User == nil {
		return ""
	}
	password, _ := p.url.User.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(p.url.User.Username()+":"+password))
}

// Dial connects to the proxy itself. Errors are a *ProxyError.
func (p *Proxy) Dial(ctx context.Context, dial DialFunc) (net.Conn, error) {
	conn, err := dial(ctx, "tcp", p.Address())
	if err == nil && p.url.Scheme == "https" {
		conn, err = handshake(ctx, p.files, conn, p.url.Hostname())
	}
	if err != nil {
		return nil, &ProxyError{Proxy: p.Address(), err: err}
	}
	return conn, nil
}

// Tunnel has the proxy connect to an address, host:port (CONNECT, RFC 9110 §9.3.6). Errors are a
// *ProxyError.
func (p *Proxy) Tunnel(ctx context.Context, dial DialFunc, to string) (net.Conn, error) {
	conn, err := p.Dial(ctx, dial)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	status, err := p.connect(conn, to)
	if !stop() && err == nil || err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	switch {
	case err != nil:
		err = &ProxyError{Proxy: p.Address(), err: err}
	case status/100 != 2:
		err = p.Refused(status)
	default:
		return conn, nil
	}
	conn.Close()
	return nil, err
}

// connect returns the status of the proxy's answer. What it may send after that belongs to the host.
func (p *Proxy) connect(conn net.Conn, to string) (status int, err error) {
	req := &http.Request{
		Method: http.MethodConnect,
		URL:    &url.URL{Opaque: to},
		Host:   to,
		Header: http.Header{"User-Agent": {mcp.UserAgent()}},
	}
	if proof := p.Authorization(); proof != "" {
		req.Header.Set("Proxy-Authorization", proof)
	}
	if err := req.Write(conn); err != nil {
		return 0, err
	}
	read := bufio.NewReader(io.LimitReader(conn, maxAnswer))
	resp, err := http.ReadResponse(read, req)
	if err != nil {
		return 0, fmt.Errorf("its answer cannot be read: %w", err)
	}
	if resp.StatusCode/100 == 2 && read.Buffered() > 0 {
		return 0, errors.New("it sent data before the host was asked")
	}
	return resp.StatusCode, nil
}

// address returns the host and port of a proxy's URL.
func address(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}
