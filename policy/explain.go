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
	// Listed says whether lists show the target to the caller.
	Listed bool
	// Rules are all rules in the order of the configuration.
	Rules []RuleExplanation
}

// RuleExplanation says what became of one rule.
type RuleExplanation struct {
	Name string
	// Says is what the rule says of the call, "allow", "ask" or "deny", several of them
	// where it does; none when it does not apply.
	Says []Effect
	// Reason says why it applies or does not.
	Reason string
}

// Explain makes the decision of Decide again and tells how it came about. It looks at
// every rule, and remembers nothing.
func (p *Policy) Explain(ctx context.Context, caller *mcp.Caller, target mcp.Target, args mcp.Raw) Explanation {
	who := newPerson(*caller)
	who.class = p.classOf(who)
	outlook := p.newOutlook(who.class, target)
	e := Explanation{Target: target, Listed: outlook.visible}
	e.Decision = outlook.settle(ctx, who, target, args)

	reading := readTarget(target)
	f := facts{person: who, target: &target, args: &arguments{text: args}}
	for _, r := range p.rules {
		e.Rules = append(e.Rules, r.explain(ctx, &reading, f))
	}
	switch {
	case reading.refused && !p.open():
		e.Reason = "The URI has a dot segment, a backslash, a control character or too many encodings: it is never let through."
	case e.Rule != "":
		e.Reason = fmt.Sprintf("Rule %q decides: deny beats ask, ask beats allow.", e.Rule)
	default:
		e.Reason = fmt.Sprintf("No rule applies: the default is %s.", p.fallback)
	}
	return e
}

func (r *rule) explain(ctx context.Context, reading *reading, f facts) RuleExplanation {
	e := RuleExplanation{Name: r.name}
	if f.person.unclear == nil {
		if key := r.who.lacks(f.person); key != "" {
			e.Reason = "does not apply: the caller does not fit who." + key
			return e
		}
	}
	var about []Effect
	for effect := Deny; effect <= Allow; effect++ {
		if reading.fits(r.patterns[effect], effect) {
			about = append(about, effect)
		}
	}
	if about == nil {
		e.Reason = "does not apply: no pattern fits " + reading.target.String()
		return e
	}
	result, why := isTrue, error(nil)
	switch {
	case f.person.unclear != nil:
		result, why = failed, f.person.unclear
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

// String writes the explanation for people, a line for each rule.
func (e Explanation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", e.Effect, quoteName(e.Target.String()))
	fmt.Fprintf(&b, "%s\n", e.Reason)
	if e.Effect == Ask {
		holds := "one call"
		if e.ApproveFor > 0 {
			holds = e.ApproveFor.String()
		}
		fmt.Fprintf(&b, "The user is asked; an approval is good for %s.\n", holds)
	}
	if e.Effect == Deny && e.Listed {
		b.WriteString("Lists show it all the same: with other arguments it could be allowed.\n")
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

// quoteName makes a name fit for a terminal.
func quoteName(name string) string {
	if printable(name) {
		return name
	}
	return fmt.Sprintf("%+q", name)
}

// Doubts are what is allowed in a configuration and probably not meant: a pattern of an
// upstream that does not exist, and one that looks like another pattern language. Each
// has the path of its key in front.
func (c Config) Doubts(upstreams []string) []error {
	var doubts []error
	for i, r := range c.Rules {
		for _, list := range []struct {
			key   string
			texts []string
		}{{"allow", r.Allow}, {"deny", r.Deny}, {"ask", r.Ask}} {
			for j, text := range list.texts {
				if doubt := doubtOf(text, upstreams); doubt != nil {
					doubts = append(doubts, fmt.Errorf("%s: %s[%d]: %w", elementPath("rules", i, r.Name), list.key, j, doubt))
				}
			}
		}
	}
	return doubts
}

// Doubts are those of the patterns of limits.
func (all Limits) Doubts(upstreams []string) []error {
	var doubts []error
	for i, l := range all {
		for j, text := range l.What {
			if doubt := doubtOf(text, upstreams); doubt != nil {
				doubts = append(doubts, fmt.Errorf("%s: what[%d]: %w", elementPath("", i, l.Name), j, doubt))
			}
		}
	}
	return doubts
}

func doubtOf(text string, upstreams []string) error {
	p, err := parsePattern(text)
	switch {
	case err != nil:
		return nil // Validate says it
	case !slices.ContainsFunc(upstreams, p.upstream.match):
		return fmt.Errorf("%q fits no upstream: there are %s", text, strings.Join(upstreams, ", "))
	case strings.Contains(text, ".*") || strings.ContainsAny(text, "^$|()"):
		return fmt.Errorf("%q: is a regular expression meant? Only * is special here, for any run of characters", text)
	}
	return nil
}

// Idle are the patterns that fit nothing of what is known to exist, each with the path of
// its key in front. Patterns that may be about an upstream that was not heard of are not
// among them.
func (c Config) Idle(known []mcp.Target, unheard []string) (idle []error) {
	readings := make([]reading, len(known))
	for i, t := range known {
		readings[i] = readTarget(t)
	}
	for i, r := range c.Rules {
		for _, list := range []struct {
			key   string
			texts []string
		}{{"allow", r.Allow}, {"deny", r.Deny}, {"ask", r.Ask}} {
			for j, text := range list.texts {
				p, err := parsePattern(text)
				if err != nil || slices.ContainsFunc(unheard, p.upstream.match) ||
					slices.ContainsFunc(readings, func(r reading) bool { return r.fits([]pattern{p}, Ask) }) {
					continue
				}
				idle = append(idle, fmt.Errorf("%s: %s[%d]: %q fits nothing that upstreams list", elementPath("rules", i, r.Name), list.key, j, text))
			}
		}
	}
	return idle
}
