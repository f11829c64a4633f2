// Package loopback recognises this machine: its host names and addresses, and the requests that come from it.
//
// It owns these rules. It starts no goroutines.
package loopback

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Host reports whether a host, a name or an address, is this machine. Of names only localhost is:
// others may resolve to another address later.
func Host(host string) bool {
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}

// Sent reports whether a request comes from this machine itself: not from another machine, not
// through a proxy, and not from a web page with a host name that resolves to this machine.
func Sent(r *http.Request) bool { return !FromPage(r) && SentByAny(r) }

// SentByAny is Sent for requests of pages, too, which have to be checked to be ours.
func SentByAny(r *http.Request) bool {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via"} {
		if _, has := r.Header[name]; has {
			return false
		}
	}
	local, _ := From(r)
	return local && To(r)
}

// FromPage reports whether a web page sends a request to another site, or might.
func FromPage(r *http.Request) bool {
	_, page := r.Header["Origin"]
	return page
}

// From reports whether the connection of a request comes from this machine, as all to a socket in its
// file system do. The error says that its address cannot be read.
func From(r *http.Request) (bool, error) {
	if _, unix := r.Context().Value(http.LocalAddrContextKey).(*net.UnixAddr); unix {
		return true, nil
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return from.Addr().Unmap().IsLoopback(), err
}

// To reports whether a request names this machine. A web page in a browser here could send and read
// others, by a name that leads here (DNS rebinding).
func To(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	return Host(host)
}
