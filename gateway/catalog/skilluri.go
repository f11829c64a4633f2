package catalog

import (
	"errors"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

var (
	errSkillURI  = errors.New("its URI has no scheme, or a host that is none")
	errURIChars  = errors.New("its URI has a character or an escape that RFC 3986 does not allow in a path")
	errURIPath   = errors.New("its URI has an empty segment, or one that stands for another directory")
	schemeWord   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*$`)
	registered   = regexp.MustCompile(`^[A-Za-z0-9._~!$&'()*+,;=%-]*$`)
	hostOfTheWeb = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?\.)*[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?$`)
)

// uriKey returns what all spellings of the URI of a skill's file have in common. The error
// says why it has none: a client that resolves URIs as browsers do takes no such one, or
// takes it for another.
func uriKey(uri string) (key string, err error) {
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok || !schemeWord.MatchString(scheme) {
		return "", errSkillURI
	}
	host, path, _ := strings.Cut(rest, "/")
	if scheme = strings.ToLower(scheme); !hostAllowed(scheme, host) {
		return "", errSkillURI
	}
	if key = scheme + "://" + host; scheme+"://" != mcp.SkillScheme {
		key = strings.ToLower(key)
	}
	for segment := range strings.SplitSeq(path, "/") {
		plain := mcp.Unescape(segment)
		switch {
		case !segmentAllowed(segment), !utf8.ValidString(plain):
			return "", errURIChars
		case plain == "", plain == ".", plain == "..", strings.ContainsAny(plain, `/\`), strings.ContainsFunc(plain, unicode.IsControl):
			return "", errURIPath
		}
		key += "/" + plain
	}
	return key, nil
}

// hostAllowed reports whether the part of a URI before its path is one that parsers of URLs
// take as it is. Those of the web are read more strictly there than any other.
func hostAllowed(scheme, host string) bool {
	switch scheme {
	case "file":
		return host == ""
	case "http", "https", "ws", "wss", "ftp":
		if h, port, ok := strings.Cut(host, ":"); ok {
			if _, err := strconv.ParseUint(port, 10, 16); err != nil {
				return false
			}
			host = h
		}
		if ip, err := netip.ParseAddr(host); err == nil {
			return ip.Is4()
		}
		return hostOfTheWeb.MatchString(host) && !strings.Contains(strings.ToLower(host), "xn--")
	}
	return registered.MatchString(host) && escapesAllowed(host)
}

// segmentAllowed reports whether a segment has only characters of RFC 3986, or printable
// ones beyond ASCII (RFC 3987).
func segmentAllowed(segment string) bool {
	for _, r := range segment {
		switch {
		case r >= utf8.RuneSelf:
			if r == utf8.RuneError || !unicode.IsPrint(r) {
				return false
			}
		case r|0x20 >= 'a' && r|0x20 <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("-._~!$&'()*+,;=:@%[]", r):
		default:
			return false
		}
	}
	return escapesAllowed(segment)
}

// escapesAllowed reports whether each % begins an escape.
func escapesAllowed(text string) bool {
	_, err := url.PathUnescape(text)
	return err == nil
}
