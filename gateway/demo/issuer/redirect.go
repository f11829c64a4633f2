package issuer

import (
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/safelink"
)

const maxURI = 1000

var (
	// loopbackURI is http on this machine: its host, port and the rest.
	loopbackURI = regexp.MustCompile(`^http://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?([/?].*)?$`)
	// plainHost is a host that may stand in a header.
	plainHost = regexp.MustCompile(`^[A-Za-z0-9.-]+(:[0-9]{1,5})?$`)
	// printable excludes what parsers disagree on: spaces, controls, quotes, backslashes.
	printable = regexp.MustCompile(`^[!#-&(-;=?-\[\]_a-z~]+$`)
)

// activeSchemes are those whose URIs browsers run or open themselves.
var activeSchemes = []string{
	"about", "blob", "data", "file", "filesystem", "ftp", "javascript", "mailto", "vbscript", "view-source", "ws", "wss",
}

// checkRedirect accepts where a browser may be sent with a code: https, this machine,
// or a program on it (RFC 8252 §7).
func checkRedirect(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil || len(raw) > maxURI || !printable.MatchString(raw) || !u.IsAbs():
		return errors.New("not an absolute URI")
	case strings.Contains(raw, "#") || u.User != nil:
		return errors.New("user and fragment do not belong in it")
	case u.Scheme == "https" && !plainHost.MatchString(u.Host):
		return errors.New("https needs a host")
	case u.Scheme == "https": // what is shown as a link, too
		return safelink.Check(raw, true)
	case u.Scheme == "http" && !loopbackURI.MatchString(raw):
		return errors.New("http is for localhost, 127.0.0.1 and [::1] only")
	case slices.Contains(activeSchemes, u.Scheme):
		return errors.New("this scheme is not for redirects")
	}
	return nil
}

// matches compares with a registered URI: byte for byte, but for the port on this
// machine, which programs take as they find it (RFC 8252 §7.3). That holds for the
// name localhost too, which MCP clients use more than the addresses.
func matches(registered, asked string) bool {
	if registered == asked {
		return true
	}
	r, a := loopbackURI.FindStringSubmatch(registered), loopbackURI.FindStringSubmatch(asked)
	return r != nil && a != nil && r[1] == a[1] && r[3] == a[3]
}

func (c client) mayReturnTo(uri string) bool {
	return checkRedirect(uri) == nil && slices.ContainsFunc(c.redirects, func(r string) bool { return matches(r, uri) })
}

// isLocal reports whether a redirect stays on this machine. A scheme has no case.
func isLocal(uri string) bool {
	scheme, _, _ := strings.Cut(uri, ":")
	return !strings.EqualFold(scheme, "https")
}

// destination is where a redirect URI leads, for people.
func destination(uri string) string {
	u, err := url.Parse(uri)
	switch {
	case err != nil:
		return "an unknown place"
	case u.Scheme == "http" || u.Scheme == "https":
		return u.Host
	}
	return "the program for " + u.Scheme + ": links"
}

// formAction is the CSP source by which a form may end at a redirect URI: browsers
// look at redirects after a form too.
func formAction(uri string) string {
	u, err := url.Parse(uri)
	switch {
	case err != nil:
		return "'none'"
	case plainHost.MatchString(u.Host) && (u.Scheme == "http" || u.Scheme == "https"):
		return u.Scheme + "://" + u.Host
	}
	return u.Scheme + ":" // a program's own scheme, or IPv6, for which CSP has no spelling
}

// withParams adds to the query of a redirect URI, whose own stays as it is.
func withParams(uri string, params url.Values) string {
	separator := "?"
	if strings.Contains(uri, "?") {
		separator = "&"
	}
	return uri + separator + params.Encode()
}
