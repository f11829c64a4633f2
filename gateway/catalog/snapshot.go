package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// pageSize is the number of items on a page: more than people have, because some clients read only
// the first page.
const pageSize = 2000

// target is the item behind a public name.
type target struct {
	source int
	native string
	params []param
	tool   mcp.Raw     // the definition of a tool
	schema *mcp.Schema // of a tool
	task   taskSupport
	skill  skillTarget // of skills, and of their files
	// unlisted says that the upstream has the name's prefix, but no list that could tell.
	unlisted bool
}

// snapshot is everything that an audience can see at one moment. It is immutable except for its
// caches: the lists of views, summaries, and what clients declare.
type snapshot struct {
	plan   *plan
	states []sourceState // as the audience sees them
	known  []knownLists  // all lists that any audience of these clients sees, by source
	varies bool          // some upstream does not show the same to all clients
	whole  *summary      // for callers who see all upstreams
	lists  [kinds]*listing
	tables [kinds]*table
	uris   uriIndex

	mu        sync.Mutex           // guards the fields below
	summaries map[string]*summary  // keyed by what is visible, one byte per upstream
	declared  map[string]*declared // by capabilities as the client wrote them
}

// knownLists holds the lists of a source that clients of some audience see, each once.
type knownLists [kinds][]*publicList

// with returns the lists with those of a further audience.
func (l knownLists) with(own *[kinds]*publicList) knownLists {
	for k, list := range own {
		if list != nil && !slices.Contains(l[k], list) {
			l[k] = append(slices.Clip(l[k]), list)
		}
	}
	return l
}

// table holds what a merged list tells beside its items. Immutable.
type table struct {
	names    map[string]target // of tools, prompts and skills
	counts   []int             // of listed items, by upstream
	withheld [][]Withheld      // by upstream
}

// build makes the snapshot of the last states of the upstreams. It depends on nothing else;
// previous only provides its unchanged lists, so that their renderings are reused.
func build(p *plan, states []sourceState, previous *snapshot) *snapshot {
	known := make([]knownLists, len(states))
	for i := range states {
		known[i] = known[i].with(&states[i].lists)
		for _, own := range states[i].classes {
			known[i] = known[i].with(&own.lists)
		}
	}
	s := merge(p, states, known, previous)
	s.varies = slices.ContainsFunc(states, func(k sourceState) bool { return k.classed() })
	return s
}

// seeing returns the snapshot of an audience to which upstreams show something else, by source.
// previous is as for build. A name means what it means to others, too, and conflicts with theirs.
func (s *snapshot) seeing(own map[int]sourceState, previous *snapshot) *snapshot {
	states, known := slices.Clone(s.states), slices.Clone(s.known)
	for i, state := range own {
		state.classes = nil
		states[i], known[i] = state, known[i].with(&state.lists)
	}
	return merge(s.plan, states, known, s, previous)
}

// merge makes a snapshot. It reuses lists that other snapshots, which may be nil, have made of the same
// states, and equal lists.
func merge(p *plan, states []sourceState, known []knownLists, others ...*snapshot) *snapshot {
	s := &snapshot{plan: p, states: states, known: known, whole: newSummary(p, states, nil, nil, nil, "")}
	indexed := false
	for _, other := range others {
		if other == nil {
			continue
		}
		same, uris := s.madeAs(other)
		if uris {
			s.uris, indexed = other.uris, true
		}
		for k := range kinds {
			if same.has(k) && s.lists[k] == nil {
				s.lists[k], s.tables[k] = other.lists[k], other.tables[k]
			}
		}
	}
	if !indexed {
		s.uris = newURIIndex(p, states, known)
	}
	for k := range kinds {
		if s.lists[k] != nil {
			continue
		}
		s.merge(k)
		for _, other := range others {
			if other != nil && other.lists[k].same(s.lists[k]) {
				s.lists[k] = other.lists[k]
			}
		}
	}
	return s
}

