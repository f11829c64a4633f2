package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

const (
	// maxExplained bounds the rules in the explanation of a call, maxValue a value there, in bytes.
	maxExplained = 20
	maxValue     = 100
)

// partialDecision is a decision for a class of callers and a target, as far as it is known
// without the arguments. Immutable.
type partialDecision struct {
	// fixed has the rules that already apply, and decision is their result: final if open is
	// empty.
	fixed    tally
	decision Decision
	// visible says that some call could be allowed or approved.
	visible bool
	// open are the rules with conditions that depend on the call.
	open []openRule
}

type openRule struct {
	applicable
	effect Effect
}

type partialKey struct {
	class  [16]byte
	target mcp.Target
}

// partialFor returns the partial decision on a target, cached if possible.
func (p *Policy) partialFor(who *subject, t mcp.Target) *partialDecision {
	key := partialKey{who.class.id, t}
	if o, ok := p.partials.Get(key); ok {
		return o
	}
	o := p.newPartial(who.class, t)
	if len(t.Name)+len(t.File) <= maxNameKept {
		p.partials.Add(key, o)
	}
	return o
}

func (p *Policy) newPartial(c *callerClass, t mcp.Target) *partialDecision {
	return p.partialFrom(c, spellTarget(t), false)
}

// partialFrom makes the partial decision on a target with its spellings. With nameless, the
// end of the target's name is unknown, and conditions on the name stay open.
func (p *Policy) partialFrom(c *callerClass, spelled spelledTarget, nameless bool) *partialDecision {
	o := &partialDecision{fixed: tally{fallback: p.fallback}}
	t := spelled.target
	if t.Upstream == "" || spelled.refused && !p.open() {
		o.fixed.fallback = Deny
		return o
	}
	if c.frame != nil && !spelled.fits(c.frame.shows, Allow) {
		o.fixed.fallback = Deny
		return o
	}
	c.each(&spelled, nameless, func(s applicable, effect Effect, result outcome) {
		if result == isOpen {
			o.open = append(o.open, openRule{s, effect})
		}
		o.fixed.add(s.rule, effect, result)
	})
	o.fixed.users, o.fixed.others = slices.Clip(o.fixed.users), slices.Clip(o.fixed.others) // settle adds to copies
	// what the call says is not looked at any more
	if o.fixed.first[Deny] != nil {
		o.open = slices.DeleteFunc(o.open, func(r openRule) bool { return !r.forWhom() })
	}
	o.decision = o.fixed.decision()
	o.visible = o.decision.Effect != Deny || slices.ContainsFunc(o.open,
		func(r openRule) bool { return r.effect == Allow })
	return o
}

// each calls do with each rule that applies to the class and the target, once for each of its
// effects there. It passes on what the rule's condition says, as far as that is known.
func (c *callerClass) each(spelled *spelledTarget, nameless bool,
	do func(s applicable, effect Effect, result outcome)) {
	for _, s := range c.rules {
		for effect := Deny; effect <= Allow; effect++ {
			if !spelled.fits(s.patterns[effect], effect) {
				continue
			}
			result := isTrue
			switch {
			case s.broken:
				result = failed
			case s.open:
				result, _ = s.when.eval(context.Background(), facts{subject: c.who, target: &spelled.target, nameless: nameless})
			}
			if s.unsure != 0 && result != isFalse {
				result = isOpen
			}
			do(s, effect, result)
		}
	}
}

// settle evaluates the open conditions for a call.
func (o *partialDecision) settle(ctx context.Context, who *subject, target mcp.Target, args *arguments) tally {
	f := facts{subject: who, target: &target, args: args}
	t := o.fixed
	for _, r := range o.open {
		result, _ := r.when.eval(ctx, f)
		t.add(r.rule, r.effect, result)
	}
	return t
}

