package policy

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Some servers read URIs more leniently than RFC 3986: without case, as file systems of macOS
// and Windows do, after Unicode normalization, or without invisible characters. So patterns
// that deny or ask are also compared with a folded form in more spellings. A pattern that
// allows has to fit the folded form too, so it never allows more.

// maxURI is the length of the longest URI that is judged, in bytes, because each URI has many
// spellings.
const maxURI = 16 << 10

// lenient has the folded spellings by which a lenient server may read a URI.
type lenient struct {
	// same are compared with all patterns, wide only with those that deny or ask.
	same, wide []string
}

// leniently returns the lenient spellings; refused says that one of them must never be used.
func leniently(uri string) (l lenient, refused bool) {
	if len(uri) > maxURI {
		return l, true
	}
	for range maxDecodings {
		uri = compatible(uri)
		if uri == "" || hasUnmeant(uri) || hasDotSegment(uri) {
			return lenient{}, true
		}
		plain := usual(uri)
		l.same = added(l.same, foldCase(uri), foldCase(plain))
		l.wide = added(l.wide, wider(foldCase(plain))...)
		decoded, changed := decode(uri)
		if !changed {
			return l, false
		}
		uri = decoded
	}
	return lenient{}, true
}

func added(forms []string, more ...string) []string {
	for _, form := range more {
		if !slices.Contains(forms, form) {
			forms = append(forms, form)
		}
	}
	return forms
}

// wider returns spellings that differ from a usual one in what file systems and web servers
// drop: a slash at the end, parameters of segments, dots and spaces at the ends of segments.
// For files, it also drops the host, or takes it for the first segment.
func wider(uri string) (forms []string) {
	scheme, rest, found := strings.Cut(uri, "://")
	if !found {
		return []string{strings.TrimRight(uri, "/")}
	}
	path, query := rest, ""
	if i := strings.IndexByte(rest, '?'); i >= 0 {
		path, query = rest[:i], rest[i:]
	}
	paths := []string{path}
	if scheme == "file" {
		_, local, _ := strings.Cut(path, "/")
		paths = append(paths, "/"+local, single("/"+path))
	}
	for _, path := range paths {
		for _, form := range []string{path, trimmed(path)} {
			form = scheme + "://" + strings.TrimRight(form, "/")
			forms = added(forms, form, form+query)
		}
	}
	return forms
}

// trimmed returns a path without parameters of segments, and without dots and spaces at their
// ends.
func trimmed(path string) string {
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		segment, _, _ = strings.Cut(segment, ";")
		if bare := strings.TrimRight(segment, ". "); bare != "" {
			segments[i] = bare
		}
	}
	return strings.Join(segments, "/")
}

// compatible returns a text in compatibility decomposition (NFKD), without usually invisible
// characters. A letter with a mark then begins like the plain letter.
func compatible(text string) string {
	if isASCII(text) {
		return text
	}
	var shown strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == 'İ': // its dot goes with case
			shown.WriteByte('I')
		case !unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
			shown.WriteString(text[i : i+size]) // what is no UTF-8 yet may be once more is decoded
		}
		i += size
	}
	return norm.NFKD.String(shown.String())
}

// foldCase folds the case of a compatible text, by full case folding and by the upper case of
// single letters.
func foldCase(text string) string {
	if isASCII(text) {
		return strings.ToLower(text)
	}
	return norm.NFKD.String(cases.Fold().String(strings.ReplaceAll(text, "ı", "i"))) // upper case makes them equal
}

// foldPattern makes a glob for folded spellings.
func foldPattern(text string) glob {
	parts := strings.Split(text, "*")
	for i, part := range parts {
		for range maxDecodings {
			part = compatible(part)
			decoded, changed := decode(part)
			if !changed {
				break
			}
			part = decoded
		}
		parts[i] = foldCase(part)
	}
	if end := strings.TrimRight(parts[len(parts)-1], "/"); end != "" { // as in wider
		parts[len(parts)-1] = end
	}
	return globOf(parts)
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
