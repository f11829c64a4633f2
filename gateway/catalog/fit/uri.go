package fit

import (
	"net/netip"
	"strconv"
	"strings"
)

// URI reports whether every client can read the URI of a resource. Some parse each URI of a list,
// and refuse the list if there is no scheme, or a host or port that they cannot read.
func URI(uri string) bool {
	scheme, rest, found := strings.Cut(uri, ":")
	if !found || !isScheme(scheme) {
		return false
	}
	place, found := strings.CutPrefix(rest, "//")
	if !found {
		return true
	}
	if end := strings.IndexAny(place, "/?#"); end >= 0 {
		place = place[:end]
	}
	at := strings.LastIndexByte(place, '@')
	host, port := place[at+1:], ""
	if colon := strings.LastIndexByte(host, ':'); colon > strings.LastIndexByte(host, ']') {
		host, port = host[:colon], host[colon+1:]
	}
	if port != "" {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return false
		}
	}
	if inner, bracketed := strings.CutPrefix(host, "["); bracketed {
		address, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		return err == nil && address.Is6() && address.Zone() == "" && strings.HasSuffix(inner, "]")
	}
	return !strings.ContainsAny(host, " :<>[\\]^|") && (host != "" || at < 0 && port == "")
}

// isScheme reports whether a text is a scheme (RFC 3986 3.1).
func isScheme(text string) bool {
	for i, c := range text {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || (c < '0' || c > '9') && !strings.ContainsRune("+-.", c)) {
			return false
		}
	}
	return text != ""
}