// madeAs returns the kinds that another snapshot made from the same lists, and whether its index of
// URIs is from the same, too. A list of skills tells which tools and prompts of theirs are listed,
// and it decides which resources are theirs.
func (s *snapshot) madeAs(other *snapshot) (same kindSet, uris bool) {
	equal, offered := everyKind, true
	for i := range s.states {
		a, b := &s.states[i], &other.states[i]
		if a.heard != b.heard || a.halfSeen != b.halfSeen {
			return 0, false
		}
		offered = offered && a.offers.kinds == b.offers.kinds
		for k := range kinds {
			ours, theirs := s.known[i][k], other.known[i][k]
			if a.lists[k] != b.lists[k] || a.former[k] != b.former[k] || len(ours) != len(theirs) ||
				slices.ContainsFunc(ours, func(l *publicList) bool { return !slices.Contains(theirs, l) }) {
				equal &^= setOf(k)
			}
		}
	}
	has := func(all ...kind) bool { return equal&setOf(all...) == setOf(all...) }
	same = equal & setOf(tools, prompts)
	if has(skills, tools, prompts) {
		same |= setOf(skills)
	}
	if offered && has(skills, resources) {
		same |= equal & setOf(resources, templates)
	}
	return same, offered && has(resources, templates)
}

// place is the origin of an item.
type place struct {
	source int
	native string
}

// claims returns the places of the public names of a kind. Those of all classes count, so that a
// name means the same to all clients. byKey has the keys of skills.
func (s *snapshot) claims(k kind) (names, byKey map[string]place) {
	names, byKey = make(map[string]place), make(map[string]place)
	claim := func(of map[string]place, name string, at place) {
		if was, taken := of[name]; taken && was != at {
			at = place{source: conflict}
		}
		of[name] = at
	}
	for i := range s.known {
		for _, list := range s.known[i][k] {
			for _, e := range list.entries {
				if s.plan.owner(k, e.item.Name, i) != i {
					continue
				}
				claim(names, e.item.Name, place{i, e.native})
				if k == skills {
					claim(byKey, e.skill.key, place{i, e.native})
				}
			}
		}
	}
	return names, byKey
}

// merge makes the list of a kind and its table.
func (s *snapshot) merge(k kind) {
	names, keys := s.claims(k)
	// withhold returns the reason why an entry is not shown, "" if it is.
	withhold := func(i int, e entry) string {
		if owner := s.plan.owner(k, e.item.Name, i); owner != i {
			return fmt.Sprintf("%q begins like the names of upstream %s", e.item.Name, s.plan.namings[owner].upstream)
		}
		switch {
		case names[e.item.Name].source == conflict:
			return fmt.Sprintf("another upstream has the public name %q too", e.item.Name)
		case k == skills && keys[e.skill.key].source == conflict:
			return "another skill has the same URI"
		}
		return ""
	}
	l := &listing{parts: make([][]byte, len(s.states)), private: s.plan.private}
	t := &table{names: make(map[string]target), counts: make([]int, len(s.states)),
		withheld: make([][]Withheld, len(s.states))}
	s.lists[k], s.tables[k] = l, t
	whole := sha256.New()
	var items []mcp.Item
	unknown := false // the time until which every part is fresh
	for i, state := range s.states {
		list := state.lists[k]
		if list == nil {
			if former := state.former[k]; former != nil {
				for _, e := range former.entries {
					l.gone = append(l.gone, e.item)
					hashItem(whole, e.item) // names depend on it
				}
			}
			unknown = true
			continue
		}
		t.withheld[i] = append(t.withheld[i], list.withheld...)
		for _, e := range s.elsewhere(k, i, list) {
			if withhold(i, e) == "" {
				l.gone = append(l.gone, e.item)
			}
		}
		if !list.offered {
			continue
		}
		l.private = l.private || list.private || len(s.known[i][k]) > 1 || state.heard && state.halfSeen
		unknown = unknown || list.expires.IsZero()
		if l.expires.IsZero() || list.expires.Before(l.expires) {
			l.expires = list.expires
		}
		sum := sha256.New()
		for _, e := range list.entries {
			if why := withhold(i, e); why != "" {
				t.withheld[i] = append(t.withheld[i], Withheld{List: k.String(), Name: e.native, Reason: why})
				continue
			}
			if k == resources || k == templates {
				of, certain := state.skillOf(e.native)
				if !certain {
					continue // withheld until it is known which skill it belongs to
				}
				if of != "" {
					part := s.plan.namings[i].file(of, e.native)
					part.Template = k == templates
					e.item = mcp.Item{Name: e.item.Name, Raw: e.item.Raw, Target: part}
				}
			}
			if k == skills {
				e.item.Raw = s.withoutUnlisted(e)
			}
			items = append(items, e.item)
			hashItem(sum, e.item)
			s.enter(k, t, i, e)
		}
		if t.counts[i] > 0 {
			l.parts[i] = sum.Sum(nil)
			whole.Write(l.parts[i])
		}
	}
	if unknown {
		l.expires = time.Time{}
	}
	l.generation = hex.EncodeToString(whole.Sum(nil)[:16])
	l.paginate(items, s.plan.pageSize)
}

