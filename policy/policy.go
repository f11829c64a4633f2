package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// Bounds of the caches, in entries. What they have dropped is computed again.
const (
	maxSubjects = 4096
	maxPartials = 65_536
	// maxNameKept is the length of the longest name in the cache of partial decisions:
	// clients choose URIs as long as they like.
	maxNameKept = 512
)

// Effect is the outcome of a decision.
type Effect uint8

// Effects, the strictest first. The zero Effect denies.
const (
	Deny Effect = iota
	Ask
	Allow
)

func (e Effect) String() string {
	switch e {
	case Allow:
		return "allow"
	case Ask:
		return "ask"
	}
	return "deny"
}

// Decision says whether a caller may make a call.
type Decision struct {
	Effect Effect
	// Rule is the name of the deciding rule, the first one in the configuration; "" for the
	// default.
	Rule string
	// ApproveFor is, for Ask, how long an approval holds: the shortest time of the rules that
	// ask, 0 for this call only.
	ApproveFor time.Duration
	// FourEyes is, for Ask, who else has to approve; nil if the user alone has to.
	FourEyes *FourEyes
}

// FourEyes says that people other than its user have to approve of a call.
type FourEyes struct {
	// Rules are the rules that want it, in the order of the configuration. One person has to be
	// among the approvers of each of them.
	Rules []string
	// Timeout is how long the call waits: the shortest time of these rules.
	Timeout time.Duration
	// UserToo says that another rule asks the user, who comes first.
	UserToo bool
}

// Policy is a compiled configuration. It is immutable except for its caches, and safe for
// concurrent use.
type Policy struct {
	rules    []*rule
	fallback Effect
	views    map[string]*frame // by name
	// onURIs says that some rule is about resources or skills, so some of the URIs that a
	// template makes may be denied.
	onURIs bool
	// subjects are callers by a hash of everything that rules may look at. A hit is compared
	// in full before it is used.
	subjects *lru.Cache[uint64, *subject]
	hash     hasher
	// partials are the decisions as far as they are known without the arguments.
	partials *lru.Cache[partialKey, *partialDecision]
}

// rule is a compiled Rule.
type rule struct {
	index      int
	name       string
	who        *audience
	patterns   [3][]pattern // by Effect
	when       *condition   // nil without one
	approveFor time.Duration
	approvers  *approvers // nil for the user
	record     Recording
	keep       *record.Keep // what records have of the arguments; nil for a digest only
	applied    []string     // what explains a decision by this rule, if its condition is true
}

// approvers are compiled Approvers.
type approvers struct {
	who     *audience
	timeout time.Duration
}

// New compiles a configuration. The zero Config denies everything, and Config{Default:
// DefaultAllow} allows everything. A caller at a view that is not among views may do nothing.
// An error names the key path of the problem.
func New(cfg Config, views ...View) (*Policy, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	p := &Policy{hash: newHasher(), views: make(map[string]*frame)}
	for _, v := range views {
		shows, err := newPatterns(v.Show)
		if err != nil {
			return nil, fmt.Errorf("views: %s: %w", v.Name, err)
		}
		p.views[v.Name] = &frame{who: newAudience(v.Who), shows: shows}
	}
	if cfg.Default == DefaultAllow {
		p.fallback = Allow
	}
	var errs [2]error
	p.subjects, errs[0] = lru.New[uint64, *subject](maxSubjects)
	p.partials, errs[1] = lru.New[partialKey, *partialDecision](maxPartials)
	language, err := newLanguage()
	if err = errors.Join(errs[0], errs[1], err); err != nil {
		return nil, err
	}
	for i, r := range cfg.Rules {
		compiled, err := newRule(language, i, r)
		if err != nil {
			return nil, fmt.Errorf("policy: %s: %w", elementPath("rules", i, r.Name), err)
		}
		p.rules = append(p.rules, compiled)
		for _, patterns := range compiled.patterns {
			p.onURIs = p.onURIs || slices.ContainsFunc(patterns,
				func(one pattern) bool { return one.kind != mcp.KindTools && one.kind != mcp.KindPrompts })
		}
	}
	return p, nil
}

