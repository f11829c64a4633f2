package replay

import (
	"context"
	"reflect"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
	"github.com/gatehouse-mcp/gatehouse/policy"
)

// unknown is the decision on a name that does not exist.
const unknown = "unknown"

// Reasons why a decision cannot be determined.
const (
	untoldUndecided = "nothing was decided: a limit, or an error of the request, came first"
	untoldName      = "no server had this name: whether one of the draft has it is not known"
	untoldThing     = "the record does not say what was called"
	untoldCut       = "the record has only the beginning of a name"
	untoldSignIn    = "the caller did not sign in, and has to with the draft"
	untoldPin       = "the draft hides what is not approved of this server"
)

// missingOf describes the missing parts of a record.
var missingOf = []struct {
	what policy.Missing
	why  string
}{
	{policy.MissingArguments, "arguments"},
	{policy.MissingScopes, "scopes"},
	{policy.MissingClaims, "claims of the token"},
}

// verdict is the decision of the draft on a call.
type verdict struct {
	Side
	untold    string // why it cannot be told; "" if it can
	unclear   bool   // the effect is known, and the rule is not
	unchecked bool
}

// decide decides on a call as a gateway with the draft would: by sign-in, by the configured
// servers, and then by policy, with views.
func (r *Replay) decide(ctx context.Context, c *record.Record) verdict {
	untold := func(why string) verdict { return verdict{untold: why} }
	switch {
	case c.Decision == "":
		return untold(untoldUndecided)
	case slices.ContainsFunc(append([]string{c.User, c.Client, c.Issuer, c.Name, c.Original, c.File}, c.Groups...),
		record.Cut):
		return untold(untoldCut)
	case r.draft.SignIn && c.Issuer == "":
		return untold(untoldSignIn)
	case r.draft.SignIn && !slices.Contains(r.draft.Issuers, c.Issuer):
		return refused("the draft does not trust the issuer")
	case c.View != "" && !r.draft.hasView(c.View):
		return refused("the draft has no view " + c.View)
	case c.Decision == unknown && r.cfg.SameServers:
		return verdict{Side: Side{Decision: unknown}}
	case c.Decision == unknown:
		return untold(untoldName)
	case c.Thing == "" || c.Upstream == "" || c.Original == "":
		return untold(untoldThing)
	case !slices.Contains(r.draft.Upstreams, c.Upstream):
		return verdict{Side: Side{Decision: unknown, Why: "the draft has no server " + c.Upstream}}
	}
	now := r.draft.review(ctx, r.past(c, r.draft))
	var held *policy.Outlook
	if r.current != nil {
		held = r.current.review(ctx, r.past(c, r.current))
	}
	if !now.Certain {
		if r.sameRules(c, now, held) {
			return verdict{Side: Side{Decision: c.Decision, Rule: c.Rule, At: r.draft.at(c.Rule)}}
		}
		return untold(without(now.Missing))
	}
	if now.Effect != policy.Deny && slices.Contains(r.draft.Hides, c.Upstream) &&
		!(r.current != nil && slices.Contains(r.current.Hides, c.Upstream)) {
		return untold(untoldPin)
	}
	v := verdict{Side: Side{Decision: now.Effect.String()}, unclear: !now.RuleCertain, unchecked: now.Unchecked}
	switch {
	case now.RuleCertain && now.Rule != "":
		v.Rule, v.At = now.Rule, r.draft.at(now.Rule)
	case now.RuleCertain:
		v.Why = "no rule: the default, or the view"
	}
	return v
}

func refused(why string) verdict {
	return verdict{Side: Side{Decision: policy.Deny.String(), Why: why}}
}

// past returns the known facts of a call, under rules with or without sign-in.
func (r *Replay) past(c *record.Record, s *side) policy.Past {
	p := policy.Past{
		Caller:   mcp.Caller{View: c.View},
		SignedIn: s.SignIn,
		Target:   mcp.Target{Kind: c.Thing, Upstream: c.Upstream, Name: c.Original, File: c.File},
	}
	if s.SignIn {
		p.Caller = mcp.NewCaller(mcp.Caller{Issuer: c.Issuer, Subject: c.User, ClientID: c.Client,
			Groups: c.Groups, View: c.View})
	}
	p.Arguments, p.ArgumentsKnown = r.arguments(c)
	return p
}

// arguments returns those of a call, if the record has all of them.
func (r *Replay) arguments(c *record.Record) (arguments mcp.Raw, known bool) {
	switch {
	case c.Thing != mcp.KindTools && c.Thing != mcp.KindPrompts:
		return nil, true
	case r.cfg.NoArguments:
		return nil, false
	case c.ArgumentsDigest == "":
		return nil, true // there were none
	}
	for _, text := range []mcp.Raw{c.Arguments, mcp.Raw("{}"), mcp.Raw("null")} {
		if text != nil && r.cfg.Key.Arguments(text) == c.ArgumentsDigest {
			return text, true
		}
	}
	return nil, false
}

// sameRules reports whether the rules that could decide on a call are those in force, and the one
// that did is among them. Their decision is not known then, but it is the same now.
func (r *Replay) sameRules(c *record.Record, now, held *policy.Outlook) bool {
	if held == nil || !r.cfg.SameSignIn || slices.Contains(r.draft.Hides,
		c.Upstream) != slices.Contains(r.current.Hides, c.Upstream) {
		return false
	}
	return r.draft.Policy.Default == r.current.Policy.Default && r.draft.SignIn == r.current.SignIn &&
		slices.Contains(r.current.Upstreams, c.Upstream) &&
		(c.Rule == "" || r.draft.mayDecide(now, c.Rule)) &&
		reflect.DeepEqual(r.draft.view(c.View), r.current.view(c.View)) &&
		slices.Equal(r.draft.deciding(now), r.current.deciding(held))
}

// without describes the missing parts of a record.
func without(missing policy.Missing) string {
	var names []string
	for _, m := range missingOf {
		if missing&m.what != 0 {
			names = append(names, m.why)
		}
	}
	return "a rule looks at what is not recorded: " + strings.Join(names, ", ")
}
