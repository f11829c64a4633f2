package catalog

import (
	"errors"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// schemeUI is that of MCP Apps. Clients look for it, as for mcp.SkillScheme: the upstream's
// name goes into the first place behind such a scheme, not in front.
const schemeUI = "ui://"

var (
	errNoURI      = errors.New("the URI is empty or has control characters")
	errForeignURI = errors.New("the URI begins like those of another upstream")
	errOpenScheme = errors.New("the template does not begin with a literal scheme")
)

// uri returns the public form of a URI: "crm+file:///a", "ui://crm/page". Every
// byte is kept, and native undoes it.
func (n naming) uri(native string) string {
	if n.plain() {
		return native
	}
	if scheme := keptScheme(native); scheme != "" {
		return scheme + n.upstream + "/" + native[len(scheme):]
	}
	return n.upstream + "+" + native
}

// template returns the public form of a URI template (RFC 6570). What a client makes
// of it must be the public form of what it would make of the original; without a
// literal scheme that cannot be told.
func (n naming) template(native string) (string, error) {
	if n.plain() {
		return native, nil
	}
	literal, _, expression := strings.Cut(native, "{")
	if expression && keptScheme(literal) == "" && (strings.HasPrefix(schemeUI, literal) || strings.HasPrefix(mcp.SkillScheme, literal)) {
		return "", errOpenScheme
	}
	return n.uri(native), nil
}

// splitURI reads a public URI: the upstream's name in it and the original. ok is
// false for text that no upstream's uri makes, though it may begin like it; tag is
// "" where it does not.
func splitURI(public string) (tag, native string, ok bool) {
	if scheme := keptScheme(public); scheme != "" {
		tag, rest, found := strings.Cut(public[len(scheme):], "/")
		return tag, scheme + rest, found
	}
	tag, native, found := strings.Cut(public, "+")
	if !found {
		return "", "", false
	}
	return tag, native, native != "" && keptScheme(native) == ""
}

func keptScheme(uri string) string {
	for _, scheme := range [...]string{schemeUI, mcp.SkillScheme} {
		if strings.HasPrefix(uri, scheme) {
			return scheme
		}
	}
	return ""
}

// sane reports whether a listed URI can be shown: not empty, without control
// characters.
func sane(uri string) bool {
	for i := range len(uri) {
		if uri[i] < ' ' || uri[i] == 0x7f {
			return false
		}
	}
	return uri != ""
}

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

func newURIIndex(p *plan, states []sourceState) uriIndex {
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
			if state.lists[k] == nil {
				continue
			}
			for _, e := range state.lists[k].entries {
				if owner, taken := into[e.native]; taken && owner != i {
					into[e.native] = conflict
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
		return source, public, source != conflict
	}
	switch len(x.keepers) {
	case 0:
		source, ok := x.copied[public]
		return source, public, ok && source != conflict
	case 1:
		return x.keepers[0].source, public, public != ""
	}
	source = conflict
	for _, k := range x.keepers {
		if !k.matches(public) {
			continue
		}
		if source != conflict {
			return conflict, "", false
		}
		source = k.source
	}
	return source, public, source != conflict
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
