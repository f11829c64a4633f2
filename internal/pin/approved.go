package pin

import "github.com/gatehouse-mcp/gatehouse/internal/mcp"

// Approved is the approved state of one server, without the texts. It is immutable.
type Approved struct {
	all    map[Kind]map[string][]approvedDefinition
	skills map[string]bool // by URI
}

type approvedDefinition struct {
	digest  Digest
	members members
}

// Of returns what a lock approves of an upstream.
func (l Lock) Of(upstream string) *Approved {
	a := &Approved{make(map[Kind]map[string][]approvedDefinition), make(map[string]bool)}
	for _, d := range l[upstream] {
		if d.Kind == Skills {
			a.skills[d.Raw.At("uri").Text()] = true
		}
		if a.all[d.Kind] == nil {
			a.all[d.Kind] = make(map[string][]approvedDefinition)
		}
		a.all[d.Kind][d.Name] = append(a.all[d.Kind][d.Name], approvedDefinition{DigestOf(d.Raw), membersOf(d.Raw)})
	}
	return a
}

// Has reports whether something of this name is approved, in whichever form.
func (a *Approved) Has(k Kind, name string) bool { return len(a.all[k][name]) > 0 }

// HasSkillAt reports whether a skill with this URI of its SKILL.md is approved.
func (a *Approved) HasSkillAt(uri string) bool { return a.skills[uri] }

// Check compares a definition with what is approved: is it new, or which of its members
// differ from the approved definition that is most like it? ok says that it is approved as it
// is.
func (a *Approved) Check(k Kind, name string, definition mcp.Raw) (differ []string, isNew, ok bool) {
	known := a.all[k][name]
	digest := DigestOf(definition)
	for _, one := range known {
		if one.digest == digest {
			return nil, false, true
		}
	}
	now := membersOf(definition)
	for i, one := range known {
		if names := one.members.differ(now); i == 0 || len(names) < len(differ) {
			differ = names
		}
	}
	return differ, len(known) == 0, false
}
