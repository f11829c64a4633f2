package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/problems"
)

// Values of Config.Default.
const (
	DefaultDeny  = "deny"
	DefaultAllow = "allow"
)

// Bounds of a configuration.
const (
	maxRules    = 10_000
	maxPatterns = 1_000 // of a rule
	// maxApproval is the longest time that an approval may last.
	maxApproval = 24 * time.Hour
	// How long a call waits for its approvers, by default and at most.
	defaultWait = 5 * time.Minute
	maxWait     = time.Hour
)

// Config is the section "policy". Its zero value denies everything. A gateway without a
// policy makes no Guard at all (see IsZero).
type Config struct {
	// Default is the decision when no rule applies: "deny", the default, or "allow".
	Default string `yaml:"default"`
	// Rules are in any order: deny beats ask, ask beats allow, allow beats Default. To callers, what they may
	// not use does not exist.
	Rules []Rule `yaml:"rules"`
}

// Rule says what some callers may do. Deny, Ask and Allow hold patterns kind:upstream/name.
// The kind is tools, resources, prompts, skills, or * for all of them; the name is the
// upstream's own, a URI for resources. Only * is special: it matches any run of characters,
// including / and ., but before the first slash only within the upstream's name. "tools:*" is
// short for "tools:*/*".
type Rule struct {
	// Name identifies the rule in logs and explanations. Required and unique.
	Name string `yaml:"name"`
	// Who are the callers to whom the rule applies. A caller has to fit each given key, by one of its values,
	// compared exactly. Default: every caller.
	Who Who `yaml:"who"`
	// Allow is what they may use: kind:upstream/name. The kind is tools, resources, prompts, skills or *; the
	// name is the upstream's own, a URI for resources. Only * is special: any run of characters. "tools:*" is
	// short for "tools:*/*".
	Allow []string `yaml:"allow"`
	// Deny is what they may not use, whatever other rules say.
	Deny []string `yaml:"deny"`
	// Ask is what needs the user's approval of each call. It grants nothing: it restricts what a rule or
	// default allows.
	Ask []string `yaml:"ask"`
	// When is a condition on the call, in CEL (docs/policy.md#conditions). It can use args (the arguments),
	// caller (user, issuer, groups, scopes, client, claims, and email if verified) and target (kind,
	// upstream, name). If it cannot be evaluated, for example because an argument is missing, Allow does not
	// apply, and what Deny or Ask name is denied.
	When string `yaml:"when"`
	// Strict says that When judges only arguments that fit the tool's own input schema, and compares no
	// values of different types: otherwise it cannot be evaluated. Default: true. Only with When.
	Strict *bool `yaml:"strict"`
	// ApproveFor is how long an approval lasts for exactly the same call of the same user, at
	// most 24h. Default: one call.
	ApproveFor time.Duration `yaml:"approve_for" zero:"an approval is for one call, the default"`
	// Approvers approve of each call that Ask names, in place of its user, while it waits: by "gatehouse
	// approve" or the admin API, and never of a call of their own. Default: its user does.
	Approvers *Approvers `yaml:"approvers"`
	// Record says what the audit keeps of the arguments of the calls on which this rule
	// decides. Default: a digest only.
	Record Recording `yaml:"record"`
}

// Approvers are people who approve of a call while it waits; one of them is enough. No one approves
// of a call of their own.
type Approvers struct {
	// Who selects them, as in rules. Required.
	Who Who `yaml:"who"`
	// Timeout is how long a call waits for them, at most 1h. Then it is refused. Default 5m.
	Timeout time.Duration `yaml:"timeout"`
}

func (a *Approvers) problems(r Rule) error {
	var found problems.List
	found.When(r.Ask == nil, "they approve of what ask names, but the rule does not ask")
	found.When(r.ApproveFor != 0, "they approve of one call at a time: take approve_for out")
	if err := a.Who.validate(); err != nil {
		found.Add("who: %w", err)
	} else if newAudience(a.Who).everybody() {
		found.Add("who: is needed, such as {groups: [change-managers]}")
	}
	found.At("timeout", problems.Negative(a.Timeout))
	found.When(a.Timeout > maxWait, "timeout: %s is longer than %s", a.Timeout, maxWait)
	return found.Err()
}

