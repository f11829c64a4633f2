package audit

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// receiver is the content of a sink's URL.
type receiver struct {
	scheme, host, port, path string
	plain                    bool // without TLS, and over a network
	loopback                 bool
}

// address is host:port.
func (r receiver) address() string { return net.JoinHostPort(r.host, r.port) }

// target reads a URL. Its error does not show the URL, which may hold a secret.
func target(raw string, schemes []string) (r receiver, err error) {
	u, err := url.Parse(raw)
	if raw == "" || err != nil || !slices.Contains(schemes, u.Scheme) {
		return r, fmt.Errorf("want %s:// and the receiver", strings.Join(schemes, "://, "))
	}
	r = receiver{scheme: u.Scheme, host: u.Hostname(), port: u.Port(), path: u.Path}
	r.plain = r.scheme == "http" || r.scheme == "tcp" || r.scheme == "udp"
	ip, err := netip.ParseAddr(r.host)
	r.loopback = strings.EqualFold(r.host, "localhost") || err == nil && ip.Unmap().IsLoopback()
	http := r.scheme == "http" || r.scheme == "https"
	switch {
	case u.User != nil:
		return r, errors.New("a user does not belong in it; put credentials into headers")
	case u.Fragment != "" || u.RawQuery != "" && !http:
		return r, errors.New("only scheme, host, port and path belong in it")
	case r.scheme == "unix":
		if r.host != "" || r.path == "" {
			return r, errors.New("want unix:// and an absolute path, such as unix:///dev/log")
		}
	case r.host == "":
		return r, errors.New("it names no host")
	case !http && r.port == "":
		return r, errors.New("it names no port, such as :6514")
	case !http && r.path != "":
		return r, errors.New("a path does not belong in it")
	}
	return r, nil
}
