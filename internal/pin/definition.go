package pin

import (
	"cmp"
	"crypto/sha256"
	"slices"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Kind says what is defined, in the words of the lock file.
type Kind string

// Kinds of definitions.
const (
	Instructions Kind = "instructions" // one for a server, without a name
	Tools        Kind = "tools"
	Prompts      Kind = "prompts"
	Templates    Kind = "resource templates"
	Skills       Kind = "skills"
)

// kinds are all kinds, in the order of the lock file.
var kinds = []Kind{Instructions, Tools, Prompts, Templates, Skills}

// KindOf returns the kind that a list method lists; ok is false for methods with lists that are not
// pinned.
func KindOf(method string) (k Kind, ok bool) {
	switch method {
	case mcp.MethodToolsList:
		return Tools, true
	case mcp.MethodPromptsList:
		return Prompts, true
	case mcp.MethodResourceTemplatesList:
		return Templates, true
	case mcp.MethodSkillsList:
		return Skills, true
	}
	return "", false
}

// Definition is what a server says of one thing. A server may define a thing in several ways:
// for clients that declare different capabilities, for users, or from one session to another.
type Definition struct {
	Kind Kind
	// Name is the server's own name, or the URI of a template.
	Name string
	Raw  mcp.Raw // in canonical form
}

func compare(a, b Definition) int {
	return cmp.Or(
		cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind)),
		cmp.Compare(a.Name, b.Name), slices.Compare(a.Raw, b.Raw),
	)
}

// members are the digests of the members of a definition, by name; "text" for one that is no object.
type members map[string]Digest

func membersOf(definition mcp.Raw) members {
	if !definition.IsObject() {
		return members{"text": DigestOf(definition)}
	}
	all := make(members)
	definition.Each(func(name string, value mcp.Raw) bool {
		// Of several members with the same name all count.
		was := all[name]
		all[name] = sha256.Sum256(append(was[:], Canonical(value)...))
		return true
	})
	return all
}

// differ returns the names of the members that are not the same in both, sorted.
func (m members) differ(other members) (names []string) {
	for name, digest := range m {
		if other[name] != digest {
			names = append(names, name)
		}
	}
	for name := range other {
		if _, both := m[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
