package policy

import "strings"

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
	return g.match(other.prefix + run + strings.Join(append(other.middle[:len(other.middle):len(other.middle)], ""), run) + other.suffix)
}
