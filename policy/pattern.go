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

// parsePattern parses a pattern. It refuses characters that are special in other pattern languages,
// even for kinds with names that may contain them: an operator who takes "?" for any character must
// not get a rule that never applies. A condition can compare such a character: target.name ==
// "search://q?x=1".
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
		return p, fmt.Errorf("%q: %s; %s:%s/* is everything of an upstream", text, form, kind,
			strings.TrimSuffix(upstream, "/"))
	case !upstreamPattern.MatchString(upstream):
		return p, fmt.Errorf("%q: before the first slash stands an upstream's name, of letters, digits and -, not %q",
			text, upstream)
	case kind != mcp.KindResources && kind != "*" && !printable(name):
		return p, fmt.Errorf("%q: has characters that are not ASCII, which may look like others: "+
			"write * in their place, or a condition on target.name under when", text)
	}
	p.upstream, p.name, p.folded = newGlob(upstream), newGlob(name), foldPattern(name)
	return p, nil
}

// of reports whether the pattern is about this kind and upstream.
func (p *pattern) of(t mcp.Target) bool {
	return (p.kind == "*" || p.kind == t.Kind) && p.upstream.match(t.Upstream)
}

// Within reports whether a pattern is about upstreams alone that have one of these names, in which *
// stands for any text. It reports true for what is no pattern.
func Within(text string, upstreams []string) bool {
	p, err := parsePattern(text)
	return err != nil || slices.ContainsFunc(upstreams, func(name string) bool {
		g := newGlob(name)
		return g.covers(&p.upstream)
	})
}

// Overlap reports whether some name fits both patterns, in which * stands for any text.
func Overlap(a, b string) bool {
	one, other := newGlob(a), newGlob(b)
	return one.meets(&other)
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

// glob is a pattern in which * stands for any run of bytes. Matching takes time linear in the
// text: it searches for each piece once, from left to right.
type glob struct {
	star   bool
	prefix string   // all of it without a star
	middle []string // what lies between two stars; none is empty
	suffix string
}

func newGlob(text string) glob {
	parts := strings.Split(text, "*")
	if len(parts) == 1 {
		return glob{prefix: text}
	}
	g := glob{star: true, prefix: parts[0], suffix: parts[len(parts)-1]}
	for _, part := range parts[1 : len(parts)-1] {
		if part != "" {
			g.middle = append(g.middle, part)
		}
	}
	return g
}

// all reports whether every text matches.
func (g *glob) all() bool {
	return g.star && g.prefix == "" && g.suffix == "" && g.middle == nil
}

func (g *glob) match(s string) bool {
	if !g.star {
		return s == g.prefix
	}
	if len(s) < len(g.prefix)+len(g.suffix) || !strings.HasPrefix(s, g.prefix) || !strings.HasSuffix(s, g.suffix) {
		return false
	}
	s = s[len(g.prefix) : len(s)-len(g.suffix)]
	for _, part := range g.middle {
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s = s[i+len(part):]
	}
	return true
}

// meets reports whether some text matches both. If both have a star, only the ends decide:
// the text between them can have the middle parts of both, one after the other.
func (g *glob) meets(other *glob) bool {
	switch {
	case !g.star:
		return other.match(g.prefix)
	case !other.star:
		return g.match(other.prefix)
	}
	return (strings.HasPrefix(g.prefix, other.prefix) || strings.HasPrefix(other.prefix, g.prefix)) &&
		(strings.HasSuffix(g.suffix, other.suffix) || strings.HasSuffix(other.suffix, g.suffix))
}

// covers reports whether everything that matches other matches g. It represents a star of
// other by a byte that no pattern contains, so that only a star of g matches it.
func (g *glob) covers(other *glob) bool {
	if !other.star {
		return g.match(other.prefix)
	}
	const run = "\x00"
	return g.match(other.prefix + run + strings.Join(append(other.middle[:len(other.middle):len(other.middle)], ""),
		run) + other.suffix)
}
