package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Bounds of what is remembered, in entries. What is forgotten is computed again.
const (
	maxSubjects = 4096
	maxPartials = 65_536
	// maxNameKept is the length of the longest name whose outlook is remembered: clients
	// choose URIs as long as they like.
	maxNameKept = 512
	// maxSchemas bounds the input schemas, of which each has at most maxSchema values.
	maxSchemas = 128
)

// Effect is what a decision is.
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
	// Rule is the name of the rule that decided, the first in the order of the
	// configuration; "" for the default.
	Rule string
	// ApproveFor is, for Ask, how long an approval holds: the shortest time of the rules
	// that ask, 0 for this call only.
	ApproveFor time.Duration
}

// Policy is a configuration that is ready to decide. It is immutable but for what it
// remembers, and safe for concurrent use.
type Policy struct {
	rules    []*rule
	fallback Effect
	// onURIs says that some rule is about resources or skills, so that of the URIs that a
	// template makes some may be denied.
	onURIs bool
	// people are callers by a hash of all that rules may look at; each is compared in
	// full before it is used.
	subjects *lru.Cache[uint64, *subject]
	hash     hasher
	// outlooks are what is known of an item before it is called.
	partials *lru.Cache[partialKey, *partialDecision]
	// schemas are input schemas of tools, by where they stand in memory.
	schemas *lru.Cache[*byte, *schema]
}

// rule is a Rule that is ready to be applied.
type rule struct {
	index      int
	name       string
	who        *audience
	patterns   [3][]pattern // by Effect
	when       *condition   // nil without one
	approveFor time.Duration
}

// New makes a Policy. It decides as Config says, so that of the zero Config denies
// everything, and Config{Default: DefaultAllow} allows it.
func New(cfg Config) (*Policy, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	p := &Policy{hash: newHasher()}
	if cfg.Default == DefaultAllow {
		p.fallback = Allow
	}
	var errs [3]error
	p.subjects, errs[0] = lru.New[uint64, *subject](maxSubjects)
	p.partials, errs[1] = lru.New[partialKey, *partialDecision](maxPartials)
	p.schemas, errs[2] = lru.New[*byte, *schema](maxSchemas)
	language, err := newLanguage()
	if err = errors.Join(errs[0], errs[1], errs[2], err); err != nil {
		return nil, err
	}
	for i, r := range cfg.Rules {
		compiled, err := newRule(language, i, r)
		if err != nil {
			return nil, fmt.Errorf("policy: %s: %w", elementPath("rules", i, r.Name), err)
		}
		p.rules = append(p.rules, compiled)
		for _, patterns := range compiled.patterns {
			p.onURIs = p.onURIs || slices.ContainsFunc(patterns, func(one pattern) bool { return one.kind != mcp.KindTools && one.kind != mcp.KindPrompts })
		}
	}
	return p, nil
}

func newRule(l *language, index int, r Rule) (*rule, error) {
	compiled := &rule{index: index, name: r.Name, who: newAudience(r.Who), approveFor: r.ApproveFor}
	for effect, texts := range [...][]string{Deny: r.Deny, Ask: r.Ask, Allow: r.Allow} {
		patterns, err := newPatterns(texts)
		if err != nil {
			return nil, err
		}
		compiled.patterns[effect] = patterns
	}
	if r.When == "" {
		return compiled, nil
	}
	var err error
	compiled.when, err = l.compile(r.When, r.strict())
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

// open reports whether everything is allowed to everybody.
func (p *Policy) open() bool { return len(p.rules) == 0 && p.fallback == Allow }

// Decide says whether the caller may use the target with these arguments: those of a
// tool or prompt as the client wrote them, nil for none. It is the one decision, for
// every method. Conditions judge the arguments without the tool's input schema. The
// caller is not changed.
func (p *Policy) Decide(ctx context.Context, caller *mcp.Caller, target mcp.Target, args mcp.Raw) Decision {
	d, _ := p.decide(ctx, caller, target, args, nil, "")
	return d
}

// decide is Decide with input schemas, for what has a public name. unfit says how the
// arguments do not fit the schema, where a condition could not be evaluated because of it.
func (p *Policy) decide(ctx context.Context, caller *mcp.Caller, target mcp.Target, args mcp.Raw, schemas Resolver, public string) (d Decision, unfit error) {
	subject := p.subjectOf(caller)
	partial := p.partialFor(subject, target)
	if len(partial.open) == 0 {
		return partial.decision, nil
	}
	judged := arguments{text: args}
	switch {
	case target.Kind == mcp.KindPrompts:
		judged.schema = p.promptSchema
	case target.Kind == mcp.KindTools && schemas != nil && partial.visible:
		judged.schema = func() *schema { return p.schema(schemas.InputSchema(ctx, public)) }
	}
	settled := partial.settle(ctx, subject, target, &judged)
	return settled.decision(), judged.unfit
}

func (p *Policy) promptSchema() *schema { return p.schema(promptSchema) }

// schema decodes an input schema, once for each that a tool has.
func (p *Policy) schema(text mcp.Raw) *schema {
	if len(text) == 0 {
		return readSchema(text)
	}
	if known, ok := p.schemas.Get(&text[0]); ok {
		return known
	}
	fresh := readSchema(text)
	p.schemas.Add(&text[0], fresh)
	return fresh
}

// Visible reports whether some call of the target could be allowed, or approved, for
// the caller: whether lists show it.
func (p *Policy) Visible(caller *mcp.Caller, target mcp.Target) bool {
	return p.partialFor(p.subjectOf(caller), target).visible
}
