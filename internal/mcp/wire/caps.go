package wire

import (
	"slices"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// capability is a member of a capabilities object that a revision knows.
type capability struct {
	name string
	// any says that all its members stay; otherwise only these stay.
	any     bool
	members []string
	// without lists members that go even with any.
	without []string
	// unless is a member that shows that the capability belongs to something that this
	// revision lacks: the capability goes if it has unless and not base.
	unless, base string
}

// tasksExtension replaced the tasks of 2025-11-25.
const tasksExtension = mcp.TasksExtension

// cut removes what is unknown from a capabilities object. It returns the same bytes if
// everything is known.
func cut(caps mcp.Raw, known []capability) mcp.Raw {
	var edits []mcp.Edit
	caps.Each(func(name string, value mcp.Raw) bool {
		at := slices.IndexFunc(known, func(k capability) bool { return k.name == name })
		if at < 0 || !known[at].applies(value) {
			edits = append(edits, mcp.Edit{Name: name})
		} else if less := known[at].cut(value); len(less) != len(value) {
			edits = append(edits, mcp.Edit{Name: name, Value: less})
		}
		return true
	})
	return caps.Edit(edits...)
}

func (k capability) applies(value mcp.Raw) bool {
	if k.unless == "" {
		return true
	}
	_, special := value.Member(k.unless)
	_, basic := value.Member(k.base)
	return basic || !special
}

func (k capability) cut(value mcp.Raw) mcp.Raw {
	var edits []mcp.Edit
	value.Each(func(name string, _ mcp.Raw) bool {
		if k.any && slices.Contains(k.without, name) || !k.any && !slices.Contains(k.members, name) {
			edits = append(edits, mcp.Edit{Name: name})
		}
		return true
	})
	return value.Edit(edits...)
}