func newRule(l *language, index int, r Rule) (*rule, error) {
	compiled := &rule{index: index, name: r.Name, who: newAudience(r.Who), approveFor: r.ApproveFor, record: r.Record}
	if names := r.Record.Arguments; len(names) > 0 {
		compiled.keep = &record.Keep{All: names.All(), Names: names, Redact: r.Record.Redact}
	}
	for effect, texts := range [...][]string{Deny: r.Deny, Ask: r.Ask, Allow: r.Allow} {
		patterns, err := newPatterns(texts)
		if err != nil {
			return nil, err
		}
		compiled.patterns[effect] = patterns
	}
	if r.Approvers != nil {
		compiled.approvers = &approvers{newAudience(r.Approvers.Who), cmp.Or(r.Approvers.Timeout, defaultWait)}
	}
	if r.When == "" {
		return compiled, nil
	}
	var err error
	if compiled.when, err = l.compile(r.When, r.strict()); err == nil && compiled.when.args {
		compiled.applied = []string{fmt.Sprintf("rule %q: when is true", r.Name)}
	}
	return compiled, err
}

func newPatterns(texts []string) ([]pattern, error) {
	var patterns []pattern
	for _, text := range texts {
		p, err := parsePattern(text)
		if err != nil {
			return nil, err
		}
		patterns = append(patterns, p)
	}
	return patterns, nil
}

// open reports whether the rules allow everything to every caller. Only a view hides something
// then.
func (p *Policy) open() bool { return len(p.rules) == 0 && p.fallback == Allow }

// openTo reports whether a caller may use everything.
func (p *Policy) openTo(c *mcp.Caller) bool { return c.View == "" && p.open() }

// Decide says whether the caller may use the target with these arguments: those of a tool or
// prompt as the client wrote them, nil for none. Conditions judge the arguments without the
// tool's input schema. Decide does not change the caller.
func (p *Policy) Decide(ctx context.Context, caller *mcp.Caller, target mcp.Target, args mcp.Raw) Decision {
	d, _, _ := p.decide(ctx, caller, target, args, nil)
	return d
}

// decide is Decide with the input schema of what a call names; nil for no call. unfit says how the
// arguments violate the schema, if that made a condition fail. explained says why, if conditions on
// the arguments made a difference.
func (p *Policy) decide(ctx context.Context, caller *mcp.Caller, target mcp.Target, args mcp.Raw,
	c *mcp.Call) (d Decision, explained []string, unfit error) {
	subject := p.subjectOf(caller)
	partial := p.partialFor(subject, target)
	if len(partial.open) == 0 {
		return partial.decision, nil, nil
	}
	settled, judged := p.weigh(ctx, subject, partial, target, args, c)
	if d = settled.decision(); d.Effect == Deny {
		explained = partial.explained(ctx, subject, target, judged)
	} else if decisive := settled.first[d.Effect]; decisive != nil {
		explained = decisive.applied
	}
	return d, explained, judged.unfit
}

// Keeps returns what the record of a call on which a rule decides has of its arguments; nil for a
// digest only.
func (p *Policy) Keeps(name string) *record.Keep {
	if i := slices.IndexFunc(p.rules, func(r *rule) bool { return r.name == name }); i >= 0 {
		return p.rules[i].keep
	}
	return nil
}

// weigh returns the rules that apply to a call.
func (p *Policy) weigh(ctx context.Context, who *subject, partial *partialDecision, target mcp.Target, args mcp.Raw,
	c *mcp.Call) (t tally, judged *arguments) {
	judged = &arguments{text: args}
	switch {
	case target.Kind == mcp.KindPrompts:
		judged.schema = promptSchema
	case target.Kind == mcp.KindTools && c != nil && partial.visible:
		judged.schema = func() *schema { return schemaOf(c.Lens.Schema(ctx, c.Name)) }
	}
	return partial.settle(ctx, who, target, judged), judged
}

// Approves reports whether a caller is among the approvers of all these rules.
func (p *Policy) Approves(rules []string, by *mcp.Caller) bool {
	who := newSubject(*by)
	if who.unclear != nil || len(rules) == 0 {
		return false
	}
	for _, name := range rules {
		i := slices.IndexFunc(p.rules, func(r *rule) bool { return r.name == name })
		if i < 0 || p.rules[i].approvers == nil || !p.rules[i].approvers.who.has(who) {
			return false
		}
	}
	return true
}

// Visible reports whether lists show the target to the caller: whether some call of it could
// be allowed or approved.
func (p *Policy) Visible(caller *mcp.Caller, target mcp.Target) bool {
	return p.partialFor(p.subjectOf(caller), target).visible
}
