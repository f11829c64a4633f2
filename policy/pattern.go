package policy

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// maxPattern bounds the text of a pattern in bytes.
const maxPattern = 1024

// pattern is kind:upstream/name. The upstream's name is matched separately. If a * could run
// from it into the name, a URI of the caller's choice, such as web://x/file:///public/, would
// fit "resources:*/file:///public/*".
type pattern struct {
	text     string
	kind     string // "*" for all
	upstream glob
	name     glob
	folded   glob // of the name, for lenient spellings of URIs
}

// kinds are the kinds of things that upstreams offer.
var kinds = []string{mcp.KindTools, mcp.KindResources, mcp.KindPrompts, mcp.KindSkills}

var upstreamPattern = regexp.MustCompile(`^[A-Za-z0-9*-]+$`)

// parsePattern parses a pattern. It refuses characters that are special in other pattern
// languages, even for kinds whose names may contain them: an operator who takes "?" for any
// character must not get a rule that never applies. A condition can compare such a character:
// target.name == "search://q?x=1".
func parsePattern(text string) (pattern, error) {
	const form = "want kind:upstream/name, such as tools:github/get_*"
	p := pattern{text: text}
	kind, rest, found := strings.Cut(text, ":")
	switch {
	case text == "":
		return p, errors.New("is empty: " + form)
	case len(text) > maxPattern:
		return p, fmt.Errorf("%d bytes are more than %d", len(text), maxPattern)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return p, fmt.Errorf("%q: has spaces or control characters", text)
	case strings.ContainsAny(text, `?[]{}\!`):
		special := text[strings.IndexAny(text, `?[]{}\!`)]
		return p, fmt.Errorf("%q: %q: only * is special, and nothing else that is in other pattern languages can be in one; "+
			"write * in its place, or a condition on target.name under when", text, special)
	case text == "*" || text == "**":
		return p, fmt.Errorf("%q: %s; *:* is everything", text, form)
	case !found:
		return p, fmt.Errorf("%q: %s", text, form)
	case kind != "*" && !slices.Contains(kinds, kind):
		return p, fmt.Errorf("%q: unknown kind %q: want one of %s or *", text, kind, strings.Join(kinds, ", "))
	}
	p.kind = kind
	if rest == "*" {
		p.upstream, p.name, p.folded = newGlob("*"), newGlob("*"), newGlob("*")
		return p, nil
	}
	upstream, name, found := strings.Cut(rest, "/")
	switch {
	case !found || name == "":
		return p, fmt.Errorf("%q: %s; %s:%s/* is everything of an upstream", text, form, kind, strings.TrimSuffix(upstream, "/"))
	case !upstreamPattern.MatchString(upstream):
		return p, fmt.Errorf("%q: before the first slash stands an upstream's name, of letters, digits and -, not %q", text, upstream)
	case kind != mcp.KindResources && kind != "*" && !printable(name):
		return p, fmt.Errorf("%q: has characters that are not ASCII, which no name that is offered has", text)
	}
	p.upstream, p.name, p.folded = newGlob(upstream), newGlob(name), foldPattern(name)
	return p, nil
}

// of reports whether the pattern is about this kind and upstream.
func (p *pattern) of(t mcp.Target) bool {
	return (p.kind == "*" || p.kind == t.Kind) && p.upstream.match(t.Upstream)
}

// printable reports whether a text is printable ASCII.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
