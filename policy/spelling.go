package policy

import (
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// reading is how patterns are compared with a target.
type spelledTarget struct {
	target mcp.Target
	// refused says that nobody may have it, whatever the rules.
	refused bool
	// names are what the target's name may be read as, the name itself first.
	names []string
	// lenient are what lenient servers may read the URI of a resource or of a skill's file
	// as.
	lenient lenient
	// template is what a URI template makes, of resources or of the files of a skill; nil
	// for what is none.
	template *glob
	// files are what the URI of a skill's file may be read as.
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

// fits reports whether the patterns are about the target. Where that is not certain, it
// is what leads to the stricter decision: what denies or asks has to fit one of the
// names, what allows all of them; a template is denied only where all that it makes is,
// and shown where some of it may be allowed.
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
	return slices.ContainsFunc(r.names, named) || slices.ContainsFunc(r.lenient.same, folded) || slices.ContainsFunc(r.lenient.wide, folded)
}

// every reports whether there are some, and all of them hold.
func every(names []string, holds func(string) bool) bool {
	return len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool { return !holds(name) })
}

// fitsFile reports whether patterns about resources fit the file of a skill. It is the
// skill that has to be allowed; what is denied or asked about as a resource is so as a
// part of a skill, too.
func (r *spelledTarget) fitsFile(patterns []pattern) bool {
	as := mcp.Target{Kind: mcp.KindResources, Upstream: r.target.Upstream}
	if r.template != nil {
		return slices.ContainsFunc(patterns, func(p pattern) bool { return p.of(as) && p.name.covers(r.template) })
	}
	return slices.ContainsFunc(patterns, func(p pattern) bool {
		return p.of(as) && (slices.ContainsFunc(r.files, p.name.match) || slices.ContainsFunc(r.lenient.same, p.folded.match) || slices.ContainsFunc(r.lenient.wide, p.folded.match))
	})
}

// templateGlob is what a URI template (RFC 6570) makes: any run of bytes for each
// expression.
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
