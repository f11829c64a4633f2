package policy

import (
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// spelledTarget is a target with all spellings that patterns are compared with.
type spelledTarget struct {
	target mcp.Target
	// refused says that no caller may have the target, whatever the rules say.
	refused bool
	// names are the spellings of the target's name, the name itself first.
	names []string
	// lenient has the spellings by which lenient servers read the URI of a resource or of a
	// skill's file.
	lenient lenient
	// template matches what a URI template makes, resources or files of a skill; nil if the
	// target is not a template.
	template *glob
	// files are the spellings of the URI of a skill's file.
	files []string
}

func spellTarget(t mcp.Target) spelledTarget {
	r := spelledTarget{target: t, names: []string{t.Name}}
	switch {
	case t.Upstream == "" || t.Name == "":
		r.refused = true
	case t.Template && t.File != "":
		g := templateGlob(t.File)
		r.template = &g
	case t.Template:
		g := templateGlob(t.Name)
		r.template = &g
	case t.Kind == mcp.KindResources:
		r.names, r.refused = spellings(t.Name)
		r.spellLeniently(t.Name)
	case t.File != "":
		r.files, r.refused = spellings(t.File)
		r.spellLeniently(t.File)
	}
	return r
}

func (r *spelledTarget) spellLeniently(uri string) {
	lenient, refused := leniently(uri)
	r.lenient, r.refused = lenient, r.refused || refused
}

// fits reports whether the patterns are about the target. In doubt, it returns what leads to
// the stricter decision: a pattern that denies or asks has to fit one spelling, and patterns
// that allow have to fit all spellings. A template is denied only if everything that it makes
// is denied, and shown if some of it may be allowed.
func (r *spelledTarget) fits(patterns []pattern, effect Effect) bool {
	about := func(fits func(p *pattern) bool) bool {
		return slices.ContainsFunc(patterns, func(p pattern) bool { return p.of(r.target) && fits(&p) })
	}
	if r.template != nil && r.target.File == "" {
		if effect == Deny {
			return about(func(p *pattern) bool { return p.name.covers(r.template) })
		}
		return about(func(p *pattern) bool { return p.name.meets(r.template) })
	}
	if effect != Allow && r.fitsFile(patterns) {
		return true
	}
	named := func(name string) bool { return about(func(p *pattern) bool { return p.name.match(name) }) }
	if r.target.Kind != mcp.KindResources {
		return slices.ContainsFunc(r.names, named)
	}
	folded := func(name string) bool { return about(func(p *pattern) bool { return p.folded.match(name) }) }
	if effect == Allow {
		return every(r.names, named) && every(r.lenient.same, func(name string) bool {
			return folded(name) || folded(strings.TrimRight(name, "/")) // as in foldPattern
		})
	}
	return slices.ContainsFunc(r.names, named) || slices.ContainsFunc(r.lenient.same, folded) ||
		slices.ContainsFunc(r.lenient.wide, folded)
}

// every reports whether names is not empty and holds is true for all of them.
func every(names []string, holds func(string) bool) bool {
	return len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool { return !holds(name) })
}

// fitsFile reports whether patterns about resources fit the file of a skill. The skill itself
// has to be allowed, but what rules deny or ask about as a resource, they also deny or ask
// about as a part of a skill.
func (r *spelledTarget) fitsFile(patterns []pattern) bool {
	as := mcp.Target{Kind: mcp.KindResources, Upstream: r.target.Upstream}
	if r.template != nil {
		return slices.ContainsFunc(patterns, func(p pattern) bool { return p.of(as) && p.name.covers(r.template) })
	}
	return slices.ContainsFunc(patterns, func(p pattern) bool {
		return p.of(as) && (slices.ContainsFunc(r.files, p.name.match) ||
			slices.ContainsFunc(r.lenient.same, p.folded.match) || slices.ContainsFunc(r.lenient.wide, p.folded.match))
	})
}

// templateGlob matches what a URI template (RFC 6570) makes: any run of bytes in place of
// each expression.
func templateGlob(template string) glob {
	var out strings.Builder
	for {
		literal, rest, found := strings.Cut(template, "{")
		out.WriteString(literal)
		if !found {
			return newGlob(out.String())
		}
		out.WriteByte('*')
		if _, template, found = strings.Cut(rest, "}"); !found {
			return newGlob(out.String())
		}
	}
}
