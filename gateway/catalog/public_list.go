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
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
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
	Behind int // number of items behind the bound, as far as they were counted
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

// newPublicList gives the items of a list their public names and leaves out items that must not be
// shown. tagged are the upstreams with names that appear in URIs.
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
			differ = differ || s.entries[end].native != s.entries[i].native ||
				!bytes.Equal(s.entries[end].item.Raw, s.entries[i].item.Raw)
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

// checksum distinguishes lists that show clients something else. It is valid only within this
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
	i, ok := slices.BinarySearchFunc(s.entries, public,
		func(e entry, public string) int { return cmp.Compare(e.item.Name, public) })
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

// param is a parameter that clients of 2026-07-28 mirror into a header.
type param struct {
	wire.ParamHeader
	key string // its name in Call.ParamHeaders
}

// mirrored returns the mirrored parameters of a tool. An error means that its annotations
// break the rules; clients must drop such a tool, and so does the gateway.
func mirrored(tool mcp.Raw) ([]param, error) {
	if !bytes.Contains(tool, []byte("x-mcp-header")) {
		return nil, nil
	}
	schema, _ := tool.Member("inputSchema")
	headers, err := wire.ParamHeaders(schema)
	if err != nil {
		return nil, err
	}
	params := make([]param, len(headers))
	for i, h := range headers {
		params[i] = param{h, strings.ToLower(h.Name)}
	}
	return params, nil
}

// taskSupport says how a tool may run (2025-11-25
// basic/utilities/tasks#tool-level-negotiation).
type taskSupport uint8

const (
	noTask   taskSupport = iota // or the upstream decides
	mayTask                     // as a task or not
	mustTask                    // only as a task
)

// withTasks sets for each tool how it may run, and tells clients what they can use. A tool that
// runs only as a task can be called either way, since the gateway otherwise makes the task and
// waits for it. offered says that the upstream has tasks of 2025-11-25; without them, its words
// about its tools' tasks do not count.
func (s *publicList) withTasks(offered bool) *publicList {
	for i := range s.entries {
		e := &s.entries[i]
		execution, ok := e.item.Raw.Member("execution")
		if !ok {
			continue
		}
		support, _ := execution.Member("taskSupport")
		switch {
		case !offered:
			e.item.Raw = e.item.Raw.Without("execution")
		case support.Text() == "optional":
			e.task = mayTask
		case support.Text() == "required":
			e.task = mustTask
			e.item.Raw = e.item.Raw.With("execution", execution.With("taskSupport", mcp.Raw(`"optional"`)))
		}
	}
	return s
}
