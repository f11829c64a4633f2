package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/view"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// pageSize is the number of items on a page.
const pageSize = 1000

// plan is what the configuration determines: the upstreams in their order, and the naming
// of each.
type plan struct {
	cfg      Config
	namings  []naming
	tagged   map[string]int // upstreams whose names appear in their URIs
	private  bool           // some upstream is per user, so every list differs by user
	pageSize int
	views    map[string]*view.View // by name
}

// viewOf returns the view at whose endpoint a call was made, nil for none.
func (p *plan) viewOf(call *mcp.Call) *view.View { return p.views[call.Caller.View] }

// owner returns which upstream a public name belongs to. A name of a tool, prompt or skill
// belongs to the upstream with the longest prefix that the name begins with, whether that
// upstream has it or not, so that no other can take its place while it is down. URIs are
// told apart before (see publicName).
func (p *plan) owner(k kind, public string, has int) int {
	if k != tools && k != prompts && k != skills {
		return has
	}
	owner := has
	for i, n := range p.namings {
		if len(n.prefix) > len(p.namings[owner].prefix) && strings.HasPrefix(public, n.prefix) {
			owner = i
		}
	}
	return owner
}

// target is what a public name leads to.
type target struct {
	source int
	native string
	params []param
	tool   mcp.Raw // the definition of a tool
	task   taskSupport
	skill  skillTarget // of skills, and of their files
	// unlisted: the upstream has the name's prefix, but no list that could tell.
	unlisted bool
}

// snapshot is everything that clients can see at one moment. It is immutable except for its
// caches per user: the lists of pages, and summaries.
type snapshot struct {
	plan     *plan
	states   []sourceState
	whole    *summary // for callers who see all upstreams
	lists    [kinds]*listing
	tools    map[string]target
	prompts  map[string]target
	skills   map[string]target
	uris     uriIndex
	counts   [][kinds]int // of listed items, by upstream
	withheld [][]Withheld // by upstream

	mu        sync.Mutex          // guards summaries
	summaries map[string]*summary // keyed by what is visible, one byte per upstream
}

// listing is one merged list.
type listing struct {
	generation string   // a hash of the content, equal on every replica
	parts      [][]byte // hashes of each upstream's part; nil for nothing
	expires    time.Time
	private    bool
	pages      []*page
	gone       []mcp.Item // entries of upstreams whose lists were dropped, as they last were

	mu    sync.Mutex // guards views
	views map[*view.View]*listing
	full  map[string]string // of a view's list: the full names of shortened ones
	kept  []string          // and those that the view could not shorten
}

// build makes the snapshot of what the upstreams last said. It depends on nothing else;
// previous only provides its unchanged lists, so that their renderings are reused.
func build(p *plan, states []sourceState, previous *snapshot) *snapshot {
	s := &snapshot{
		plan: p, states: states, whole: newSummary(p, states, nil, nil, ""),
		tools: make(map[string]target), prompts: make(map[string]target), skills: make(map[string]target),
		counts: make([][kinds]int, len(states)), withheld: make([][]Withheld, len(states)),
	}
	s.uris = newURIIndex(p, states)
	for k := range kinds {
		s.lists[k] = s.merge(k)
		if previous != nil && previous.lists[k].same(s.lists[k]) {
			s.lists[k] = previous.lists[k]
		}
	}
	return s
}

// merge makes the list of a kind and its table.
func (s *snapshot) merge(k kind) *listing {
	owners := make(map[string]int) // by public name: the upstream, or conflict
	places := make(map[string]int) // by the key of their URIs: how many skills
	for i, state := range s.states {
		if list := state.lists[k]; list != nil {
			for _, e := range list.entries {
				if s.plan.owner(k, e.item.Name, i) != i {
					continue
				}
				if k == skills {
					places[e.skill.key]++
				}
				if _, taken := owners[e.item.Name]; taken {
					owners[e.item.Name] = conflict
				} else {
					owners[e.item.Name] = i
				}
			}
		}
	}
	l := &listing{parts: make([][]byte, len(s.states)), private: s.plan.private}
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
		s.withheld[i] = append(s.withheld[i], list.withheld...)
		if !list.offered {
			continue
		}
		l.private = l.private || list.private
		unknown = unknown || list.expires.IsZero()
		if l.expires.IsZero() || list.expires.Before(l.expires) {
			l.expires = list.expires
		}
		sum := sha256.New()
		for _, e := range list.entries {
			if owner := s.plan.owner(k, e.item.Name, i); owner != i {
				s.withheld[i] = append(s.withheld[i], Withheld{k.String(), e.native, fmt.Sprintf("%q begins like the names of upstream %s", e.item.Name, s.plan.namings[owner].upstream)})
				continue
			}
			if owners[e.item.Name] == conflict {
				s.withheld[i] = append(s.withheld[i], Withheld{k.String(), e.native, fmt.Sprintf("another upstream has the public name %q too", e.item.Name)})
				continue
			}
			if k == skills && places[e.skill.key] > 1 {
				s.withheld[i] = append(s.withheld[i], Withheld{k.String(), e.native, "another skill has the same URI"})
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
			s.enter(k, i, e)
		}
		if s.counts[i][k] > 0 {
			l.parts[i] = sum.Sum(nil)
			whole.Write(l.parts[i])
		}
	}
	if unknown {
		l.expires = time.Time{}
	}
	l.generation = hex.EncodeToString(whole.Sum(nil)[:16])
	l.pages = pagesOf(items, s.plan.pageSize)
	return l
}

// conflict marks a name that several upstreams have.
const conflict = -1

func (s *snapshot) enter(k kind, source int, e entry) {
	s.counts[source][k]++
	switch k {
	case tools:
		s.tools[e.item.Name] = target{source: source, native: e.native, params: e.params, tool: e.item.Raw, task: e.task}
	case prompts:
		s.prompts[e.item.Name] = target{source: source, native: e.native}
	case skills:
		s.checkDependencies(source, e)
		s.skills[e.item.Name] = target{source: source, native: e.native, skill: skillTarget{uri: e.skill.uri, arguments: e.skill.arguments}}
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
	return l.generation == other.generation && l.expires.Equal(other.expires) && l.private == other.private
}

func pagesOf(items []mcp.Item, size int) []*page {
	pages := make([]*page, 0, len(items)/size+1)
	for part := range slices.Chunk(items, size) {
		pages = append(pages, &page{items: part})
	}
	if len(pages) == 0 {
		pages = append(pages, &page{items: []mcp.Item{}})
	}
	return pages
}

// named finds a public name of a tool, prompt or skill.
func (s *snapshot) named(k kind, public string) (target, bool) {
	table := s.tools
	switch k {
	case prompts:
		table = s.prompts
	case skills:
		table = s.skills
	}
	to, ok := table[public]
	return to, ok
}

// shortened returns the full name of something that the call's view gave a short one.
func (s *snapshot) shortened(k kind, call *mcp.Call, name string) (full string, ok bool) {
	full, ok = s.lists[k].in(s.plan.viewOf(call), k, s.plan).full[name]
	return full, ok
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
