package catalog

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// Skills come as records of the inner language (mcp/skill.go), whatever their upstream
// speaks. Here they get public names and URIs, and so do the tools, prompts and resources
// that they depend on. The stages above decide who may see which of them, and in which of
// the two forms.

const (
	// maxSkill bounds the record of a skill, in bytes. A record of 512 files, the number
	// that every client must support (SEP-2640), needs half of it.
	maxSkill = 256 << 10
	// maxSkillList bounds the records of one upstream, in bytes.
	maxSkillList = 16 << 20
)

// skillEntry holds the facts about a listed skill beside its item.
type skillEntry struct {
	uri       string // of its SKILL.md, the original
	key       string // the same for all spellings of its public URI
	arguments []string
	complete  bool     // all its files are known
	unknown   []string // dependencies that are on no list, as texts
	needs     needs
}

// size returns the memory of the entry, in bytes.
func (s *skillEntry) size() int {
	size := len(s.uri) + len(s.key)
	for _, names := range [][]string{s.arguments, s.unknown, s.needs.tools, s.needs.prompts, s.needs.resources} {
		for _, name := range names {
			size += 16 + len(name)
		}
	}
	return size
}

// needs holds the public names and URIs that a skill depends on.
type needs struct{ tools, prompts, resources []string }

// skillTarget is the part of a target about skills.
type skillTarget struct {
	uri       string   // of a skill's SKILL.md, the original
	arguments []string // the required arguments
	unlisted  bool     // the key is then that of the enclosing skill, if there is one
	of        string   // the key of the skill that a file belongs to
}

// newSkillEntry makes the public form of a skill; the error says why there is none.
// skillcheck.go checks the requirements of the two documents on an entry.
func newSkillEntry(p *plan, n naming, item mcp.Item, public string) (entry, error) {
	var e entry
	if strings.Contains(item.Name, "://") {
		return e, errors.New("its name looks like a URI")
	}
	if err := wire.CheckObject(item.Raw, "name", "uri", "frontmatter", "resources", "dependencies",
		"arguments"); err != nil {
		return e, errors.New("its definition can be read in two ways")
	}
	uri, _ := item.Raw.Member("uri")
	e.skill.uri = uri.Text()
	if _, ok := mcp.SkillRoot(e.skill.uri); !ok {
		return e, fmt.Errorf("its URI is not that of a %s", mcp.SkillFile)
	}
	if tag, _, _ := splitURI(e.skill.uri); n.plain() && tag != "" {
		if _, taken := p.tagged[tag]; taken {
			return e, errForeignURI
		}
	}
	var err error
	raw, root := n.record(item.Raw), strings.TrimSuffix(n.uri(e.skill.uri), "/"+mcp.SkillFile)
	if e.skill.key, err = uriKey(root + "/" + mcp.SkillFile); err != nil {
		return e, err
	}
	if err := checkFrontmatter(raw.At("frontmatter"), path.Base(mcp.SkillPath(root))); err != nil {
		return e, err
	}
	files, _ := raw.Member("resources")
	if e.skill.complete, err = checkFiles(files, root); err != nil {
		return e, err
	}
	arguments, _ := raw.Member("arguments")
	arguments.Elements(func(a mcp.Raw) bool {
		name, _ := a.Member("name")
		if required, _ := a.Member("required"); required.IsTrue() {
			e.skill.arguments = append(e.skill.arguments, name.Text())
		}
		return true
	})
	edits := []mcp.Edit{{Name: "name", Value: mcp.String(public)}}
	if dependencies, ok := raw.Member("dependencies"); ok {
		edits = append(edits, mcp.Edit{Name: "dependencies", Value: p.dependencies(n, dependencies, &e.skill)})
	}
	e.native, e.item = item.Name, mcp.Item{Name: public, Raw: raw.Edit(edits...), Target: n.file(item.Name, e.skill.uri)}
	return e, nil
}