// Recording says what is recorded of a call's arguments.
type Recording struct {
	// Arguments is "digest", the default; "full"; or the names of the arguments that are
	// recorded, with dots for members of objects: [account, order.id].
	Arguments RecordedArguments `yaml:"arguments"`
	// Redact lists members, at any depth and in any case. Records have "<redacted>" in place of their values.
	// Default none.
	Redact []string `yaml:"redact"`
}

// RecordedArguments are names of arguments; nil for none, and everyArgument for all of them.
type RecordedArguments []string

// everyArgument is the name for all arguments.
const everyArgument = "*"

// UnmarshalText reads digest or full.
func (a *RecordedArguments) UnmarshalText(text []byte) error {
	switch string(text) {
	case "digest":
		*a = nil
	case "full":
		*a = RecordedArguments{everyArgument}
	default:
		return fmt.Errorf("%q: want digest, full, or a list of names such as [account, order.id]", text)
	}
	return nil
}

// All reports whether all arguments are recorded.
func (a RecordedArguments) All() bool { return len(a) == 1 && a[0] == everyArgument }

// String says what is recorded, for people.
func (r Recording) String() string {
	var text string
	switch {
	case len(r.Arguments) == 0:
		return "a digest of the arguments"
	case r.Arguments.All():
		text = "the arguments in full"
	default:
		text = "of the arguments " + strings.Join(r.Arguments, ", ")
	}
	if len(r.Redact) > 0 {
		text += ", without the values of " + strings.Join(r.Redact, ", ")
	}
	return text
}

func (r Recording) validate() error {
	var found problems.List
	found.When(r.Arguments != nil && len(r.Arguments) == 0, "arguments: is empty: name some, or write digest")
	for i, name := range r.Arguments {
		switch {
		case name == everyArgument && len(r.Arguments) > 1:
			found.Add("arguments[%d]: %q: there are no patterns here: write full for all of them", i, name)
		case name == "" || strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") || strings.Contains(name, ".."):
			found.Add("arguments[%d]: %q: want names with a dot between them, such as order.id", i, name)
		}
	}
	found.When(r.Redact != nil && len(r.Arguments) == 0,
		"redact: of a digest there is nothing to redact: write arguments: full, or a list of names")
	for i, name := range r.Redact {
		found.When(name == "", "redact[%d]: is empty", i)
	}
	return found.Err()
}

// Who is a set of callers. A caller belongs to it if they fit every given key; for a key with
// several values, one is enough. All values are compared exactly, without patterns. The zero
// Who is every caller.
type Who struct {
	// Users are subjects of tokens: values of the claim that identifies users. With several issuers, put the
	// issuer and a space in front: "https://login.example.com alice".
	Users []string `yaml:"users"`
	// Groups are groups of users, optionally with an issuer as in Users.
	Groups []string `yaml:"groups"`
	// Emails are addresses that the issuer has verified.
	Emails []string `yaml:"emails"`
	// Issuers are the issuers of tokens, as in auth.
	Issuers []string `yaml:"issuers"`
	// Scopes are scopes of tokens.
	Scopes []string `yaml:"scopes"`
	// Clients are the ids of OAuth clients.
	Clients []string `yaml:"clients"`
	// Claims are other claims of tokens by name, each with the accepted values. If a claim is
	// a list, one element has to be an accepted value. Numbers and booleans are compared as
	// JSON writes them.
	Claims map[string][]string `yaml:"claims"`
}

// View is an endpoint that shows a selection of what policy allows. It grants nothing.
type View struct {
	Name string
	// Who are the callers who may use the view; the zero Who is every caller.
	Who Who
	// Show has patterns as in rules: what the view shows of what its caller may use.
	Show []string
}

