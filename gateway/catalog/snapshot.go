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

	"github.com/gatehouse-mcp/gatehouse/gateway/catalog/classes"
	"github.com/gatehouse-mcp/gatehouse/gateway/view"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// pageSize is the number of items on a page: more than people have, because some clients read only
// the first page.
const pageSize = 2000

// target is what a public name leads to.
type target struct {
	source int
	native string
	params []param
	tool   mcp.Raw     // the definition of a tool
	schema *mcp.Schema // of a tool
	task   taskSupport
	skill  skillTarget // of skills, and of their files
	// unlisted: the upstream has the name's prefix, but no list that could tell.
	unlisted bool
}

// snapshot is everything that clients can see at one moment. It is immutable except for its
// caches: the lists of pages, summaries, and its forms for classes of clients.
type snapshot struct {
	plan   *plan
	states []sourceState
	all    []sourceState // states, or in a form for one class, those with all classes
	varies bool          // some upstream does not show the same to all clients
	whole  *summary      // for callers who see all upstreams
	lists  [kinds]*listing
	tables [kinds]*table
	uris   uriIndex

	mu        sync.Mutex          // guards the fields below
	summaries map[string]*summary // keyed by what is visible, one byte per upstream
	forms     forms
	newcomers *snapshot // with what is shown to users of whom nothing is known; see users
}

// table is what a merged list says beside its items. Immutable.
type table struct {
	names    map[string]target // of tools, prompts and skills
	counts   []int             // of listed items, by upstream
	withheld [][]Withheld      // by upstream
}

// listing is one merged list.
type listing struct {
	generation string   // a hash of the content, equal on every replica
	parts      [][]byte // hashes of each upstream's part; nil for nothing
	expires    time.Time
	private    bool
	pages      []*mcp.List // without cursors
	gone       []mcp.Item  // entries of upstreams whose lists were dropped, as they last were, and of other classes

	mu    sync.Mutex // guards views
	views map[*view.View]*listing
	full  map[string]string // of a view's list: the full names of shortened ones
	kept  []string          // and those that the view could not shorten
}

// build makes the snapshot of what the upstreams last said. It depends on nothing else;
// previous only provides its unchanged lists, so that their renderings are reused.
func build(p *plan, states []sourceState, previous *snapshot) *snapshot {
	return buildAmong(p, states, states, previous)
}

// buildAmong is build for states of which all are the complete form, with what each class
// of clients sees.
func buildAmong(p *plan, states, all []sourceState, previous *snapshot) *snapshot {
	s := newSnapshot(p, states, all)
	s.varies = slices.ContainsFunc(states, func(k sourceState) bool { return k.classed() })
	s.uris = newURIIndex(p, all)
	for k := range kinds {
		if previous != nil && s.mergesAs(k, previous) {
			s.lists[k], s.tables[k] = previous.lists[k], previous.tables[k]
			continue
		}
		s.merge(k)
		if previous != nil {
			s.reuse(k, &previous.lists)
		}
	}
	if previous != nil {
		s.forms.before = previous.formLists()
	}
	return s
}

func newSnapshot(p *plan, states, all []sourceState) *snapshot {
	return &snapshot{plan: p, states: states, all: all, whole: newSummary(p, states, nil, nil, nil, "")}
}

// mergesAs reports whether another snapshot made its list of a kind of the same. Where there
// are skills, their list depends on all others, and decides which resources are theirs.
func (s *snapshot) mergesAs(k kind, other *snapshot) bool {
	if k != tools && k != prompts && (s.hasSkills() || other.hasSkills()) {
		return false
	}
	if k == templates && !s.mergesAs(resources, other) { // which may have skills
		return false
	}
	same := func(a, b sourceState) bool {
		return a.lists[k] == b.lists[k] && a.former[k] == b.former[k] && a.heard == b.heard && a.halfSeen == b.halfSeen
	}
	return slices.EqualFunc(s.states, other.states, same) && slices.EqualFunc(s.all, other.all, func(a, b sourceState) bool {
		return a.lists[k] == b.lists[k] && maps.EqualFunc(a.classes, b.classes, func(a, b *sourceState) bool { return a.lists[k] == b.lists[k] })
	})
}

// hasSkills reports whether an upstream has skills, by itself or among its resources.
func (s *snapshot) hasSkills() bool {
	return slices.ContainsFunc(s.states, func(k sourceState) bool { return k.offers.kinds.has(skills) })
}

// reuse takes an equal list from another snapshot.
func (s *snapshot) reuse(k kind, from *[kinds]*listing) {
	if from[k].same(s.lists[k]) {
		s.lists[k] = from[k]
	}
}

// place is where an item comes from.
type place struct {
	source int
	native string
}