// record gives the URIs of a record their public form.
func (n naming) record(record mcp.Raw) mcp.Raw {
	if n.plain() {
		return record
	}
	return record.Map(func(name []byte, value mcp.Raw) mcp.Raw {
		switch string(name) {
		case "uri":
			return n.text(value)
		case "resources":
			return value.Map(func(_ []byte, file mcp.Raw) mcp.Raw { return n.member(file, "uri") })
		}
		return value
	})
}

// dependencies gives the dependencies of a skill their public names, and records them. It
// leaves out those for which no name can be made.
func (p *plan) dependencies(n naming, dependencies mcp.Raw, skill *skillEntry) mcp.Raw {
	public := func(kind, native string, make func(naming, string) (string, error)) (string, bool) {
		owner := n
		if n.skillDir {
			upstream, name, _ := strings.Cut(native, "/")
			i := slices.IndexFunc(p.namings, func(n naming) bool { return n.upstream == upstream })
			if i < 0 || name == "" {
				skill.unknown = append(skill.unknown,
					fmt.Sprintf("depends on %s %q: want upstream/name, with an upstream of this gateway", kind, clipName(native)))
				return "", false
			}
			owner, native = p.namings[i], name
		}
		name, err := make(owner, native)
		if err != nil {
			skill.unknown = append(skill.unknown, fmt.Sprintf("depends on %s %q: %s", kind, clipName(native), err))
			return "", false
		}
		return name, true
	}
	uri := func(n naming, native string) (string, error) {
		if !sane(native) {
			return "", errNoURI
		}
		if strings.Contains(native, "{") {
			return n.template(native)
		}
		return n.uri(native), nil
	}
	refs := func(all mcp.Raw, kind, member string, make func(naming, string) (string, error), needs *[]string) mcp.Raw {
		return all.Filter(func(ref mcp.Raw) mcp.Raw {
			if !isRef(ref, "ref/"+kind) {
				skill.unknown = append(skill.unknown, fmt.Sprintf("depends on something that is no reference to a %s", kind))
				return nil
			}
			native, _ := ref.Member(member)
			to, ok := public(kind, native.Text(), make)
			if !ok {
				return nil
			}
			*needs = append(*needs, to)
			return ref.Edit(mcp.Edit{Name: member, Value: mcp.String(to)})
		})
	}
	if wire.CheckObject(dependencies) != nil {
		skill.unknown = append(skill.unknown, "its dependencies are no object that can be read in one way")
		return nil
	}
	return dependencies.Map(func(name []byte, value mcp.Raw) mcp.Raw {
		switch string(name) {
		case "tools":
			return value.Filter(func(tool mcp.Raw) mcp.Raw {
				to, ok := public("tool", tool.Text(), naming.tool)
				if !ok {
					return nil
				}
				skill.needs.tools = append(skill.needs.tools, to)
				return mcp.String(to)
			})
		case "prompts":
			return refs(value, "prompt", "name", naming.prompt, &skill.needs.prompts)
		case "resources":
			return refs(value, "resource", "uri", uri, &skill.needs.resources)
		}
		return value
	})
}

// isRef reports whether a dependency is a reference of this type.
func isRef(ref mcp.Raw, kind string) bool {
	title, titled := ref.Member("title")
	_, isText := title.StringValue()
	return wire.CheckObject(ref) == nil && ref.At("type").Text() == kind && (isText || !titled)
}

// listOfNeeds is the Withheld.List of dependencies of a skill; the skill itself is shown.
const listOfNeeds = "dependencies of skills"

// unlistedNeeds returns the dependencies of a skill that no upstream lists.
func (s *snapshot) unlistedNeeds(e entry) (unlisted []Withheld) {
	for _, d := range []struct {
		k    kind
		what string
		all  []string
	}{{tools, "tool", e.skill.needs.tools}, {prompts, "prompt", e.skill.needs.prompts}} {
		for _, name := range d.all {
			if s.mayBe(d.k, name) || s.perUser(name) {
				continue
			}
			unlisted = append(unlisted, Withheld{List: listOfNeeds, Name: e.native,
				Reason: fmt.Sprintf("depends on %s %q, which is not listed: clients are not told of it", d.what, clipName(name))})
		}
	}
	return unlisted
}

