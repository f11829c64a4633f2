package doorway

import (
	"net/http"
	"net/netip"
	"strings"
)

// Client returns the IP address of the client of a request, "" if it is not known: the other end of
// its connection or, if that is a proxy, the client that the proxy names.
func Client(r *http.Request) string {
	v, ok := r.Context().Value(visitorKey{}).(*visitor)
	switch {
	case !ok:
		return nameOf(addressOf(r.RemoteAddr))
	case !v.proxy:
		return v.name
	}
	return nameOf(forwardedFor(r.Header, v.peer, v.door.proxies))
}

func nameOf(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// forwardedFor returns the address that sent a request to the first proxy. Each proxy appends the
// address of its sender: the client may have invented all that precedes the last address that is no
// proxy's.
func forwardedFor(h http.Header, peer netip.Addr, proxies []netip.Prefix) netip.Addr {
	hops, of := h["X-Forwarded-For"], strings.TrimSpace
	if len(hops) == 0 {
		hops, of = h["Forwarded"], forParameter
	}
	for i := len(hops) - 1; i >= 0; i-- {
		for rest, more := hops[i], true; more; {
			var hop string
			if rest, hop, more = cutLast(rest); hop == "" {
				continue
			}
			from, ok := hopAddress(of(hop))
			if !ok {
				return peer // nothing is known beyond it
			}
			if peer = from; !isProxy(proxies, from) {
				return peer
			}
		}
	}
	return peer
}

// cutLast cuts the last element off a list. A comma in quotes separates nothing.
func cutLast(list string) (before, last string, more bool) {
	quoted := false
	for i := len(list) - 1; i >= 0; i-- {
		switch {
		case list[i] == '"' && (i == 0 || list[i-1] != '\\'):
			quoted = !quoted
		case list[i] == ',' && !quoted:
			return list[:i], strings.TrimSpace(list[i+1:]), true
		}
	}
	return "", strings.TrimSpace(list), false
}

// forParameter returns the parameter "for" of an element of Forwarded (RFC 7239 §4).
func forParameter(element string) string {
	for pair := range strings.SplitSeq(element, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if strings.EqualFold(name, "for") {
			return strings.Trim(value, `"`)
		}
	}
	return ""
}

// hopAddress reads the address of a hop, with or without a port, IPv6 with or without brackets.
func hopAddress(text string) (netip.Addr, bool) {
	if a := addressOf(text); a.IsValid() {
		return a, true
	}
	a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
	return a.Unmap().WithZone(""), err == nil
}
