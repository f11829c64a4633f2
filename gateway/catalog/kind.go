package catalog

import "github.com/gatehouse-mcp/gatehouse/internal/mcp"

// kind is one of the lists that an upstream has.
type kind uint8

const (
	tools kind = iota
	prompts
	resources
	templates
	skills // after resources: resources may reveal which skills there are, so they come first
	kinds
)

// kindOf returns the kind that a list method lists.
func kindOf(method string) (kind, bool) {
	for k := range kinds {
		if k.method() == method {
			return k, true
		}
	}
	return 0, false
}

// kindNeeded returns the kind that must be offered for a method to exist.
func kindNeeded(method string) (kind, bool) {
	switch method {
	case mcp.MethodToolsCall:
		return tools, true
	case mcp.MethodPromptsGet:
		return prompts, true
	case mcp.MethodResourcesRead:
		return resources, true
	case mcp.MethodSkillsGet, mcp.MethodDirectoryRead:
		return skills, true
	}
	return kindOf(method)
}

// method returns the method that lists the kind.
func (k kind) method() string {
	switch k {
	case tools:
		return mcp.MethodToolsList
	case prompts:
		return mcp.MethodPromptsList
	case resources:
		return mcp.MethodResourcesList
	case skills:
		return mcp.MethodSkillsList
	}
	return mcp.MethodResourceTemplatesList
}

// policyKind returns policy's name of the kind: a template counts as the kind of the
// resources that it makes.
func (k kind) policyKind() string {
	switch k {
	case tools:
		return mcp.KindTools
	case prompts:
		return mcp.KindPrompts
	case skills:
		return mcp.KindSkills
	}
	return mcp.KindResources
}

func (k kind) String() string {
	switch k {
	case tools:
		return "tools"
	case prompts:
		return "prompts"
	case resources:
		return "resources"
	case skills:
		return "skills"
	}
	return "resource templates"
}

// kindSet is a set of kinds, one bit each.
type kindSet uint32

// everyKind has all of them.
const everyKind = kindSet(1<<kinds - 1)

func setOf(all ...kind) (s kindSet) {
	for _, k := range all {
		s |= 1 << k
	}
	return s
}

// alike returns the kinds that share names with this kind.
func (k kind) alike() kindSet {
	if k == resources || k == templates {
		return setOf(resources, templates)
	}
	return setOf(k)
}

func (s kindSet) has(k kind) bool { return s&(1<<k) != 0 }

// lists returns the lists of these kinds, in the form of change notifications.
func (s kindSet) lists() (l mcp.Lists) {
	for k := range kinds {
		if s.has(k) {
			l |= mcp.ListsRead(k.method())
		}
	}
	return l
}

// kindsIn returns the kinds of lists.
func kindsIn(l mcp.Lists) (s kindSet) {
	if l == 0 { // as with every progress event
		return 0
	}
	for k := range kinds {
		if l&mcp.ListsRead(k.method()) != 0 {
			s |= setOf(k)
		}
	}
	return s
}

// changedBy returns the kinds that a notification says have changed.
func changedBy(note string) kindSet { return kindsIn(mcp.ListsChanged(note)) }
