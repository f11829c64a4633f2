package admin

import (
	"encoding/json"
	"errors"
	"io"
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

// Approval is a call that waits for somebody else's approval. Only those who may decide on it see
// the digest, the arguments and the other members.
type Approval struct {
	foureyes.Call
	// RulesAt are the places of the rules, file:line.
	RulesAt []string `json:"rules_at,omitempty"`
	// Mine says that whoever asked may decide on it.
	Mine bool `json:"mine"`
}

// Choice is a decision on a call that waits.
type Choice struct {
	Decision string `json:"decision"`
	Digest   string `json:"digest"` // of the call that was looked at
	Reason   string `json:"reason,omitempty"`
}

// Decided is the answer to a Choice: it was the first one, and counts.
type Decided struct {
	ID       string `json:"id"`
	Decision string `json:"decision"`
}

type approvals struct {
	Approvals []Approval `json:"approvals"`
	// Partial is why calls at other replicas may be missing, "" if they are not.
	Partial string `json:"partial,omitempty"`
}

// waitingCalls answers with the calls that wait.
func waitingCalls(a *API, x *exchange) error {
	var all []Approval
	shown, err := waiting(a, x)
	for _, s := range shown {
		one := Approval{Call: *s.Call, Mine: s.Mine}
		if !s.Mine {
			one.Digest, one.Arguments, one.Others = "", nil, nil
		}
		for _, rule := range one.Rules {
			if at := a.deps.RuleAt(rule); at != "" {
				one.RulesAt = append(one.RulesAt, at)
			}
		}
		all = append(all, one)
	}
	answer := approvals{Approvals: some(all)}
	if err != nil {
		answer.Partial = "Redis does not answer: calls that wait at other replicas may be missing"
	}
	return x.answer(answer)
}

// waiting returns the calls that whoever asks may see: an operator all of them.
func waiting(a *API, x *exchange) ([]foureyes.Shown, error) {
	own, err := a.deps.FourEyes.List(x.r.Context(), x.who.Person)
	if x.who.Person == nil || len(x.who.Roles) == 0 || err != nil {
		return own, err
	}
	mine := make(map[string]bool)
	for _, s := range own {
		mine[s.ID] = true
	}
	all, err := a.deps.FourEyes.List(x.r.Context(), nil)
	for i := range all {
		all[i].Mine = mine[all[i].ID]
	}
	return all, err
}

// decide decides on a call that waits.
func decide(a *API, x *exchange) error {
	body, err := io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, mostBody))
	var choice Choice
	if err == nil {
		err = json.Unmarshal(body, &choice)
	}
	switch {
	case err != nil:
		return refusal(http.StatusBadRequest, failure.AdminRequest, "the body is no decision")
	case choice.Decision != Approve && choice.Decision != Refuse:
		return refusal(http.StatusBadRequest, failure.AdminRequest, "decision: want approve or refuse")
	case len(choice.Reason) > mostReason:
		return refusal(http.StatusBadRequest, failure.AdminRequest, "reason: is longer than 500 bytes")
	}
	call, err := a.deps.FourEyes.Decide(x.r.Context(), x.r.PathValue("id"), choice.Digest, foureyes.Verdict{
		By: *x.who.Person, Approve: choice.Decision == Approve, Reason: choice.Reason,
	})
	switch {
	case errors.Is(err, foureyes.ErrUnknown):
		err = refusal(http.StatusNotFound, failure.AdminNotFound, err.Error())
	case errors.Is(err, foureyes.ErrOwn):
		err = refusal(http.StatusForbidden, failure.AdminApproval, err.Error())
	case errors.Is(err, foureyes.ErrAway):
		a.deps.Log.Warn("a decision cannot be kept", failure.StoreDown.Attr(), "error", err)
		return refusal(http.StatusServiceUnavailable, failure.StoreDown, foureyes.ErrAway.Error())
	case errors.Is(err, foureyes.ErrDigest):
		err = refusal(http.StatusConflict, failure.AdminApproval, err.Error())
	}
	if err != nil {
		a.refused(x, err)
		return err
	}
	noteDecision(a, x, call, choice)
	return x.answer(Decided{call.ID, choice.Decision})
}

// noteDecision records a decision.
func noteDecision(a *API, x *exchange, c *foureyes.Call, choice Choice) {
	event := map[string]string{Approve: "approved", Refuse: "refused"}[choice.Decision]
	rule, by := c.Rules[0], x.who.Person
	a.record(x, &record.Record{
		Kind: record.KindApproval, ID: c.ID, Event: event, Reason: choice.Reason,
		Issuer: by.Issuer, User: by.Subject, Groups: by.Groups, Client: by.ClientID, View: c.View,
		Method: c.Method, Name: c.Name, Upstream: c.Upstream, Original: c.Original, Rule: rule, RuleAt: a.deps.RuleAt(rule),
	})
	a.deps.Log.Info("somebody decided on a call of somebody else", "event", event, "call", c.ID, "approver", by.Subject, "rule", rule)
}
