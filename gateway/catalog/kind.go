package catalog

import "github.com/gatehouse-mcp/gatehouse/internal/mcp"

// kind is one of the lists that an upstream has.
type kind uint8

const (
	tools kind = iota
	prompts
	resources
	templates
	skills // after resources: where those tell what skills there are, they come first
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

// kindNeeded returns the kind that a method needs to be offered at all.
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

// method is the method that lists the kind.
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

// policyKind is the kind as policy names it: a template is of the kind of the resources
// that it makes.
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

// kindSet is a set of kinds, a bit each.
type kindSet uint32

func setOf(all ...kind) (s kindSet) {
	for _, k := range all {
		s |= 1 << k
	}
	return s
}

func (s kindSet) has(k kind) bool { return s&(1<<k) != 0 }

// listChange is a notification that lists changed, the member of a listen filter
// that asks for it, and what it is about.
type listChange struct {
	note, filter string
	kinds        kindSet
}

// listChanges are all of them; resources and their templates share one.
func listChanges() [4]listChange {
	return [...]listChange{
		{mcp.NoteToolsListChanged, "toolsListChanged", setOf(tools)},
		{mcp.NotePromptsListChanged, "promptsListChanged", setOf(prompts)},
		{mcp.NoteResourcesListChanged, "resourcesListChanged", setOf(resources, templates)},
		{mcp.NoteSkillsListChanged, "skillsListChanged", setOf(skills)},
	}
}

// changedBy returns the kinds that a notification says have changed.
func changedBy(note string) kindSet {
	for _, c := range listChanges() {
		if c.note == note {
			return c.kinds
		}
	}
	return 0
}
