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
	// plainHost is a host that may appear in a header.
	plainHost = regexp.MustCompile(`^[A-Za-z0-9.-]+(:[0-9]{1,5})?$`)
	// printable excludes characters that parsers treat differently: spaces, controls,
	// quotes, backslashes.
	printable = regexp.MustCompile(`^[!#-&(-;=?-\[\]_a-z~]+$`)
)

// activeSchemes are schemes whose URIs browsers run or open themselves.
var activeSchemes = []string{
	"about", "blob", "data", "file", "filesystem", "ftp", "javascript", "mailto", "vbscript", "view-source", "ws", "wss",
}

// checkRedirect accepts URIs to which a browser may be sent with a code: https, this
// machine, or a program on it (RFC 8252 §7).
func checkRedirect(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil || len(raw) > maxURI || !printable.MatchString(raw) || !u.IsAbs():
		return errors.New("not an absolute URI")
	case strings.Contains(raw, "#") || u.User != nil:
		return errors.New("user and fragment do not belong in it")
	case u.Scheme == "https" && !plainHost.MatchString(u.Host):
		return errors.New("https needs a host")
	case u.Scheme == "https": // it is also shown as a link
		return safelink.Check(raw, true)
	case u.Scheme == "http" && !loopbackURI.MatchString(raw):
		return errors.New("http is for localhost, 127.0.0.1 and [::1] only")
	case slices.Contains(activeSchemes, u.Scheme):
		return errors.New("this scheme is not for redirects")
	}
	return nil
}

// matches compares a URI with a registered one: byte for byte, except for the port on this
// machine, which programs cannot choose in advance (RFC 8252 §7.3). That includes the name
// localhost, which MCP clients use more than the addresses.
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

// isLocal reports whether a redirect stays on this machine. Schemes are case-insensitive.
func isLocal(uri string) bool {
	scheme, _, _ := strings.Cut(uri, ":")
	return !strings.EqualFold(scheme, "https")
}

// destination says for people where a redirect URI leads.
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

// formAction returns the CSP source that lets a form lead to a redirect URI: browsers also
// check redirects after a form.
func formAction(uri string) string {
	u, err := url.Parse(uri)
	switch {
	case err != nil:
		return "'none'"
	case plainHost.MatchString(u.Host) && (u.Scheme == "http" || u.Scheme == "https"):
		return u.Scheme + "://" + u.Host
	}
	return u.Scheme + ":" // a program's own scheme, or IPv6, which CSP cannot express
}

// withParams adds parameters to the query of a redirect URI, and keeps its own.
func withParams(uri string, params url.Values) string {
	separator := "?"
	if strings.Contains(uri, "?") {
		separator = "&"
	}
	return uri + separator + params.Encode()
}
