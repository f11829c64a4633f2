package clientele

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxRedirect bounds a redirect URI, in bytes.
	maxRedirect = 512
	maxHost     = 253
)

// redirect is a redirect URI in parts. A URI with parts has only one spelling, so that URIs can be
// compared byte for byte, and a browser understands it as we do.
type redirect struct {
	scheme string
	host   string // "" where a private scheme has none; IPv6 in brackets
	port   string // "" for none
	rest   string // path and query
}

// parseRedirect takes a redirect URI apart. These are good:
//
//   - https with the name of a host, in lower case and in ASCII
//   - http with 127.0.0.1, [::1] or localhost (RFC 8252 §7.3)
//   - a scheme of an application on the user's machine (RFC 8252 §7.1), such as cursor://host/path
//
// There is no user, no fragment, and no escape outside the query. No segment of the path is one
// that a browser would take out or read in another way.
func parseRedirect(raw string) (r redirect, err error) {
	if err := checkText(raw); err != nil {
		return r, err
	}
	scheme, after, ok := strings.Cut(raw, ":")
	if !ok || !isScheme(scheme) {
		return r, errors.New("has no scheme in lower case, such as https")
	}
	r.scheme = scheme
	web := scheme == "https" || scheme == "http"
	switch {
	case slices.Contains(neverSchemes, scheme) || strings.HasPrefix(scheme, "ms-"):
		return r, fmt.Errorf("has the scheme %s, which never leads back to a client", scheme)
	case strings.HasPrefix(after, "//"):
		after = after[2:]
		end := strings.IndexAny(after, "/?")
		if end < 0 {
			end = len(after)
		}
		if r.host, r.port, err = parseAuthority(after[:end]); err != nil {
			return r, err
		}
		r.rest = after[end:]
	case web:
		return r, errors.New("has no host")
	case !strings.HasPrefix(after, "/"):
		return r, errors.New("has no path that begins with /")
	default:
		r.rest = after
	}
	if err := checkRest(r.rest); err != nil {
		return r, err
	}
	switch {
	case scheme == "http" && !isLoopback(r.host):
		return r, errors.New("is http, which is only for 127.0.0.1, [::1] and localhost: write https")
	case scheme == "https" && !isName(r.host):
		return r, errors.New("needs the name of a host in lower case ASCII letters: no address, no other script")
	case scheme == "https" && r.port == "443":
		return r, errors.New("has the port 443, which goes without saying")
	case !web && (r.port != "" || r.host != "" && !isName(r.host)):
		return r, errors.New("needs a plain name between // and the path, and no port")
	}
	return r, nil
}

// neverSchemes are schemes that run something, show something, or lead to another program than a
// client.
var neverSchemes = []string{
	"javascript", "data", "vbscript", "file", "filesystem", "blob", "about", "view-source", "jar", "resource", "chrome",
	"chrome-extension",
	"moz-extension", "edge", "ftp", "ftps", "sftp", "ws", "wss", "mailto", "tel", "sms", "news", "ssh", "smb", "ldap",
	"ldaps", "gopher", "intent",
	"android-app", "market", "search-ms", "shell", "steam", "urn", "uuid", "cid", "mid", "irc", "magnet",
	"x-apple-helpbasic",
}

// loopback reports whether the URI leads to the user's own machine over HTTP.
func (r redirect) loopback() bool { return r.scheme == "http" }

// same reports whether a URI that is asked for is a registered one: byte for byte, but on a loopback
// address with any port (RFC 8252 §7.3), and with or without the / of an empty path.
func (r redirect) same(asked redirect) bool {
	if r.loopback() && asked.loopback() {
		return r.host == asked.host && r.request() == asked.request()
	}
	return r == asked
}

// request is what a browser asks for at the host.
func (r redirect) request() string {
	if !strings.HasPrefix(r.rest, "/") {
		return "/" + r.rest
	}
	return r.rest
}

// checkText refuses characters that do not belong into a URI (RFC 3986 §2), or that browsers change.
func checkText(raw string) error {
	switch {
	case raw == "":
		return errors.New("is empty")
	case len(raw) > maxRedirect:
		return fmt.Errorf("is longer than %d bytes", maxRedirect)
	case strings.Contains(raw, "#"):
		return errors.New("has a fragment")
	}
	for _, c := range []byte(raw) {
		if c <= ' ' || c > '~' || strings.IndexByte("\"<>\\^`{|}", c) >= 0 {
			return fmt.Errorf("has the character %q, which does not belong into a URI", c)
		}
	}
	return nil
}

func isScheme(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	return s != "" && strings.Trim(s[:1], letters) == "" && strings.Trim(s, letters+"0123456789+.-") == ""
}

// parseAuthority divides host and port.
func parseAuthority(text string) (host, port string, err error) {
	if strings.Contains(text, "@") {
		return "", "", errors.New("has a user in front of its host")
	}
	host = text
	if i := strings.LastIndexByte(text, ':'); i > strings.LastIndexByte(text, ']') {
		host, port = text[:i], text[i+1:]
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
			return "", "", fmt.Errorf("has the port %q: want a number from 1 to 65535", port)
		}
	}
	if host == "" {
		return "", "", errors.New("has no host")
	}
	return host, port, nil
}

// isName reports whether a host is a name in lower case letters, digits and hyphens, and neither an
// address to some readers (127.1) nor a name in another script (xn--).
func isName(host string) bool {
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" ||
			label[0] == '-' || label[len(label)-1] == '-' || len(label) >= 4 && label[2:4] == "--" {
			return false
		}
	}
	last := labels[len(labels)-1]
	return len(host) <= maxHost && strings.Trim(last[:1], "0123456789") != ""
}

func isLoopback(host string) bool {
	return host == "localhost" || host == "127.0.0.1" || host == "[::1]"
}

// checkRest refuses a path or query that has more than one spelling.
func checkRest(rest string) error {
	path, query, _ := strings.Cut(rest, "?")
	if strings.Contains(path, "%") {
		return errors.New("has an escape in its path")
	}
	if path != "" {
		segments := strings.Split(path[1:], "/")
		for i, segment := range segments {
			name, _, _ := strings.Cut(segment, ";")
			if name == "." || name == ".." {
				return errors.New("has . or .. in its path")
			}
			if segment == "" && i < len(segments)-1 {
				return errors.New("has // in its path")
			}
		}
	}
	for {
		_, after, found := strings.Cut(query, "%")
		if !found {
			return nil
		}
		if len(after) < 2 {
			return errors.New("has half an escape in its query")
		}
		if c, err := strconv.ParseUint(after[:2], 16, 8); err != nil || c < ' ' || c == 0x7f {
			return fmt.Errorf("has the escape %q in its query", "%"+after[:2])
		}
		query = after[2:]
	}
}