// withoutUnlisted returns the record of a skill without the tools and prompts that no upstream
// lists. The record thus changes when those come or go, and listeners hear of it.
func (s *snapshot) withoutUnlisted(e entry) mcp.Raw {
	unlisted := func(k kind, names []string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return !s.mayBe(k, name) })
	}
	if !unlisted(tools, e.skill.needs.tools) && !unlisted(prompts, e.skill.needs.prompts) {
		return e.item.Raw
	}
	dependencies, _ := e.item.Raw.Member("dependencies")
	return e.item.Raw.With("dependencies", dependencies.Map(func(name []byte, value mcp.Raw) mcp.Raw {
		switch string(name) {
		case "tools":
			return value.Filter(func(tool mcp.Raw) mcp.Raw {
				if !s.mayBe(tools, tool.Text()) {
					return nil
				}
				return tool
			})
		case "prompts":
			return value.Filter(func(ref mcp.Raw) mcp.Raw {
				if public, _ := ref.Member("name"); !s.mayBe(prompts, public.Text()) {
					return nil
				}
				return ref
			})
		}
		return value
	}))
}

// mayBe reports whether a public name is listed, or may be on a list that did not come.
func (s *snapshot) mayBe(k kind, public string) bool {
	if _, ok := s.named(k, public); ok {
		return true
	}
	_, may := s.missing(k, public)
	return may
}

// perUser reports whether a public name belongs to a per-user upstream, which lists it only
// to the users who have it.
func (s *snapshot) perUser(public string) bool {
	owner := s.plan.longest(public)
	return owner >= 0 && s.states[owner].state == StatePerUser
}

// file returns the target that policy decides on for a file of a skill of this upstream.
// The target of the SKILL.md stands for the skill.
func (n naming) file(key, uri string) mcp.Target {
	return mcp.Target{Kind: mcp.KindSkills, Upstream: n.upstream, Name: key, File: uri}
}

// skillResult gives the names and URIs in the result of skills/get their public form. The
// error says why the result cannot be shown.
func (p *plan) skillResult(n naming, result mcp.Raw, key string) (mcp.Raw, error) {
	if record, ok := result.Member("skill"); ok {
		e, err := newEntry(p, n, skills, mcp.Item{Name: key, Raw: record})
		if err != nil {
			return nil, err
		}
		return result.With("skill", e.item.Raw), nil
	}
	result, err := instructions.Fit(result)
	if err != nil {
		return nil, err
	}
	var edits []mcp.Edit
	if files, ok := result.Member("files"); ok && !n.plain() {
		edits = append(edits, mcp.Edit{Name: "files",
			Value: files.Map(func(_ []byte, file mcp.Raw) mcp.Raw { return n.member(file, "uri") })})
	}
	if dependencies, ok := result.Member("dependencies"); ok {
		edits = append(edits, mcp.Edit{Name: "dependencies", Value: p.dependencies(n, dependencies, &skillEntry{})})
	}
	return result.Edit(edits...), nil
}

// lacks reports whether a list that the upstream offers has not come.
func (k *sourceState) lacks(which kind) bool {
	return k.offers.kinds.has(which) && k.lists[which] == nil
}

// skillOf returns the key of the skill that an original URI belongs to, "" for none. certain is
// false if that is unknown, so that no caller may have the URI: because the skills are not known,
// or because of the URI's spelling.
func (k *sourceState) skillOf(native string) (key string, certain bool) {
	from := k.lists[skills]
	open := !k.heard || k.lacks(resources) // the resources may include skills
	switch {
	case k.heard && !k.offers.kinds.has(skills) && !open:
		return "", true
	case from == nil || !k.offers.kinds.has(skills):
		return "", !strings.HasPrefix(strings.ToLower(native), mcp.SkillScheme)
	}
	return from.skills.find(native)
}
