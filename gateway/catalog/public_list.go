package catalog

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/catalog/fit"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Bounds on the list of one upstream, beside Source.Items. Items beyond them are left out and logged.
const (
	maxEmpty = 50        // pages without an item
	maxItem  = 64 << 10  // bytes
	maxList  = 128 << 20 // bytes
)

// publicList is one list of one upstream in its public form, before it is merged with the
// lists of the others. Immutable.
type publicList struct {
	offered  bool    // false: the upstream has no such list
	entries  []entry // by public name
	withheld []Withheld
	expires  time.Time // zero: the upstream did not say
	private  bool
	skills   skillIndex    // of a list of skills
	sum      atomic.Uint64 // see checksum; 0 before it was needed
}

// entry is one item: its original name and its public form.
type entry struct {
	native string
	item   mcp.Item
	params []param     // tools: the parameters that are mirrored into headers
	schema *mcp.Schema // of a tool
	task   taskSupport
	skill  skillEntry // of a skill
}

// Withheld is an item that clients do not see, and the reason.
type Withheld struct {
	List   string // "tools", "prompts", "resources", "resource templates", "skills", "dependencies of skills"
	Name   string // the upstream's name for it; "" for what is behind a bound
	Reason string
	Behind int // how many items are behind the bound, as far as they were counted
}

// fetched is one list of one upstream as received.
type fetched struct {
	items   []mcp.Item
	expires time.Time
	private bool
	size    int    // bytes of items
	behind  int    // items that were left out because of a bound
	cut     string // why the list is incomplete, "" if it is complete
}

// newPublicList gives the items of a list their public names and leaves out items that must
// not be shown. tagged are the upstreams whose names appear in URIs.
func newPublicList(p *plan, n naming, k kind, list fetched) *publicList {
	s := &publicList{offered: true, expires: list.expires, private: list.private}
	if k == skills {
		s.skills = newSkillIndex(list.items)
	}
	if list.cut != "" {
		s.withheld = append(s.withheld, Withheld{List: k.String(), Reason: list.cut, Behind: max(list.behind, 1)})
	}
	room := maxSkillList
	for _, item := range list.items {
		if k == skills && n.skillDir && nameless(item) {
			continue
		}
		e, err := newEntry(p, n, k, item)
		if err == nil && k == skills {
			if room -= len(item.Raw); room < 0 {
				err = fmt.Errorf("the skills before it have more than %d bytes together", maxSkillList)
			}
			for _, unknown := range e.skill.unknown {
				s.withhold(listOfNeeds, item.Name, unknown)
			}
		}
		if err != nil {
			s.withhold(k.String(), item.Name, err.Error())
			continue
		}
		s.entries = append(s.entries, e)
	}
	slices.SortStableFunc(s.entries, func(a, b entry) int { return cmp.Compare(a.item.Name, b.item.Name) })
	s.withholdDuplicates(k)
	return s
}

// withholdDuplicates leaves out items that share a public name within the upstream: the
// second of two equal items, and both if they differ.
func (s *publicList) withholdDuplicates(k kind) {
	kept := s.entries[:0]
	for i := 0; i < len(s.entries); {
		end, differ := i+1, false
		for ; end < len(s.entries) && s.entries[end].item.Name == s.entries[i].item.Name; end++ {
			differ = differ || s.entries[end].native != s.entries[i].native || !bytes.Equal(s.entries[end].item.Raw, s.entries[i].item.Raw)
		}
		if !differ {
			kept = append(kept, s.entries[i])
		} else {
			for _, e := range s.entries[i:end] {
				s.withhold(k.String(), e.native, fmt.Sprintf("%d different items would be named %q", end-i, e.item.Name))
			}
		}
		i = end
	}
	s.entries = kept
}

func (s *publicList) withhold(list, name, reason string) {
	const longest = 200 // enough to find the item; the text is the upstream's
	s.withheld = append(s.withheld, Withheld{List: list, Name: name[:min(len(name), longest)], Reason: reason})
}

