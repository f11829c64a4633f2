package mcp

// Kinds of things that upstreams offer, as in policy. A resource template has the kind of
// the resources that it makes.
const (
	KindTools     = "tools"
	KindResources = "resources"
	KindPrompts   = "prompts"
	KindSkills    = "skills"
)

// KindTask is the kind of a task's id. Policy decides on the tool that made the task.
const KindTask = "task"

// Target is a thing that an upstream offers, by its original name. Policy uses original
// names, so that renaming never moves a permission.
type Target struct {
	Kind     string
	Upstream string
	// Name is the original name or URI; for an entry of resources/templates/list, and for its
	// completion, the URI template.
	Name string
	// Template says that Name, or File if it is set, is a URI template.
	Template bool
	// File is, for the kind skills, the original URI of one file or directory of the skill;
	// for the skill itself, the URI of its SKILL.md.
	File string
}

// String returns kind:upstream/name; for a file of a skill, the file follows.
func (t Target) String() string {
	s := t.Kind + ":" + t.Upstream + "/" + t.Name
	if t.File != "" {
		s += " (its file " + t.File + ")"
	}
	return s
}
