package catalog

import "strings"

// uriIndex finds the upstream of a URI. An upstream's name in the URI decides,
// whether the URI is listed or not: it may come of a template, or of a tool. What is
// not so marked belongs to the upstreams that keep their URIs, if there are any;
// otherwise it counts as copied from some text, and is accepted if one upstream
// alone lists it. Upstreams are never tried one after the other.
type uriIndex struct {
	plan    *plan
	kept    map[string]int // listed by upstreams that keep their URIs
	copied  map[string]int // originals that others list
	keepers []keeper       // upstreams that keep their URIs and may have resources
}

type keeper struct {
	source   int
	literals []string // what its templates begin with
}

func newURIIndex(p *plan, states []known) uriIndex {
	x := uriIndex{plan: p, kept: make(map[string]int), copied: make(map[string]int)}
	for i, state := range states {
		plain := p.namings[i].plain()
		into := x.copied
		if plain {
			into = x.kept
			if !state.heard || state.offers.kinds.has(resources) {
				x.keepers = append(x.keepers, keeper{source: i})
			}
		}
		for _, k := range [...]kind{resources, templates} {
			if state.shelves[k] == nil {
				continue
			}
			for _, e := range state.shelves[k].entries {
				if owner, taken := into[e.native]; taken && owner != i {
					into[e.native] = met
				} else {
					into[e.native] = i
				}
				if plain && k == templates && len(x.keepers) > 0 {
					last := &x.keepers[len(x.keepers)-1]
					literal, _, _ := strings.Cut(e.native, "{")
					last.literals = append(last.literals, literal)
				}
			}
		}
	}
	return x
}

// find returns the upstream of a public URI and the URI as that upstream knows it.
func (x *uriIndex) find(public string) (source int, native string, ok bool) {
	if tag, native, whole := splitURI(public); tag != "" {
		if source, ok := x.plan.tagged[tag]; ok {
			return source, native, whole
		}
	}
	if source, ok := x.kept[public]; ok {
		return source, public, source != met
	}
	switch len(x.keepers) {
	case 0:
		source, ok := x.copied[public]
		return source, public, ok && source != met
	case 1:
		return x.keepers[0].source, public, public != ""
	}
	source = met
	for _, k := range x.keepers {
		if !k.matches(public) {
			continue
		}
		if source != met {
			return met, "", false
		}
		source = k.source
	}
	return source, public, source != met
}

// matches reports whether a URI could come of one of the upstream's templates.
func (k keeper) matches(uri string) bool {
	for _, literal := range k.literals {
		if strings.HasPrefix(uri, literal) {
			return true
		}
	}
	return false
}