// explained says why the conditions on a call's arguments let it be denied. It repeats of the
// arguments what each rule lets records have.
func (o *partialDecision) explained(ctx context.Context, who *subject, target mcp.Target,
	args *arguments) (lines []string) {
	f := facts{subject: who, target: &target, args: args}
	var last *rule
	for _, r := range o.open {
		if r.rule == last { // it has a pattern for another effect, too
			continue
		}
		if last = r.rule; len(lines) == maxExplained {
			return append(lines, fmt.Sprintf("and %d more rules", len(o.open)-maxExplained))
		}
		said := "when is false"
		switch result, why := r.when.eval(ctx, f); result {
		case isTrue:
			said = "when is true"
		case failed:
			said = fmt.Sprintf("when cannot be evaluated: %s", why)
		}
		lines = append(lines, fmt.Sprintf("rule %q: %s%s", r.name, said, r.values(args)))
	}
	return lines
}

// values says which arguments the condition of a rule reads, and their values, if records may have
// them.
func (r *rule) values(args *arguments) string {
	var recorded mcp.Raw
	if r.keep != nil {
		recorded, _ = r.keep.Of(args.text)
	}
	var read []string
	for _, name := range r.when.names {
		given := args.text.At(name)
		if given == nil {
			continue
		}
		said := "not recorded"
		if value := recorded.At(name); value != nil {
			if said = string(value); len(said) > maxValue {
				said = fmt.Sprintf("%d bytes", len(said))
			}
		}
		read = append(read, name+" = "+said)
	}
	if read == nil {
		return ""
	}
	return record.ValuesFollow + strings.Join(read, ", ")
}

// tally collects the rules that apply, in any order. Of the rules with one effect it keeps
// the first in the configuration, to name it.
type tally struct {
	fallback Effect
	first    [3]*rule // by Effect
	shortest time.Duration
	users    []*rule // that ask the user
	others   []*rule // that ask approvers
}

// add counts a rule. A rule with a failed condition does not allow, and denies what it would deny
// or ask about.
func (t *tally) add(r *rule, effect Effect, result outcome) {
	switch {
	case result == failed && effect != Allow:
		effect = Deny
	case result != isTrue:
		return
	}
	if effect == Ask && (t.first[Ask] == nil || r.approveFor < t.shortest) {
		t.shortest = r.approveFor
	}
	switch {
	case effect != Ask:
	case r.approvers == nil:
		t.users = append(t.users, r)
	default:
		t.others = append(t.others, r)
	}
	if t.first[effect] == nil || r.index < t.first[effect].index {
		t.first[effect] = r
	}
}

// decision is the result of the rules. A rule that asks grants nothing: it only counts if a
// rule or the fallback allows.
func (t *tally) decision() Decision {
	deny, ask, allow := t.first[Deny], t.first[Ask], t.first[Allow]
	switch {
	case deny != nil:
		return Decision{Effect: Deny, Rule: deny.name}
	case allow == nil && t.fallback != Allow:
		return Decision{}
	case ask != nil:
		return Decision{Effect: Ask, Rule: ask.name, ApproveFor: t.shortest, FourEyes: t.fourEyes()}
	case allow != nil:
		return Decision{Effect: Allow, Rule: allow.name}
	}
	return Decision{Effect: Allow}
}

// asked reports whether all rules that ask in another tally have asked in this one.
func (t *tally) asked(other *tally) bool {
	within := func(some, all []*rule) bool {
		return !slices.ContainsFunc(some, func(r *rule) bool { return !slices.Contains(all, r) })
	}
	return within(other.users, t.users) && within(other.others, t.others)
}

// fourEyes says who besides the user has to approve, nil for no one.
func (t *tally) fourEyes() *FourEyes {
	if len(t.others) == 0 {
		return nil
	}
	rules := slices.SortedFunc(slices.Values(t.others), func(a, b *rule) int { return a.index - b.index })
	f := &FourEyes{UserToo: len(t.users) > 0, Timeout: rules[0].approvers.timeout}
	for _, r := range rules {
		f.Rules, f.Timeout = append(f.Rules, r.name), min(f.Timeout, r.approvers.timeout)
	}
	return f
}
