package policy

import (
	"slices"
	"strings"
)

// Comparing URIs byte by byte is worth something only as far as a resource has one
// spelling. So what nobody means is refused: control characters and dot segments, however
// written. And of other spellings, each is judged: what a rule denies it denies in all of
// them, and what it allows it has to allow in all of them. What lenient servers read
// otherwise is in lenient.go.

// maxDecodings is how often a URI may be percent-encoded over itself.
const maxDecodings = 3

// spellings returns the URI and what servers may read it as; refused says that it must
// not be used at all.
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

// usual is the spelling without what may be left out or written otherwise: white space
// around it, which parsers of URLs take away, empty segments, a fragment, upper case in
// the scheme; where hosts are what the world knows as such, also user info, upper case in
// the host, a port that goes without saying and the number of slashes in front. A file
// has no query either: what makes a path of such a URI drops it.
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
		if colon := strings.LastIndexByte(authority, ':'); colon >= 0 && slices.Contains([]string{"", "80", "443", "21"}, strings.TrimLeft(authority[colon+1:], "0")) {
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

// single makes one slash of several in a row, before the query.
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

// decode undoes percent-encoding once. What is no escape stays.
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

// hasDotSegment reports whether . or .. stands alone between two of the characters that
// servers divide paths at.
func hasDotSegment(uri string) bool {
	for segment := range strings.FieldsFuncSeq(uri, func(r rune) bool { return strings.ContainsRune("/?#;:&=", r) }) {
		if segment = strings.TrimSpace(segment); segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// hasUnmeant reports whether there are control characters, backslashes, which some readers
// take for slashes and others for a part of a name, or ASCII characters in two or three
// bytes, which are not UTF-8 and some readers take for it.
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