// newEntry makes the public form of an item; the error says why there is none.
func newEntry(p *plan, n naming, k kind, item mcp.Item) (entry, error) {
	largest := maxItem
	if k == skills {
		largest = maxSkill
	}
	if len(item.Raw) > largest {
		return entry{}, fmt.Errorf("its definition has %d bytes, more than %d", len(item.Raw), largest)
	}
	var err error
	if item.Raw, err = fit.Item(k.method(), item.Raw); err != nil {
		return entry{}, err
	}
	public, err := publicName(n, k, item.Name, p.tagged)
	if err != nil {
		return entry{}, err
	}
	if k == skills {
		return newSkillEntry(p, n, item, public)
	}
	e := entry{native: item.Name, item: mcp.Item{Name: public, Raw: item.Raw, Target: n.target(k, item.Name)}}
	if public != item.Name {
		e.item.Raw = item.Raw.With(mcp.ItemKey(k.method()), mcp.String(public))
	}
	if k != tools {
		return e, nil
	}
	if !n.plain() && mentions(item.Raw) {
		e.item.Raw = e.item.Raw.Map(func(name []byte, value mcp.Raw) mcp.Raw {
			if mcp.Named(name, "_meta") {
				return n.meta(value)
			}
			return value
		})
	}
	e.readSchema()
	e.params, err = mirrored(item.Raw)
	return e, err
}

// readSchema sets the input schema to that of the definition.
func (e *entry) readSchema() {
	if text, ok := e.item.Raw.Member("inputSchema"); ok {
		e.schema = &mcp.Schema{Text: text}
	}
}

var sumSeed = maphash.MakeSeed()

// checksum tells lists apart that show clients something else. It is valid only within this
// process, and 0 for a list that never came.
func (s *publicList) checksum() uint64 {
	if s == nil {
		return 0
	}
	if known := s.sum.Load(); known != 0 {
		return known
	}
	var h maphash.Hash
	h.SetSeed(sumSeed)
	for _, e := range s.entries {
		h.WriteString(e.native)
		h.WriteByte(byte(e.task))
		h.Write(e.item.Raw)
	}
	sum := max(h.Sum64(), 1)
	s.sum.Store(sum)
	return sum
}

// find returns the entry with a public name. A list that never came has none.
func (s *publicList) find(public string) (entry, bool) {
	if s == nil {
		return entry{}, false
	}
	i, ok := slices.BinarySearchFunc(s.entries, public, func(e entry, public string) int { return cmp.Compare(e.item.Name, public) })
	if !ok {
		return entry{}, false
	}
	return s.entries[i], true
}

func publicName(n naming, k kind, native string, tagged map[string]int) (string, error) {
	switch k {
	case tools:
		return n.tool(native)
	case prompts, skills:
		return n.prompt(native)
	}
	if !sane(native) {
		return "", errNoURI
	}
	if tag, _, _ := splitURI(native); n.plain() && tag != "" {
		if _, taken := tagged[tag]; taken {
			return "", errForeignURI
		}
	}
	if k == templates {
		return n.template(native)
	}
	public := n.uri(native)
	if !fit.URI(public) {
		return "", errBadURI
	}
	return public, nil
}

// index returns the index of a list of skills, which may be nil.
func (s *publicList) index() skillIndex {
	if s == nil {
		return skillIndex{}
	}
	return s.skills
}

// all returns the entries of a list, which may be nil.
func (s *publicList) all() []entry {
	if s == nil {
		return nil
	}
	return s.entries
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
	spelled []map[string]string // by upstream: originals whose scheme has capitals, by what clients may make of them
	keepers []keeper            // upstreams that keep their URIs unchanged and may have resources
}

type keeper struct {
	source   int
	literals []string // the beginnings of its templates
}

func newURIIndex(p *plan, states []sourceState, known []knownLists) uriIndex {
	x := uriIndex{plan: p, kept: make(map[string]int), copied: make(map[string]int), spelled: make([]map[string]string, len(states))}
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
