package mcp

// Kinds of what upstreams offer, as policy names them. A resource template is of the
// kind of the resources that it makes.
const (
	KindTools     = "tools"
	KindResources = "resources"
	KindPrompts   = "prompts"
	KindSkills    = "skills"
)

// KindTask is the kind of a task's id: what policy decides on is the tool that made it.
const KindTask = "task"

// Target is one thing that an upstream offers, under the name that it has there: what
// policy speaks of, so that renaming never moves a permission.
type Target struct {
	Kind     string
	Upstream string
	// Name is the original name or URI; for an entry of resources/templates/list, and
	// what completes one, the URI template.
	Name string
	// Template says that Name, or File where there is one, is a URI template.
	Template bool
	// File is, of a target of kind skills, the original URI of the one file or directory
	// of the skill that is meant; for the skill itself that of its SKILL.md.
	File string
}

// String returns kind:upstream/name, of a file of a skill with the file behind it.
func (t Target) String() string {
	s := t.Kind + ":" + t.Upstream + "/" + t.Name
	if t.File != "" {
		s += " (its file " + t.File + ")"
	}
	return s
}
