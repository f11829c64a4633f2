package safelink

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"github.com/gatehouse-mcp/gatehouse/internal/safehttp"
)

// maxLength is the longest URL that passes, in bytes.
const maxLength = 8 << 10

// Check returns an error that says why no user may be sent to a URL, for the one who chose it. A
// good URL is absolute, https, of the characters of RFC 3986 §2 without ' and $, and has no user
// info. With loopback, pages on the user's own computer pass too, also by http.
func Check(raw string, loopback bool) error {
	if len(raw) > maxLength {
		return fmt.Errorf("a URL for users has at most %d bytes", maxLength)
	}
	// Some clients hand URLs to a shell: in quotes, none of these characters means anything there.
	if strings.ContainsFunc(raw, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') &&
			!strings.ContainsRune("-._~:/?#[]@!&()*+,;=%", c)
	}) {
		return errors.New(`a URL for users has no spaces, quotes, <, >, \, ^, |, {, }, $, ` + "`" +
			` and control characters, and is in ASCII: write the host with xn-- and all else percent-encoded`)
	}
	scheme, rest, found := strings.Cut(raw, "://")
	secure := strings.EqualFold(scheme, "https")
	if !found || !secure && !strings.EqualFold(scheme, "http") {
		return errors.New("a URL for users is absolute and begins with https://")
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, rest := rest[:end], rest[end:]
	local, err := checkAuthority(authority)
	switch {
	case err != nil:
		return err
	case local && !loopback:
		return errors.New("users are not sent to pages on their own computer: use a public host, or have the operator of the gateway set loopback_links")
	case !secure && !local:
		return errors.New("a URL for users begins with https://")
	}
	if err := checkEncoded(rest); err != nil {
		return err
	}
	if u, err := url.Parse(raw); err != nil || u.Host != authority || u.User != nil || u.Opaque != "" {
		return errors.New("a URL for users has to be one by RFC 3986")
	}
	return nil
}

// checkAuthority checks host and port, and reports whether the host is the user's own
// computer.
func checkAuthority(authority string) (local bool, err error) {
	if strings.Contains(authority, "@") {
		return false, errors.New("a URL for users has no user name and password")
	}
	host, port, hasPort := authority, "", false
	if at := strings.LastIndexByte(authority, ':'); at > strings.LastIndexByte(authority, ']') {
		host, port, hasPort = authority[:at], authority[at+1:], true
	}
	if n, err := strconv.ParseUint(port, 10, 16); hasPort && (err != nil || n == 0 || port[0] == '0') {
		return false, errors.New("the port in a URL for users is a number from 1 to 65535")
	}
	if literal, ok := strings.CutPrefix(host, "["); ok {
		addr, err := netip.ParseAddr(strings.TrimSuffix(literal, "]"))
		if err != nil || !addr.Is6() || addr.Zone() != "" || !strings.HasSuffix(host, "]") {
			return false, errHost
		}
		return checkAddress(addr)
	}
	return checkName(host)
}

var errHost = errors.New("a URL for users names a host: letters, digits and -, or an IP address in its usual form")

// checkName checks a host that is a name or an IPv4 address. What browsers read as an
// address (https://url.spec.whatwg.org/#ends-in-a-number-checker) must be written in the
// usual form.
func checkName(host string) (local bool, err error) {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_'
		}) {
			return false, errHost
		}
	}
	if len(host) > 253 {
		return false, errHost
	}
	last := labels[len(labels)-1]
	if strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") {
		addr, err := netip.ParseAddr(host)
		if err != nil {
			return false, errHost
		}
		return checkAddress(addr)
	}
	return last == "localhost", nil
}

// checkAddress accepts public addresses and those of private networks, where many companies
// have their pages. It refuses link-local addresses, those of a cloud's services, and those
// that belong to no host.
func checkAddress(addr netip.Addr) (local bool, err error) {
	addr = addr.Unmap()
	switch {
	case addr.IsLoopback():
		return true, nil
	case safehttp.HostService(addr), !safehttp.Public(addr) && !addr.IsPrivate():
		return false, errors.New("a URL for users does not lead to an address of the link, of a cloud's services or of a special purpose: name the host")
	}
	return false, nil
}

// checkEncoded checks path, query and fragment also after percent-decoding, because clients
// show them decoded.
func checkEncoded(rest string) error {
	plain, err := url.PathUnescape(rest)
	if err != nil {
		return errors.New("a % in a URL for users is followed by two hexadecimal digits")
	}
	if strings.ContainsFunc(plain, Hidden) {
		return errors.New("a URL for users has no control characters, no invisible ones and none that turn the direction of text, encoded neither")
	}
	return nil
}

// Hidden reports whether a character is not visible as what it is: a control, a line break,
// an invisible character, or one that changes the direction of text. Joiners of scripts and
// emoji, and visible signs of Arabic and other scripts, are not hidden.
func Hidden(r rune) bool {
	const nonJoiner, joiner = '\u200c', '\u200d'
	return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point) ||
		unicode.Is(unicode.Cf, r) && r != nonJoiner && r != joiner && !unicode.Is(unicode.Prepended_Concatenation_Mark, r)
}
