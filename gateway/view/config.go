package view

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
	"github.com/gatehouse-mcp/gatehouse/policy"
)

// Config is one view.
type Config struct {
	// Name is the view's name in logs, metrics and commands: a-z, 0-9 and -, at most 40 characters.
	// Required and unique.
	Name string `yaml:"name"`
	// Path is the path of its endpoint. Default: the endpoint's path and the name, such as
	// /mcp/sales.
	Path string `yaml:"path"`
	// Who selects the users of the view, as in rules of policy. Default: all callers.
	Who policy.Who `yaml:"who"`
	// Show selects items that policy allows, by patterns as in rules of policy. Required.
	Show []string `yaml:"show"`
	// Instructions is a text for models about the view, at most 4096 bytes. Default: the texts of
	// the gateway and of the servers that the view shows something of.
	Instructions string `yaml:"instructions"`
	// Disclosure selects the descriptions of tools there.
	Disclosure Disclosure `yaml:"disclosure"`
	// DropPrefixes drops the prefixes of names of tools and prompts, where the rest stands for one
	// thing only. Full names stay valid. Default: false.
	DropPrefixes bool `yaml:"drop_prefixes"`
	// Order has patterns as in Show: items that match the first one come first in lists, and items
	// that match none last. Default: the order of the upstreams.
	Order []string `yaml:"order"`
	// Descriptions replace those of the servers, by kind:upstream/name without any *. At most
	// 4096 bytes each. Files of skills are resources here, too. Skills keep theirs, which clients
	// compare with the SKILL.md (SEP-2640).
	Descriptions map[string]string `yaml:"descriptions"`
}

// Disclosure selects the descriptions of tools at a view.
type Disclosure struct {
	// Mode is full or progressive. Default: the mode outside of the view.
	Mode string `yaml:"mode"`
}

// maxText bounds a text of the operator, in bytes.
const maxText = 4 << 10

var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,39}$`)

// CheckName returns an error for what is no name of a view.
func CheckName(name string) error {
	if !namePattern.MatchString(name) {
		return fmt.Errorf("name: %q: want a-z, 0-9 and -, at most 40", name)
	}
	return nil
}

// Validate returns all mistakes in the view alone.
func (c Config) Validate() error {
	var found problems.List
	found.Join(CheckName(c.Name))
	found.Join(c.Rule().Validate())
	found.When(len(c.Instructions) > maxText, "instructions: %d bytes: want at most %d", len(c.Instructions), maxText)
	if c.Order != nil {
		found.Join(policy.CheckPatterns("order", c.Order))
	}
	for _, target := range slices.Sorted(maps.Keys(c.Descriptions)) {
		key := "descriptions[" + target + "]"
		switch text := c.Descriptions[target]; {
		case policy.CheckTarget(target) != nil:
			found.Add("%s: %w", key, policy.CheckTarget(target))
		case strings.HasPrefix(target, mcp.KindSkills+":"):
			found.Add("%s: clients compare the description of a skill with its %s: change it there, and remove this entry",
				key, mcp.SkillFile)
		case strings.TrimSpace(text) == "":
			found.Add("%s: is empty", key)
		case len(text) > maxText:
			found.Add("%s: %d bytes: want at most %d", key, len(text), maxText)
		}
	}
	return found.Err()
}

// Rule returns the view as policy applies it.
func (c Config) Rule() policy.View { return policy.View{Name: c.Name, Who: c.Who, Show: c.Show} }
