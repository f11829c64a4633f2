package admin

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
	"github.com/gatehouse-mcp/gatehouse/internal/trail"
	"github.com/gatehouse-mcp/gatehouse/policy"
)

// Roles of operators. Each may read.
const (
	RoleViewer   = "viewer"   // reads
	RoleOperator = "operator" // acts, too
	RoleAuditor  = "auditor"  // reads, also the arguments of calls that rules record
)

// Roles are all roles.
var Roles = []string{RoleViewer, RoleOperator, RoleAuditor}

// Config is the section "admin.api". Its zero value means that there is no API.
type Config struct {
	// Tokens are the bearer tokens of those who may use the API. Default none.
	Tokens []Token `yaml:"tokens"`
	// Loopback is the role of requests from this machine without a token: viewer, operator or
	// auditor. Any program of any user of the machine then has it. Default: there is no access
	// without a token.
	Loopback string `yaml:"loopback"`
	// Messages selects the messages of recent calls in memory: off, none; shape, the default, with type and
	// size in place of values; or full, which the role auditor alone sees. Changes apply to calls that begin
	// later.
	Messages string `yaml:"messages"`
	// RecentBytes bounds the memory of the last records at each replica, and of the steps and messages of
	// the last calls, which have a quarter of it. When it is full, successful fast calls go first, and
	// those of users beyond a sixteenth of it. At least 1MiB. Default: 64MiB.
	RecentBytes int64 `yaml:"recent_bytes"`
}

// leastRecent bounds RecentBytes.
const leastRecent = 1 << 20

// Token gives a person or program access to the API.
type Token struct {
	// Name is the operator's name in records and in the log. Required.
	Name string `yaml:"name"`
	// Role is viewer (reads), operator (also ends sessions and reloads) or auditor (reads, also
	// recorded arguments). Required.
	Role string `yaml:"role"`
	// Secret is a secret of at least 32 random bytes. Required.
	Secret mcp.Secret `yaml:"token"`
}

// RoleRule gives a role to people who sign in.
type RoleRule struct {
	// Who selects the people, as in rules of policy. Required.
	Who policy.Who `yaml:"who"`
	// Role is viewer, operator or auditor. A person has the roles of all rules that fit. Required.
	Role string `yaml:"role"`
}

// RoleRules are the section "admin.rules".
type RoleRules []RoleRule

// Validate reports all mistakes, each with the path of its key in front.
func (rules RoleRules) Validate() error {
	var found problems.List
	for i, r := range rules {
		found.When(!slices.Contains(Roles, r.Role), "[%d].role: %q: want viewer, operator or auditor", i, r.Role)
		found.When(reflect.ValueOf(r.Who).IsZero(),
			"[%d].who: is missing: name the users, groups or emails that have the role", i)
	}
	_, err := audiences(rules.who())
	found.Join(err)
	return found.Err()
}

func (rules RoleRules) who() (all []policy.Who) {
	for _, r := range rules {
		all = append(all, r.Who)
	}
	return all
}

func audiences(sets []policy.Who) (all []*policy.Audiences, err error) {
	for i, who := range sets {
		one, err := policy.NewAudiences([]policy.Who{who})
		if err != nil {
			return nil, fmt.Errorf("[%d].who: %w", i, errors.Unwrap(err))
		}
		all = append(all, one)
	}
	return all, nil
}

// Staff knows the roles of people, and who may have to approve calls. It is immutable.
type Staff struct {
	rules     RoleRules
	who       []*policy.Audiences
	approvers []*policy.Audiences
}

// NewStaff makes a Staff of valid rules, and of the sets of people who approve calls.
func NewStaff(rules RoleRules, approvers []policy.Who) (*Staff, error) {
	who, err := audiences(rules.who())
	if err != nil {
		return nil, err
	}
	approve, err := audiences(approvers)
	return &Staff{rules, who, approve}, err
}

// Roles returns the roles of a person.
func (s *Staff) Roles(person *mcp.Caller) (roles []string) {
	for i, who := range s.who {
		if role := s.rules[i].Role; who.First(person) == 0 && !slices.Contains(roles, role) {
			roles = append(roles, role)
		}
	}
	return roles
}

// Approves reports whether a rule of policy lets a person approve calls.
func (s *Staff) Approves(person *mcp.Caller) bool {
	return slices.ContainsFunc(s.approvers, func(who *policy.Audiences) bool { return who.First(person) == 0 })
}

// tokenName matches names that are safe in records and logs.
var tokenName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)

// IsZero reports whether there is no API.
func (c Config) IsZero() bool { return len(c.Tokens) == 0 && c.Loopback == "" }

// Validate reports all mistakes, each with the path of its key in front.
func (c Config) Validate() error {
	var found problems.List
	names, tokens := make(map[string]int), make(map[string]int)
	for i, t := range c.Tokens {
		var inToken problems.List
		if !tokenName.MatchString(t.Name) {
			inToken.Add("name: %q: want at most 64 letters, digits and ._@-", t.Name)
		} else if first, taken := names[t.Name]; taken {
			inToken.Add("name: tokens[%d] is called %q already: give each a name of its own", first, t.Name)
		}
		inToken.When(!slices.Contains(Roles, t.Role), "role: %q: want viewer, operator or auditor", t.Role)
		if err := seal.Check([]byte(string(t.Secret))); err != nil {
			inToken.Add("token: %w", err)
		} else if first, taken := tokens[string(t.Secret)]; taken {
			inToken.Add("token: is that of tokens[%d], too: give each its own", first)
		}
		found.At(fmt.Sprintf("tokens[%d]", i), inToken...)
		names[t.Name], tokens[string(t.Secret)] = i, i
	}
	if modes := []trail.Mode{"", trail.ModeOff, trail.ModeShape, trail.ModeFull}; !slices.Contains(modes,
		trail.Mode(c.Messages)) {
		found.Add("messages: %q: want off, shape or full", c.Messages)
	}
	found.When(c.RecentBytes != 0 && c.RecentBytes < leastRecent, "recent_bytes: %d: want at least 1MiB", c.RecentBytes)
	found.When(c.Loopback != "" && !slices.Contains(Roles, c.Loopback),
		"loopback: %q: want viewer, operator or auditor, or leave it out", c.Loopback)
	return found.Err()
}