// Limit bounds how often something is used. A call has to fit every limit that applies to it.
type Limit struct {
	// Name appears in errors and metrics. Required and unique.
	Name string `yaml:"name"`
	// Who are the callers to whom the limit applies. Default: every caller.
	Who Who `yaml:"who"`
	// What has patterns as in rules. Default: every tool, resource, prompt and skill.
	What []string `yaml:"what"`
	// Per says which calls share one allowance: those of one user ("user", the default), of one OAuth client
	// ("client"), or of one tool, resource or prompt, by any caller ("tool").
	Per string `yaml:"per"`
	// Rate is how often, such as 10/s, 60/m, 500/h or 1000/d. Required.
	Rate Rate `yaml:"rate"`
	// Burst is how many calls may come at once, after a pause. Default: the number in Rate.
	Burst int `yaml:"burst"`
}

// Values of Limit.Per.
const (
	PerUser   = "user"
	PerClient = "client"
	PerTool   = "tool"
)

// Limits is the section "limits".
type Limits []Limit

// IsZero reports whether the section "policy" is missing. An empty rule list, or a default
// alone, is not missing.
func (c Config) IsZero() bool { return c.Default == "" && c.Rules == nil }

// Approvers returns the sets of those who approve of calls, of all rules that have any.
func (c Config) Approvers() (sets []Who) {
	for _, r := range c.Rules {
		if r.Approvers != nil {
			sets = append(sets, r.Approvers.Who)
		}
	}
	return sets
}

// NeedsApprovers returns the path of the first rule that has approvers; ok is false for none.
func (c Config) NeedsApprovers() (path string, ok bool) {
	i := slices.IndexFunc(c.Rules, func(r Rule) bool { return r.Approvers != nil })
	if i < 0 {
		return "", false
	}
	return elementPath("rules", i, c.Rules[i].Name), true
}

// Validate reports all mistakes in the configuration, each with the path of its key in front.
func (c Config) Validate() error {
	var found problems.List
	found.When(c.Default != "" && c.Default != DefaultDeny && c.Default != DefaultAllow,
		"default: %q: want deny or allow", c.Default)
	if len(c.Rules) > maxRules {
		found.Add("rules: %d are more than %d", len(c.Rules), maxRules)
		return found.Err()
	}
	language, err := newLanguage()
	if err != nil {
		found.Join(err)
		return found.Err()
	}
	names := make(map[string]int)
	for i, r := range c.Rules {
		path := elementPath("rules", i, r.Name)
		found.At(path+": name", checkName(r.Name, "rules", i, names))
		found.At(path, r.validate(language))
	}
	return found.Err()
}

func (r Rule) strict() bool { return r.Strict == nil || *r.Strict }

func (r Rule) validate(l *language) error {
	var found problems.List
	found.At("who", r.Who.validate())
	found.When(r.Allow == nil && r.Deny == nil && r.Ask == nil,
		"decides nothing: want allow, deny or ask with patterns such as tools:github/get_*")
	for _, list := range []struct {
		key      string
		patterns []string
	}{{"allow", r.Allow}, {"deny", r.Deny}, {"ask", r.Ask}} {
		found.Join(checkPatterns(list.key, list.patterns)...)
	}
	if r.When != "" {
		_, err := l.compile(r.When, r.strict())
		found.At("when", err)
	}
	found.At("record", r.Record.validate())
	if r.Approvers != nil {
		found.At("approvers", r.Approvers.problems(r))
	}
	found.When(r.Strict != nil && r.When == "", "strict: says how a condition reads arguments, but the rule has no when")
	switch {
	case r.ApproveFor < 0:
		found.Add("approve_for: %s is negative", r.ApproveFor)
	case r.ApproveFor > maxApproval:
		found.Add("approve_for: %s is longer than %s", r.ApproveFor, maxApproval)
	case r.ApproveFor > 0 && r.Ask == nil:
		found.Add("approve_for: says how long an approval holds, but the rule does not ask")
	}
	return found.Err()
}

// Validate reports all mistakes in the configuration, each with the path of its key in front.
func (all Limits) Validate() error {
	if len(all) > maxRules {
		return fmt.Errorf("%d limits are more than %d", len(all), maxRules)
	}
	var found problems.List
	names := make(map[string]int)
	for i, l := range all {
		path := elementPath("", i, l.Name)
		found.At(path+": name", checkName(l.Name, "limits", i, names))
		found.At(path, l.validate())
	}
	return found.Err()
}