// claims returns whose the public names of a kind are. Those of all classes count, so that a
// name means the same to all clients. byKey has the keys of skills.
func (s *snapshot) claims(k kind) (names, byKey map[string]place) {
	names, byKey = make(map[string]place), make(map[string]place)
	claim := func(of map[string]place, name string, at place) {
		if was, taken := of[name]; taken && was != at {
			at = place{source: conflict}
		}
		of[name] = at
	}
	for i := range s.all {
		for _, list := range s.all[i].every(k) {
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
	// withhold returns why an entry is not shown, "" if it is.
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
	t := &table{names: make(map[string]target), counts: make([]int, len(s.states)), withheld: make([][]Withheld, len(s.states))}
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
		for _, e := range s.all[i].elsewhere(k, list) {
			if withhold(i, e) == "" {
				l.gone = append(l.gone, e.item)
			}
		}
		if !list.offered {
			continue
		}
		l.private = l.private || list.private || s.all[i].varies(k)
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
		t.names[e.item.Name] = target{source: source, native: e.native, params: e.params, tool: e.item.Raw, schema: e.schema, task: e.task}
	case prompts:
		t.names[e.item.Name] = target{source: source, native: e.native}
	case skills:
		t.withheld[source] = append(t.withheld[source], s.unlistedNeeds(e)...)
		t.names[e.item.Name] = target{source: source, native: e.native, skill: skillTarget{uri: e.skill.uri, arguments: e.skill.arguments}}
	}
}

func hashItem(sum hash.Hash, item mcp.Item) {
	var sizes [16]byte
	binary.BigEndian.PutUint64(sizes[:8], uint64(len(item.Name)))
	binary.BigEndian.PutUint64(sizes[8:], uint64(len(item.Raw)))
	sum.Write(sizes[:])
	sum.Write([]byte(item.Name))
	sum.Write(item.Raw)
	if item.Target.File != "" { // who may see it differs
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

// same reports whether both listings would be answered with the same bytes.
func (l *listing) same(other *listing) bool {
	return l.generation == other.generation && l.expires.Equal(other.expires) && l.private == other.private &&
		slices.EqualFunc(l.gone, other.gone, func(a, b mcp.Item) bool { return a.Name == b.Name })
}

// paginate divides the items into pages, at least one. The rest of the listing is complete.
func (l *listing) paginate(items []mcp.Item, size int) {
	if len(items) == 0 {
		l.pages = []*mcp.List{{Items: []mcp.Item{}, Expires: l.expires, Private: l.private}}
	}
	for part := range slices.Chunk(items, size) {
		l.pages = append(l.pages, &mcp.List{Items: part, Expires: l.expires, Private: l.private})
	}
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

// forms are the forms of a snapshot for classes of clients.
type forms struct {
	byCaps map[string]*form // by capabilities as the client wrote them
	all    []*form          // each once
	before map[string][kinds]*listing
	// settled has, by capabilities as the client wrote them, when all upstreams were last told of
	// such a client. All of them had been looked at as its class.
	settled map[string]time.Time
}

type form struct {
	*snapshot
	class string         // for which it was made first
	seen  []*sourceState // what the class sees of each upstream
}

// maxForms bounds how many spellings of capabilities are remembered.
const maxForms = 256

// settled reports whether nothing has to be waited for or told for a client with these
// capabilities.
func (s *snapshot) settled(caps mcp.Raw) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.forms.settled[string(caps)]) < classes.Idle/10
}

// settle records that all upstreams have been looked at as the class of clients with these
// capabilities, and know that there is one.
func (s *snapshot) settle(caps mcp.Raw) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forms.settled == nil || len(s.forms.settled) >= maxForms {
		s.forms.settled = make(map[string]time.Time)
	}
	s.forms.settled[string(caps)] = time.Now()
}

// as returns the snapshot as clients with these capabilities see it.
func (s *snapshot) as(caps mcp.Raw) *snapshot {
	if !s.varies {
		return s
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &s.forms
	if known, ok := f.byCaps[string(caps)]; ok {
		return known.snapshot
	}
	if f.byCaps == nil || len(f.byCaps) >= maxForms {
		f.byCaps = make(map[string]*form)
	}
	class := classes.Of(caps)
	seen := make([]*sourceState, len(s.states))
	for i := range s.states {
		seen[i] = s.states[i].seenBy(class)
	}
	at := slices.IndexFunc(f.all, func(one *form) bool { return slices.Equal(one.seen, seen) })
	if at < 0 {
		at, f.all = len(f.all), append(f.all, &form{s.form(class, seen), class, seen})
	}
	f.byCaps[string(caps)] = f.all[at]
	return f.all[at].snapshot
}

// form makes the form for a class. It shares with s what is equal. mu is held.
func (s *snapshot) form(class string, seen []*sourceState) *snapshot {
	states := slices.Clone(s.states)
	var differ kindSet
	for i, own := range seen {
		if own == &s.states[i] {
			continue
		}
		states[i].classes = nil
		states[i].offers, states[i].instructions = own.offers, own.instructions
		states[i].lists, states[i].plainSkills = own.lists, own.plainSkills
		for k := range kinds {
			if own.lists[k] != s.states[i].lists[k] {
				differ |= setOf(k)
			}
		}
	}
	n := s.derive(states, s.all, differ)
	earlier := s.forms.before[class]
	for k := range kinds {
		if n.lists[k] == s.lists[k] {
			continue
		}
		for _, other := range s.forms.all {
			n.reuse(k, &other.lists)
		}
		if earlier[k] != nil {
			n.reuse(k, &earlier)
		}
	}
	return n
}

// derive makes the snapshot of other states, of which these lists differ. It shares with s what
// is equal.
func (s *snapshot) derive(states, all []sourceState, differ kindSet) *snapshot {
	switch { // a list of skills tells which files are theirs, and which of their tools are listed
	case differ&setOf(resources, templates, skills) != 0:
		differ |= setOf(resources, templates, skills)
	case differ != 0 && s.hasSkills():
		differ |= setOf(skills)
	}
	n := newSnapshot(s.plan, states, all)
	n.uris = s.uris
	for k := range kinds {
		if !differ.has(k) {
			n.lists[k], n.tables[k] = s.lists[k], s.tables[k]
			continue
		}
		n.merge(k)
		n.reuse(k, &s.lists)
	}
	return n
}

// formLists returns the lists of the forms by class, those of earlier snapshots included.
func (s *snapshot) formLists() map[string][kinds]*listing {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.forms.all) == 0 {
		return s.forms.before
	}
	lists := make(map[string][kinds]*listing)
	if len(s.forms.before) < maxForms {
		maps.Copy(lists, s.forms.before)
	}
	for _, one := range s.forms.all {
		lists[one.class] = one.lists
	}
	return lists
}
