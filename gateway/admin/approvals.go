package admin

import (
	"context"
	"errors"
	"net/http"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
	"github.com/gatehouse-mcp/gatehouse/policy/foureyes"
)

// mostReason bounds the reason of a decision, in bytes.
const mostReason = 500

// Values of Choice.Decision.
const (
	Approve = "approve"
	Refuse  = "refuse"
)

// Approval is a call that waits for another person's approval. Only those who may decide on it see
// the digest, the arguments and the other members.
type Approval struct {
	foureyes.Call
	// RulesAt are the places of the rules, file:line.
	RulesAt []string `json:"rules_at,omitempty"`
	// Mine says that the operator who asks may decide on it.
	Mine bool `json:"mine"`
}

// Choice is a decision on a waiting call.
type Choice struct {
	ID       string `json:"-"` // of the call
	Decision string `json:"decision"`
	Digest   string `json:"digest"` // of the call as it was shown
	Reason   string `json:"reason,omitempty"`
}

// Decided is the answer to a Choice: it was the first one, and counts.
type Decided struct {
	ID       string `json:"id"`
	Decision string `json:"decision"`
}

// Approvals are the waiting calls.
type Approvals struct {
	Approvals []Approval `json:"approvals"`
	// Partial is the reason why calls at other replicas may be missing, "" for none.
	Partial string `json:"partial,omitempty"`
}

// approvals returns the waiting calls.
func approvals(ctx context.Context, a *API, who Operator, _ None) (Approvals, error) {
	var all []Approval
	shown, err := waiting(ctx, a, who)
	for _, s := range shown {
		one := Approval{Call: *s.Call, Mine: s.Mine}
		if !s.Mine {
			one.Digest, one.Arguments, one.Others = "", nil, nil
		}
		for _, rule := range one.Rules {
			if at := a.deps.Configuration.RuleAt(rule); at != "" {
				one.RulesAt = append(one.RulesAt, at)
			}
		}
		all = append(all, one)
	}
	answer := Approvals{Approvals: some(all)}
	if err != nil {
		answer.Partial = "Redis does not answer: calls that wait at other replicas may be missing"
	}
	return answer, nil
}

// waiting returns the calls that an operator may see: all of them with a role.
func waiting(ctx context.Context, a *API, who Operator) ([]foureyes.Shown, error) {
	own, err := a.deps.FourEyes.List(ctx, who.Person)
	if who.Person == nil || len(who.Roles) == 0 || err != nil {
		return own, err
	}
	mine := make(map[string]bool)
	for _, s := range own {
		mine[s.ID] = true
	}
	all, err := a.deps.FourEyes.List(ctx, nil)
	for i := range all {
		all[i].Mine = mine[all[i].ID]
	}
	return all, err
}

func choice(x *exchange) (Choice, error) {
	c, err := body[Choice](mostBody)(x)
	c.ID = x.r.PathValue("id")
	return c, err
}

// decide decides on a waiting call.
func decide(ctx context.Context, a *API, who Operator, c Choice) (done Decided, err error) {
	switch {
	case c.Decision != Approve && c.Decision != Refuse:
		return done, BadRequest("decision: want approve or refuse")
	case len(c.Reason) > mostReason:
		return done, BadRequest("reason: is longer than 500 bytes")
	}
	call, err := a.deps.FourEyes.Decide(ctx, c.ID, c.Digest, foureyes.Verdict{
		By: *who.Person, Approve: c.Decision == Approve, Reason: c.Reason,
	})
	switch {
	case errors.Is(err, foureyes.ErrUnknown):
		err = refusal(http.StatusNotFound, failure.AdminNotFound, err.Error())
	case errors.Is(err, foureyes.ErrOwn):
		err = refusal(http.StatusForbidden, failure.AdminApproval, err.Error())
	case errors.Is(err, foureyes.ErrAway):
		a.deps.Log.Warn("a decision cannot be kept", failure.StoreDown.Attr(), "error", err)
		return done, refusal(http.StatusServiceUnavailable, failure.StoreDown, foureyes.ErrAway.Error())
	case errors.Is(err, foureyes.ErrDigest):
		err = refusal(http.StatusConflict, failure.AdminApproval, err.Error())
	}
	if err != nil {
		a.refused(who, err, http.MethodPost, Path+"v1/approvals/"+c.ID)
		return done, err
	}
	noteDecision(a, who, call, c)
	return Decided{call.ID, c.Decision}, nil
}

// noteDecision records a decision.
func noteDecision(a *API, who Operator, c *foureyes.Call, choice Choice) {
	event := map[string]string{Approve: "approved", Refuse: "refused"}[choice.Decision]
	rule, by := c.Rules[0], who.Person
	a.record(who, &record.Record{
		Kind:     record.KindApproval,
		ID:       c.ID,
		Event:    event,
		Reason:   choice.Reason,
		Issuer:   by.Issuer,
		User:     by.Subject,
		Groups:   by.Groups,
		Client:   by.ClientID,
		View:     c.View,
		Method:   c.Method,
		Name:     c.Name,
		Upstream: c.Upstream,
		Original: c.Original,
		Rule:     rule,
		RuleAt:   a.deps.Configuration.RuleAt(rule),
	})
	a.deps.Log.Info("somebody decided on a call of somebody else", "event", event, "call", c.ID, "approver",
		by.Subject, "rule", rule)
}
