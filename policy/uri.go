package policy

import (
	"slices"
	"strings"
)

// Comparing URIs byte by byte is only safe as far as a resource has a single spelling. So URIs with
// suspicious parts are refused: control characters and dot segments, in any encoding. All other
// spellings are judged: a rule that denies one spelling denies all, and a rule that allows has to
// allow all of them. lenient.go has the spellings of lenient servers.

// maxDecodings is how often a URI may be percent-encoded repeatedly.
const maxDecodings = 3

// spellings returns the URI and the other forms in which servers may read it; refused says
// that it must never be used.
func spellings(uri string) (forms []string, refused bool) {
	for range maxDecodings {
		if uri == "" || hasUnmeant(uri) || hasDotSegment(uri) {
			return nil, true
		}
		for _, form := range []string{uri, usual(uri)} {
			if !slices.Contains(forms, form) {
				forms = append(forms, form)
			}
		}
		decoded, changed := decode(uri)
		if !changed {
			return forms, false
		}
		uri = decoded
	}
	return nil, true
}

// usual is the spelling without optional and equivalent parts: surrounding white space, which
// URL parsers remove, empty segments, a fragment, upper case in the scheme. In schemes with
// hosts it also removes user info, upper case in the host, a default port and extra slashes
// in front. It drops the query of a file, because programs drop it when they make a path of
// the URI.
func usual(uri string) string {
	uri, _, _ = strings.Cut(strings.TrimSpace(uri), "#")
	scheme, rest, found := strings.Cut(uri, ":")
	if !found || strings.ContainsAny(scheme, "/?") {
		return single(uri)
	}
	scheme = strings.ToLower(scheme)
	after, hasAuthority := strings.CutPrefix(rest, "//")
	world := false
	switch scheme {
	case "http", "https", "ws", "wss", "ftp":
		world, hasAuthority, after = true, true, strings.TrimLeft(rest, "/")
	case "file":
		world = true
		rest, _, _ = strings.Cut(rest, "?")
		after, _, _ = strings.Cut(after, "?")
		if !hasAuthority {
			hasAuthority, after = true, "/"+rest
		}
	}
	if !hasAuthority {
		return scheme + ":" + single(rest)
	}
	end := strings.IndexAny(after, "/?")
	if end < 0 {
		end = len(after)
	}
	authority, path := after[:end], after[end:]
	if world {
		authority = strings.ToLower(authority[strings.LastIndexByte(authority, '@')+1:])
		if colon := strings.LastIndexByte(authority, ':'); colon >= 0 &&
			slices.Contains([]string{"", "80", "443", "21"}, strings.TrimLeft(authority[colon+1:], "0")) {
			authority = authority[:colon]
		}
		authority = strings.TrimSuffix(authority, ".")
		if scheme == "file" && authority == "localhost" {
			authority = ""
		}
		if !strings.HasPrefix(path, "/") {
			path = "/" + path
		}
	}
	return scheme + "://" + authority + single(path)
}

// single replaces runs of slashes before the query with one slash.
func single(path string) string {
	if !strings.Contains(path, "//") {
		return path
	}
	query := strings.IndexByte(path, '?')
	if query < 0 {
		query = len(path)
	}
	var out strings.Builder
	for i := range query {
		if path[i] != '/' || i == 0 || path[i-1] != '/' {
			out.WriteByte(path[i])
		}
	}
	return out.String() + path[query:]
}

// decode undoes percent-encoding once. It keeps invalid escapes.
func decode(uri string) (decoded string, changed bool) {
	if strings.IndexByte(uri, '%') < 0 {
		return uri, false
	}
	var out strings.Builder
	for i := 0; i < len(uri); i++ {
		c := uri[i]
		if c == '%' && i+2 < len(uri) && hexDigit(uri[i+1]) >= 0 && hexDigit(uri[i+2]) >= 0 {
			c = byte(hexDigit(uri[i+1])<<4 | hexDigit(uri[i+2]))
			i += 2
			changed = true
		}
		out.WriteByte(c)
	}
	return out.String(), changed
}

// hasDotSegment reports whether . or .. stands alone between two characters at which servers
// split paths.
func hasDotSegment(uri string) bool {
	for segment := range strings.FieldsFuncSeq(uri, func(r rune) bool { return strings.ContainsRune("/?#;:&=", r) }) {
		if segment = strings.TrimSpace(segment); segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// hasUnmeant reports whether a URI has control characters, backslashes or overlong UTF-8. Some
// readers take backslashes for slashes, others for a part of a name; some accept ASCII characters
// in two or three bytes.
func hasUnmeant(uri string) bool {
	for i := range len(uri) {
		c := uri[i]
		if c < ' ' || c == 0x7f || c == '\\' {
			return true
		}
		if i+1 < len(uri) && ((c == 0xc0 || c == 0xc1) && uri[i+1]&0xc0 == 0x80 || c == 0xe0 && uri[i+1]&0xe0 == 0x80) {
			return true
		}
	}
	return false
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}
