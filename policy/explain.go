package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Explanation is a decision with its reasons.
type Explanation struct {
	Decision
	Target mcp.Target
	// Reason says in a sentence what decided.
	Reason string
	// Unchecked says that conditions judged the arguments without the tool's input schema.
	Unchecked bool
	// Listed says whether lists show the target to the caller.
	Listed bool
	// Records says what the audit keeps of the arguments, "" if the rule that decides does not
	// say.
	Records string
	// Rules has every rule, in the order of the configuration.
	Rules []RuleExplanation
}

// RuleExplanation says whether one rule applied, and why.
type RuleExplanation struct {
	Name string
	// Says has the rule's effects on the call; it is empty if the rule does not apply.
	Says []Effect
	// Reason says why it applies or does not.
	Reason string
}

// Explain makes the decision of Decide again and gives the reasons. It looks at every rule,
// and caches nothing.
func (p *Policy) Explain(ctx context.Context, caller *mcp.Caller, target mcp.Target, args mcp.Raw) Explanation {
	who := newSubject(*caller)
	who.class = p.classOf(who)
	partial := p.newPartial(who.class, target)
	e := Explanation{Target: target, Listed: partial.visible}
	judged := &arguments{text: args}
	if target.Kind == mcp.KindPrompts {
		judged.schema = promptSchema
	}
	e.Unchecked = target.Kind == mcp.KindTools &&
		slices.ContainsFunc(partial.open, func(r openRule) bool { return r.when.strict && r.when.args })
	settled := partial.settle(ctx, who, target, judged)
	e.Decision = settled.decision()

	if i := slices.IndexFunc(p.rules, func(r *rule) bool { return r.name == e.Rule }); i >= 0 &&
		len(p.rules[i].record.Arguments) > 0 {
		e.Records = p.rules[i].record.String()
	}

	spelled := spellTarget(target)
	f := facts{subject: who, target: &target, args: judged}
	for _, r := range p.rules {
		e.Rules = append(e.Rules, r.explain(ctx, &spelled, f))
	}
	switch f := who.class.frame; {
	case f == noFrame:
		e.Reason = fmt.Sprintf("The view %q is for others%s.", caller.View, p.lacking(who))
	case f != nil && !spelled.fits(f.shows, Allow):
		e.Reason = fmt.Sprintf("The view %q does not show it, whatever rules say.", caller.View)
	case spelled.refused && !p.open():
		e.Reason = "The URI has a dot segment, a backslash, a control character, too many encodings or more than 16 KiB: it is never let through."
	default:
		e.Reason = settled.reason()
	}
	return e
}

// lacking names the key of a view's audience that the caller does not fit, "" if that is not known.
func (p *Policy) lacking(who *subject) string {
	f := p.views[who.caller.View]
	if f == nil || who.unclear != nil {
		return ""
	}
	return ": the caller does not fit who." + f.who.lacks(who)
}

// reason says in a sentence what decided.
func (t *tally) reason() string {
	d, allowed := t.decision(), t.first[Allow]
	switch {
	case d.Effect == Deny && d.Rule != "":
		return fmt.Sprintf("Rule %q denies it, whatever others say.", d.Rule)
	case d.Effect == Deny && t.first[Ask] != nil:
		return fmt.Sprintf("No rule allows it: the default is deny. Rule %q only asks about what is allowed.",
			t.first[Ask].name)
	case d.Effect == Deny:
		return "No rule allows it: the default is deny."
	case d.Effect == Ask && allowed == nil:
		return fmt.Sprintf("The default allows it, once %s: rule %q asks.", d.whoApproves(), d.Rule)
	case d.Effect == Ask:
		return fmt.Sprintf("Rule %q allows it, once %s: rule %q asks.", allowed.name, d.whoApproves(), d.Rule)
	case allowed == nil:
		return "No rule applies: the default is allow."
	}
	return fmt.Sprintf("Rule %q allows it, and none denies it.", d.Rule)
}

func (r *rule) explain(ctx context.Context, spelled *spelledTarget, f facts) RuleExplanation {
	e := RuleExplanation{Name: r.name}
	if f.subject.unclear == nil {
		if key := r.who.lacks(f.subject); key != "" {
			e.Reason = "does not apply: the caller does not fit who." + key
			return e
		}
	}
	var about []Effect
	for effect := Deny; effect <= Allow; effect++ {
		if spelled.fits(r.patterns[effect], effect) {
			about = append(about, effect)
		}
	}
	if about == nil {
		e.Reason = "does not apply: no pattern fits " + spelled.target.String()
		return e
	}
	result, why := isTrue, error(nil)
	switch {
	case f.subject.unclear != nil:
		result, why = failed, f.subject.unclear
	case r.when != nil:
		result, why = r.when.inTurn(ctx, f)
	}
	switch result {
	case isTrue:
		e.Says, e.Reason = about, "applies"
		if r.when != nil {
			e.Reason = "applies: when is true"
		}
	case failed:
		e.Reason = fmt.Sprintf("does not allow: when cannot be evaluated: %s", why)
		if about[0] != Allow {
			e.Says, e.Reason = []Effect{Deny}, fmt.Sprintf("denies: when cannot be evaluated: %s", why)
		}
	default:
		e.Reason = "does not apply: when is false"
	}
	return e
}

// String writes the explanation for humans, with a line for each rule.
func (e Explanation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", e.Effect, quoteName(e.Target.String()))
	fmt.Fprintf(&b, "%s\n", e.Reason)
	if e.Effect == Ask && e.FourEyes != nil {
		fmt.Fprintf(&b, "It waits up to %s until an approver of %s, who is not the caller, approves of it.\n",
			e.FourEyes.Timeout, quotedNames(e.FourEyes.Rules))
	}
	if e.Effect == Ask && e.asksUser() {
		holds := "one call"
		if e.ApproveFor > 0 {
			holds = e.ApproveFor.String()
		}
		fmt.Fprintf(&b, "The user is asked; an approval is good for %s.\n", holds)
	}
	if e.Effect == Deny && e.Listed {
		b.WriteString("Lists show it all the same: with other arguments it could be allowed.\n")
	}
	if e.Records != "" {
		fmt.Fprintf(&b, "Records of the audit have %s.\n", e.Records)
	}
	if e.Unchecked {
		b.WriteString("The tool's input schema is not known here: a call with arguments that do not fit it is denied.\n")
	}
	if len(e.Rules) > 0 {
		b.WriteString("\n")
	}
	width := 0
	for _, r := range e.Rules {
		width = max(width, len(r.Name))
	}
	for _, r := range e.Rules {
		says := make([]string, len(r.Says))
		for i, effect := range r.Says {
			says[i] = effect.String()
		}
		mark := "-"
		if r.Says != nil {
			mark = strings.Join(says, ", ")
		}
		fmt.Fprintf(&b, "  %-*s  %-5s  %s\n", width, r.Name, mark, r.Reason)
	}
	return b.String()
}

// quotedNames lists names of rules.
func quotedNames(rules []string) string {
	all := make([]string, len(rules))
	for i, name := range rules {
		all[i] = fmt.Sprintf("rule %q", name)
	}
	return strings.Join(all, " and ")
}

// quoteName makes a name safe to print on a terminal.
func quoteName(name string) string {
	if printable(name) {
		return name
	}
	return fmt.Sprintf("%+q", name)
}
