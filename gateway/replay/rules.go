package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/policy"
)

// mostReviews bounds the decisions that are remembered.
const mostReviews = 100_000

// Rules are the deciding parts of a configuration.
type Rules struct {
	Policy policy.Config
	Views  []policy.View
	// Upstreams are the names of the enabled ones; Hides are those of them that hide definitions
	// without approval.
	Upstreams, Hides []string
	// SignIn says that callers sign in, at one of Issuers.
	SignIn  bool
	Issuers []string
	// Places are those of rules by their names, file:line.
	Places map[string]string
}

// side is a compiled configuration, and what has been decided by it.
type side struct {
	Rules
	policy *policy.Policy
	text   []string // of the rules, without the parts that decide nothing
	known  map[reviewKey]*policy.Outlook

	applied, may []int64 // number of calls that each rule applied to, or may have
}

// reviewKey has all that a decision depends on, except the arguments.
type reviewKey struct {
	issuer, user, client, groups, view string
	target                             mcp.Target
}

func newSide(rules Rules) (*side, error) {
	p, err := policy.New(rules.Policy, rules.Views...)
	if err != nil {
		return nil, err
	}
	n := len(rules.Policy.Rules)
	s := &side{Rules: rules, policy: p, known: make(map[reviewKey]*policy.Outlook), applied: make([]int64, n),
		may: make([]int64, n)}
	for _, r := range rules.Policy.Rules {
		r.Record = policy.Recording{}
		text, err := json.Marshal(r)
		if err != nil {
			return nil, fmt.Errorf("rule %q: %w", r.Name, err)
		}
		s.text = append(s.text, string(text))
	}
	return s, nil
}

// review decides on a call, and counts the rules that apply.
func (s *side) review(ctx context.Context, past policy.Past) *policy.Outlook {
	o := s.reviewed(ctx, past)
	for _, i := range o.Applies {
		s.applied[i]++
	}
	for _, i := range o.MayApply {
		s.may[i]++
	}
	return o
}

// reviewed decides on a call, as far as possible without looking at its arguments, so that it can
// be remembered.
func (s *side) reviewed(ctx context.Context, past policy.Past) *policy.Outlook {
	key := reviewKey{past.Caller.Issuer, past.Caller.Subject, past.Caller.ClientID,
		strings.Join(past.Caller.Groups, "\x00"), past.Caller.View, past.Target}
	o := s.known[key]
	if o == nil {
		bare := past
		bare.Arguments, bare.ArgumentsKnown = nil, false
		first := bare.Review(ctx, s.policy)
		o = &first
		if len(s.known) >= mostReviews {
			clear(s.known)
		}
		s.known[key] = o
	}
	if past.ArgumentsKnown && len(o.MayApply) > 0 {
		whole := past.Review(ctx, s.policy)
		return &whole
	}
	return o
}

// deciding returns the rules that could decide.
func (s *side) deciding(o *policy.Outlook) (texts []string) {
	all := slices.Concat(o.Applies, o.MayApply)
	slices.Sort(all)
	for _, i := range all {
		texts = append(texts, s.text[i])
	}
	return texts
}

// mayDecide reports whether a rule is among those that could decide.
func (s *side) mayDecide(o *policy.Outlook, name string) bool {
	is := func(i int) bool { return s.Policy.Rules[i].Name == name }
	return slices.ContainsFunc(o.Applies, is) || slices.ContainsFunc(o.MayApply, is)
}

func (s *side) at(rule string) string { return s.Places[rule] }

func (s *side) hasView(name string) bool { return s.view(name) != nil }

// view returns a view, nil for none.
func (s *side) view(name string) *policy.View {
	if i := slices.IndexFunc(s.Views, func(v policy.View) bool { return v.Name == name }); i >= 0 {
		return &s.Views[i]
	}
	return nil
}

// unused returns the rules that applied to no call.
func (s *side) unused() (all []Unused) {
	for i, r := range s.Policy.Rules {
		if s.applied[i] == 0 {
			all = append(all, Unused{Rule: r.Name, At: s.at(r.Name), Untold: s.may[i]})
		}
	}
	return all
}
