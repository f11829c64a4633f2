package view

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/gatehouse-mcp/gatehouse/policy"
)

// Config is one view.
type Config struct {
	// Name is what logs, metrics and commands call the view: a-z, 0-9 and -, at most 40
	// characters. Required and unique.
	Name string `yaml:"name"`
	// Path is the path of its endpoint. Default: the endpoint's path and the name, such as
	// /mcp/sales.
	Path string `yaml:"path"`
	// Who may use the view, as in rules of policy. Default: everybody.
	Who policy.Who `yaml:"who"`
	// Show is what the view shows, by patterns as in rules of policy, of what policy allows.
	// Required.
	Show []string `yaml:"show"`
}

var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,39}$`)

// Validate returns everything that is wrong with the view alone.
func (c Config) Validate() error {
	var errs []error
	if !namePattern.MatchString(c.Name) {
		errs = append(errs, fmt.Errorf("name: %q: want a-z, 0-9 and -, at most 40", c.Name))
	}
	return errors.Join(append(errs, c.Rule().Validate())...)
}

// Rule is the view as policy applies it.
func (c Config) Rule() policy.View { return policy.View{Name: c.Name, Who: c.Who, Show: c.Show} }
