package policy

import (
	"context"
	"slices"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Missing names the facts that would tell more about a past call.
type Missing uint8

// What records do not have, or not always.
const (
	MissingArguments Missing = 1 << iota
	MissingScopes
	MissingClaims // with the address
)

// hiddenVariables are those of a caller that records do not have.
var hiddenVariables = map[string]Missing{"caller.scopes": MissingScopes, "caller.email": MissingClaims,
	"caller.claims": MissingClaims}

// Past is a call that a record describes.
type Past struct {
	Caller mcp.Caller
	// SignedIn says that the caller had a token with unknown scopes and claims.
	SignedIn bool
	Target   mcp.Target
	// Arguments are those of the call, nil for none. ArgumentsKnown says that they are known.
	Arguments      mcp.Raw
	ArgumentsKnown bool
}

// Outlook is a policy's decision on a past call, as far as it can be told. It is the decision that
// Policy.Decide makes, wherever Certain.
type Outlook struct {
	Decision
	// Certain says that the effect can be told, RuleCertain that the rule can, too.
	Certain, RuleCertain bool
	// Missing is what would tell what is not certain.
	Missing Missing
	// Unchecked says that conditions judged the arguments without the tool's input schema: of a
	// call that does not fit it, they would say something else.
	Unchecked bool
	// Applies are the rules that apply, by their indexes in the configuration; MayApply are those
	// that may or may not.
	Applies, MayApply []int
}

// Review decides on a past call by the rules and conditions of Decide. It leaves open what depends
// on unknown facts. It caches nothing.
func (past Past) Review(ctx context.Context, p *Policy) (o Outlook) {
	who := newSubject(past.Caller)
	who.hidden = past.SignedIn
	who.class = p.classOf(who)
	spelled := spellTarget(past.Target)
	partial := p.partialFrom(who.class, spelled, false)

	f := facts{subject: who, target: &past.Target}
	if past.ArgumentsKnown {
		f.args = &arguments{text: past.Arguments}
		if past.Target.Kind == mcp.KindPrompts {
			f.args.schema = promptSchema
		}
	}
	settled := partial.fixed
	var open []openRule
	for _, r := range partial.open {
		result := r.review(ctx, f)
		if result == isOpen {
			open = append(open, r)
			o.Missing |= r.missing(f)
		}
		settled.add(r.rule, r.effect, result)
		o.Unchecked = o.Unchecked || past.ArgumentsKnown && past.Target.Kind == mcp.KindTools && r.when != nil &&
			r.when.strict && r.when.args
	}
	o.Decision = settled.decision()
	o.Certain, o.RuleCertain = settled.certain(open)
	if frame := who.class.frame; frame != nil && frame.who != nil {
		if missing := frame.who.unsure(who); missing != 0 { // the view may be for others
			o.Missing |= missing
			o.Certain, o.RuleCertain = o.Certain && o.Effect == Deny, o.RuleCertain && o.Effect == Deny && o.Rule == ""
		}
	}
	who.class.each(&spelled, false, func(s applicable, effect Effect, result outcome) {
		if result == isOpen {
			result = openRule{s, effect}.review(ctx, f)
		}
		switch {
		case result == isOpen:
			o.MayApply = append(o.MayApply, s.index)
		case result == isTrue, result == failed && effect != Allow:
			o.Applies = append(o.Applies, s.index)
		}
	})
	o.Applies, o.MayApply = slices.Compact(o.Applies), slices.Compact(o.MayApply)
	return o
}

// forWhom reports whether the open part of the rule is about the caller, and not the call.
func (s applicable) forWhom() bool { return s.unsure != 0 || s.hides }

// review evaluates an open rule with what is known of a past call.
func (r openRule) review(ctx context.Context, f facts) outcome {
	result := isTrue
	if r.when != nil {
		result, _ = r.when.eval(ctx, f)
	}
	switch {
	case r.unsure != 0 && result != isFalse,
		r.hides && result == failed: // which the arguments may be to blame for, after the caller had decided
		return isOpen
	}
	return result
}

// missing is what would tell whether an open rule applies.
func (r openRule) missing(f facts) Missing {
	m := r.unsure
	if r.when == nil {
		return m
	}
	if r.when.args && f.args == nil {
		m |= MissingArguments
	}
	if r.hides {
		m |= r.when.hidden
	}
	return m
}

// certain reports whether the effect on a call, and its rule, are the same whichever of the open
// rules apply.
func (t *tally) certain(open []openRule) (effect, rule bool) {
	may := func(effect Effect) bool {
		return slices.ContainsFunc(open, func(r openRule) bool { return r.effect == effect })
	}
	mayFail := slices.ContainsFunc(open, func(r openRule) bool { return r.effect == Ask && r.when != nil })
	earlier := func(effect Effect) bool { // an open rule that would be named instead
		return slices.ContainsFunc(open, func(r openRule) bool {
			return r.effect == effect && (t.first[effect] == nil || r.index < t.first[effect].index)
		})
	}
	// A question with a failed condition is a denial.
	granted := t.first[Allow] != nil || t.fallback == Allow
	switch {
	case t.first[Deny] != nil, !granted && !may(Allow):
		return true, !may(Deny) && !mayFail
	case !granted, may(Deny), mayFail, may(Ask) && t.first[Ask] == nil:
		return false, false
	case t.first[Ask] != nil:
		return true, !earlier(Ask)
	}
	return true, !earlier(Allow)
}
