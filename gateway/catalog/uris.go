package catalog

import (
	"errors"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// skillIndex finds the skill that a URI belongs to, by the original URIs of the skills'
// directories. It compares exactly, and in a normal form of other spellings. It also contains
// withheld skills: their files must not pass for something else.
type skillIndex struct {
	keys  map[string]string // by root
	loose map[string]bool
}

// looseIndex is mcp.SkillIndex in the form that looseURI returns.
const looseIndex = "skill/index.json"

func newSkillIndex(items []mcp.Item) skillIndex {
	keys := make(map[string]string, len(items))
	for _, item := range items {
		uri, _ := item.Raw.Member("uri")
		if root, ok := mcp.SkillRoot(uri.Text()); ok {
			keys[root] = item.Name
		}
	}
	return indexOf(keys)
}

func indexOf(keys map[string]string) skillIndex {
	x := skillIndex{keys: keys, loose: make(map[string]bool, len(keys))}
	for root := range keys {
		x.loose[looseURI(root)] = true
	}
	return x
}

// against returns the keys by root that differ from those of another index, "" for none.
func (x skillIndex) against(other skillIndex) map[string]string {
	differ := make(map[string]string)
	for root, key := range x.keys {
		if other.keys[root] != key {
			differ[strings.Clone(root)] = strings.Clone(key)
		}
	}
	for root := range other.keys {
		if _, has := x.keys[root]; !has {
			differ[root] = ""
		}
	}
	return differ
}

// with returns the index with differences; see against.
func (x skillIndex) with(differ map[string]string) skillIndex {
	if len(differ) == 0 {
		return x
	}
	keys := make(map[string]string, len(x.keys)+len(differ))
	maps.Copy(keys, x.keys)
	for root, key := range differ {
		if keys[root] = key; key == "" {
			delete(keys, root)
		}
	}
	return indexOf(keys)
}

// nameless reports whether an item of a directory of skills only marks the place of a skill that it
// leaves out. The reason is already reported, and policy decides on files there as on files of that
// skill.
func nameless(item mcp.Item) bool {
	_, has := item.Raw.Member("frontmatter")
	return !has
}

// find returns the key of the innermost skill that contains the URI or has it as its root,
// "" for none. ok is false for a URI that, as written, belongs to no skill, but could be
// read as one that does.
func (x *skillIndex) find(uri string) (key string, ok bool) {
	if len(x.keys) == 0 {
		return "", true
	}
	for at := uri; at != ""; at = parentOf(at) {
		if key, ok := x.keys[at]; ok {
			return key, true
		}
	}
	loose := looseURI(uri)
	if loose == looseIndex { // it would name skills that the caller may not know of
		return "", false
	}
	for at := loose; at != ""; at = parentOf(at) {
		if x.loose[at] {
			return "", false
		}
	}
	return "", true
}

func parentOf(uri string) string {
	return uri[:max(strings.LastIndexByte(uri, '/'), 0)]
}

// looseURI returns a normal form shared by all spellings that a server could treat as
// equal: without escapes, empty segments, query and fragment, and in one case.
func looseURI(uri string) string {
	for range 3 { // as deep as policy decodes
		decoded := mcp.Unescape(uri)
		if decoded == uri {
			break
		}
		uri = decoded
	}
	if i := strings.IndexAny(uri, "?#"); i >= 0 {
		uri = uri[:i]
	}
	scheme, path, found := strings.Cut(uri, "://")
	if !found {
		scheme, path = "", uri
	}
	var out strings.Builder
	out.WriteString(scheme)
	for segment := range strings.SplitSeq(strings.ReplaceAll(path, `\`, "/"), "/") {
		if segment != "" {
			out.WriteString("/" + segment)
		}
	}
	return strings.ToLower(out.String())
}

var (
	errSkillURI  = errors.New("its URI has no scheme, or a host that is none")
	errURIChars  = errors.New("its URI has a character or an escape that RFC 3986 does not allow in a path")
	errURIPath   = errors.New("its URI has an empty segment, or one that stands for another directory")
	schemeWord   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*$`)
	registered   = regexp.MustCompile(`^[A-Za-z0-9._~!$&'()*+,;=%-]*$`)
	hostOfTheWeb = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?\.)*[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?$`)
)

// uriKey returns a normal form of all spellings of the URI of a skill's file. The error
// says why it has none: clients that resolve URIs as browsers do reject such a URI, or take
// it for another one.
func uriKey(uri string) (key string, err error) {
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok || !schemeWord.MatchString(scheme) {
		return "", errSkillURI
	}
	host, path, _ := strings.Cut(rest, "/")
	if scheme = strings.ToLower(scheme); !hostAllowed(scheme, host) {
		return "", errSkillURI
	}
	if key = scheme + "://" + host; scheme+"://" != mcp.SkillScheme {
		key = strings.ToLower(key)
	}
	for segment := range strings.SplitSeq(path, "/") {
		plain := mcp.Unescape(segment)
		switch {
		case !segmentAllowed(segment), !utf8.ValidString(plain):
			return "", errURIChars
		case plain == "", plain == ".", plain == "..", strings.ContainsAny(plain, `/\`),
			strings.ContainsFunc(plain, unicode.IsControl):
			return "", errURIPath
		}
		key += "/" + plain
	}
	return key, nil
}

// hostAllowed reports whether URL parsers leave the part of a URI before its path
// unchanged. They parse URIs of the web more strictly than others.
func hostAllowed(scheme, host string) bool {
	switch scheme {
	case "file":
		return host == ""
	case "http", "https", "ws", "wss", "ftp":
		if h, port, ok := strings.Cut(host, ":"); ok {
			if _, err := strconv.ParseUint(port, 10, 16); err != nil {
				return false
			}
			host = h
		}
		if ip, err := netip.ParseAddr(host); err == nil {
			return ip.Is4()
		}
		return hostOfTheWeb.MatchString(host) && !strings.Contains(strings.ToLower(host), "xn--")
	}
	return registered.MatchString(host) && escapesAllowed(host)
}

// segmentAllowed reports whether a segment has only characters of RFC 3986, or printable
// non-ASCII ones (RFC 3987).
func segmentAllowed(segment string) bool {
	for _, r := range segment {
		switch {
		case r >= utf8.RuneSelf:
			if r == utf8.RuneError || !unicode.IsPrint(r) {
				return false
			}
		case r|0x20 >= 'a' && r|0x20 <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("-._~!$&'()*+,;=:@%[]", r):
		default:
			return false
		}
	}
	return escapesAllowed(segment)
}

// escapesAllowed reports whether each % begins an escape.
func escapesAllowed(text string) bool {
	_, err := url.PathUnescape(text)
	return err == nil
}

// uriIndex finds the upstream of a URI. An upstream's name in the URI decides, whether the
// URI is listed or not: it may come from a template or a tool. Unmarked URIs belong to the
// upstreams that keep their URIs unchanged, if there are any. Otherwise such a URI counts
// as copied from some text, and is accepted if exactly one upstream lists it. Upstreams are
// never tried one after the other.
type uriIndex struct {
	plan    *plan
	kept    map[string]int      // listed by upstreams that keep their URIs unchanged
	copied  map[string]int      // originals listed by the others
	spelled []map[string]string // by upstream: originals with capitals in the scheme, by what clients may make of them
	keepers []keeper            // upstreams that keep their URIs unchanged and may have resources
}

type keeper struct {
	source   int
	literals []string // the beginnings of its templates
}

func newURIIndex(p *plan, states []sourceState, known []knownLists) uriIndex {
	x := uriIndex{plan: p, kept: make(map[string]int), copied: make(map[string]int),
		spelled: make([]map[string]string, len(states))}
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
			for _, list := range known[i][k] { // a URI has the same upstream for all classes
				for _, e := range list.entries {
					if owner, taken := into[e.native]; taken && owner != i {
						into[e.native] = conflict
					} else {
						into[e.native] = i
					}
					if low := lowerScheme(e.native); low != e.native {
						if x.spelled[i] == nil {
							x.spelled[i] = make(map[string]string)
						}
						x.spelled[i][low] = e.native
					}
					if plain && k == templates && len(x.keepers) > 0 {
						last := &x.keepers[len(x.keepers)-1]
						literal, _, _ := strings.Cut(e.native, "{")
						last.literals = append(last.literals, literal)
					}
				}
			}
		}
	}
	return x
}

// find returns the upstream of a public URI and the URI as that upstream knows it.
func (x *uriIndex) find(public string) (source int, native string, ok bool) {
	if source, native, ok = x.split(public); ok {
		if listed, differs := x.spelled[source][native]; differs {
			native = listed
		}
	}
	return source, native, ok
}

func (x *uriIndex) split(public string) (source int, native string, ok bool) {
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

// matches reports whether a URI could be an expansion of one of the upstream's templates.
func (k keeper) matches(uri string) bool {
	for _, literal := range k.literals {
		if strings.HasPrefix(uri, literal) {
			return true
		}
	}
	return false
}