// Validate reports all mistakes in the view, each with the path of its key in front.
func (v View) Validate() error {
	var found problems.List
	found.At("who", v.Who.validate())
	found.When(v.Show == nil, "show: is needed: patterns such as tools:crm/*")
	found.Join(checkPatterns("show", v.Show)...)
	return found.Err()
}

func (l Limit) validate() error {
	var found problems.List
	found.At("who", l.Who.validate())
	found.Join(checkPatterns("what", l.What)...)
	switch l.Per {
	case "", PerUser, PerClient, PerTool:
	default:
		found.Add("per: %q: want user, client or tool", l.Per)
	}
	found.When(l.Rate == (Rate{}), "rate: is needed, such as 60/m")
	found.When(l.Burst < 0 || l.Burst > maxRate, "burst: %d: want 1 to %d", l.Burst, maxRate)
	return found.Err()
}

// elementPath is the key path of a list's element, in the format of the configuration loader.
func elementPath(list string, i int, name string) string {
	if name == "" || !printable(name) || strings.ContainsAny(name, "():") { // which would end the path
		return fmt.Sprintf("%s[%d]", list, i)
	}
	return fmt.Sprintf("%s[%d] (%s)", list, i, name)
}

func checkName(name, list string, i int, names map[string]int) error {
	const longest = 100
	if name == "" {
		return errors.New("is needed: explanations refer to it")
	}
	if len(name) > longest || !printable(name) {
		return fmt.Errorf("%q: want at most %d printable characters", name, longest)
	}
	if first, taken := names[name]; taken {
		return fmt.Errorf("%s[%d] is called %q already: explanations and metrics tell them apart by their names", list,
			first, name)
	}
	names[name] = i
	return nil
}

func checkPatterns(key string, patterns []string) (found problems.List) {
	switch {
	case patterns != nil && len(patterns) == 0:
		return []error{fmt.Errorf("%s: is empty: name something or take the key out", key)}
	case len(patterns) > maxPatterns:
		return []error{fmt.Errorf("%s: %d patterns are more than %d", key, len(patterns), maxPatterns)}
	}
	for i, text := range patterns {
		if _, err := parsePattern(text); err != nil {
			found.Add("%s[%d]: %w", key, i, err)
		}
	}
	return found
}

func (w Who) validate() error {
	var found problems.List
	for _, list := range []struct {
		key    string
		values []string
	}{{"users", w.Users}, {"groups", w.Groups}, {"emails", w.Emails}, {"issuers", w.Issuers}, {"scopes", w.Scopes},
		{"clients", w.Clients}} {
		found.Join(checkValues(list.key, list.values)...)
	}
	found.When(w.Claims != nil && len(w.Claims) == 0, "claims: is empty: name a claim or take the key out")
	for name, values := range w.Claims {
		found.Join(checkValues("claims["+name+"]", append([]string{}, values...))...)
	}
	for i, email := range w.Emails {
		found.When(strings.Count(email, "@") != 1, "emails[%d]: %q: want an address with one @", i, email)
	}
	slices.SortFunc(found, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) }) // maps have no order
	return found.Err()
}

// checkValues refuses values that can never fit, since the rule would apply to no caller, and the
// empty list, since it would apply to every caller.
func checkValues(key string, values []string) (found problems.List) {
	if values != nil && len(values) == 0 {
		return []error{fmt.Errorf("%s: is empty: put values in or take the key out", key)}
	}
	for i, v := range values {
		switch {
		case v == "":
			found.Add("%s[%d]: is empty", key, i)
		case strings.Contains(v, "*"):
			found.Add("%s[%d]: %q: there are no patterns here: name each, or write a condition under when", key, i, v)
		case strings.TrimSpace(v) != v:
			found.Add("%s[%d]: %q: take the space around it away", key, i, v)
		}
	}
	return found
}
