package admin

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

// Roles, each of which may read.
const (
	RoleViewer   = "viewer"   // reads
	RoleOperator = "operator" // acts, too
	RoleAuditor  = "auditor"  // reads, also the arguments of calls that rules record
)

var roles = []string{RoleViewer, RoleOperator, RoleAuditor}

// Config is the section "admin.api". Its zero value means that there is no API.
type Config struct {
	// Tokens are the bearer tokens of those who may use the API. Default none.
	Tokens []Token `yaml:"tokens"`
	// Loopback is the role of requests from this machine without a token: viewer, operator or
	// auditor. Any program of any user of the machine then has it. Default: there is no access
	// without a token.
	Loopback string `yaml:"loopback"`
}

// Token lets somebody use the API.
type Token struct {
	// Name says who acts, in records and in the log. Required.
	Name string `yaml:"name"`
	// Role is viewer (reads), operator (also ends sessions and reloads) or auditor (reads, also
	// recorded arguments). Required.
	Role string `yaml:"role"`
	// Secret is a secret of at least 32 random bytes. Required.
	Secret mcp.Secret `yaml:"token"`
}

// tokenName matches names that are safe in records and logs.
var tokenName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)

// IsZero reports whether there is no API.
func (c Config) IsZero() bool { return len(c.Tokens) == 0 && c.Loopback == "" }

// Validate reports everything that is wrong, each problem with the path of its key in front.
func (c Config) Validate() error {
	var errs []error
	names, tokens := make(map[string]int), make(map[string]int)
	for i, t := range c.Tokens {
		add := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("tokens[%d]: %w", i, fmt.Errorf(format, args...)))
		}
		if !tokenName.MatchString(t.Name) {
			add("name: %q: want at most 64 letters, digits and ._@-", t.Name)
		} else if first, taken := names[t.Name]; taken {
			add("name: tokens[%d] is called %q already: give each a name of its own", first, t.Name)
		}
		if !slices.Contains(roles, t.Role) {
			add("role: %q: want viewer, operator or auditor", t.Role)
		}
		if err := seal.Check([]byte(string(t.Secret))); err != nil {
			add("token: %w", err)
		} else if first, taken := tokens[string(t.Secret)]; taken {
			add("token: is that of tokens[%d], too: give each its own", first)
		}
		names[t.Name], tokens[string(t.Secret)] = i, i
	}
	if c.Loopback != "" && !slices.Contains(roles, c.Loopback) {
		errs = append(errs, fmt.Errorf("loopback: %q: want viewer, operator or auditor, or leave it out", c.Loopback))
	}
	return errors.Join(errs...)
}