// conflict marks a name that several upstreams have.
const conflict = -1

func (s *snapshot) enter(k kind, t *table, source int, e entry) {
	t.counts[source]++
	switch k {
	case tools:
		t.names[e.item.Name] = target{
			source: source, native: e.native, params: e.params, tool: e.item.Raw, schema: e.schema, task: e.task,
		}
	case prompts:
		t.names[e.item.Name] = target{source: source, native: e.native}
	case skills:
		t.withheld[source] = append(t.withheld[source], s.unlistedNeeds(e)...)
		t.names[e.item.Name] = target{source: source, native: e.native,
			skill: skillTarget{uri: e.skill.uri, arguments: e.skill.arguments}}
	}
}

func hashItem(sum hash.Hash, item mcp.Item) {
	var sizes [16]byte
	binary.BigEndian.PutUint64(sizes[:8], uint64(len(item.Name)))
	binary.BigEndian.PutUint64(sizes[8:], uint64(len(item.Raw)))
	sum.Write(sizes[:])
	sum.Write([]byte(item.Name))
	sum.Write(item.Raw)
	if item.Target.File != "" { // callers differ in whether they may see it
		sum.Write([]byte(item.Target.Name))
	}
}

// changed returns which lists of each upstream differ from those in an older snapshot of
// the same upstreams.
func (s *snapshot) changed(old *snapshot) []kindSet {
	all := make([]kindSet, len(s.states))
	for i := range all {
		for k := range kinds {
			if !bytes.Equal(s.lists[k].parts[i], old.lists[k].parts[i]) {
				all[i] |= setOf(k)
			}
		}
	}
	return all
}

// named finds a public name of a tool, prompt or skill.
func (s *snapshot) named(k kind, public string) (target, bool) {
	to, ok := s.tables[k].names[public]
	return to, ok
}

// missing returns an upstream that could have an unlisted name, because it has the name's
// prefix and no list of this kind, and the target that the name may have there. The longest
// prefix decides.
func (s *snapshot) missing(k kind, public string) (to target, ok bool) {
	source, longest := 0, -1
	for i, n := range s.plan.namings {
		if !strings.HasPrefix(public, n.prefix) || len(n.prefix) < longest {
			continue
		}
		absent := s.states[i].lists[k] == nil
		if len(n.prefix) > longest || absent && !ok {
			source, ok, longest = i, absent, len(n.prefix)
		}
	}
	if !ok {
		return to, false
	}
	native := public[longest:]
	return target{source: source, native: native, unlisted: true}, native != ""
}

// elsewhere returns the entries of a source that only audiences with another list see, by name. It
// serves to shorten names, and only tools and prompts have such names.
func (s *snapshot) elsewhere(k kind, source int, list *publicList) (entries []entry) {
	if len(s.known[source][k]) < 2 || k != tools && k != prompts {
		return nil
	}
	others := make(map[string]entry)
	for _, other := range s.known[source][k] {
		for _, e := range other.entries {
			if _, here := list.find(e.item.Name); !here {
				others[e.item.Name] = e
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(others)) {
		entries = append(entries, others[name])
	}
	return entries
}

// withheld returns the items of an upstream that clients do not see.
func (s *snapshot) withheld(source int) (all []Withheld) {
	for _, t := range s.tables {
		all = append(all, t.withheld[source]...)
	}
	return all
}
