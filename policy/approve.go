package policy

import (
	"context"
	"errors"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	// approvalKey is the key of the gateway's question. approveMember is the member of the
	// form that has to be true.
	approvalKey   = mcp.OwnKey + "approval"
	approveMember = "approve"
	heldKey       = "held"
)

// approve lets an approved call through, and asks about any other. An approval is bound to
// the digest of one call of one user. The call uses it up, unless the rule lets approvals
// last for a time.
func (g *Guard) approve(ctx context.Context, c *mcp.Call, next mcp.Handler, target mcp.Target, d Decision) (*mcp.Reply, error) {
	round, err := openState(c.State)
	if err != nil {
		return nil, err
	}
	digest := digestOf(c, target)
	switch round.kind {
	case approved:
		ok, err := g.recall(ctx, c, round, digest)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, expired()
		}
		return g.pass(ctx, c, next, target, round, digest)
	case relayed: // it began when the rules let it pass without being asked
		return nil, expired()
	}
	if d.ApproveFor > 0 {
		held, err := g.approvals.Has(ctx, c.Caller.User(), heldKey+digest)
		if err != nil {
			return nil, unavailable(err)
		}
		if held {
			approval(c, "held")
			return g.pass(ctx, c, next, target, round, digest)
		}
	}
	if round.kind != asked {
		return g.askUser(ctx, c, target, d, digest)
	}
	ok, err := g.recall(ctx, c, round, digest)
	if err != nil {
		return nil, err
	}
	if !ok {
		return g.askUser(ctx, c, target, d, digest)
	}
	switch answerOf(c) {
	case accepted:
		g.metrics.approved.Inc()
		approval(c, "approved")
		if d.ApproveFor > 0 {
			if err := g.approvals.Put(ctx, c.Caller.User(), heldKey+digest, digest, d.ApproveFor); err != nil {
				return nil, unavailable(err)
			}
		}
		return g.pass(ctx, c, next, target, round, digest)
	case declined:
		g.metrics.declined.Inc()
		approval(c, "declined")
		return refuse(c, failure.ApprovalDeclined, "The user did not approve of this call, so it did not run. Do not make it again unless the user asks for it.", "declined")
	}
	return g.askUser(ctx, c, target, d, digest)
}

// approval reports to the observer of a call what became of the question to its user.
func approval(c *mcp.Call, what string) {
	if c.Verdict != nil {
		c.Verdict.Approval = what
	}
}

// askUser puts the approval to the user, if the client can ask.
func (g *Guard) askUser(ctx context.Context, c *mcp.Call, target mcp.Target, d Decision, digest string) (*mcp.Reply, error) {
	if !canAsk(c.Caps) {
		g.metrics.cannot.Inc()
		approval(c, "impossible")
		return cannotAsk(c)
	}
	state, err := g.remember(ctx, c, asked, digest, "")
	if err != nil {
		return nil, err
	}
	g.metrics.asked.Inc()
	approval(c, "asked")
	params := mcp.Object(
		"message", mcp.String(question(target, c, d.ApproveFor)),
		"requestedSchema", mcp.Raw(`{"type":"object","properties":{"`+approveMember+`":{"type":"boolean","title":"Let this call run","default":true}},"required":["`+approveMember+`"]}`))
	return &mcp.Reply{Ask: &mcp.Ask{
		Requests: []mcp.InputRequest{{Key: approvalKey, Method: mcp.MethodElicit, Params: params}},
		State:    state,
	}}, nil
}

// canAsk reports whether a client declared forms. Elicitation without modes means forms
// (2025-11-25 client/elicitation).
func canAsk(caps mcp.Raw) bool {
	elicitation, _ := caps.Member("elicitation")
	if !elicitation.IsObject() {
		return false
	}
	_, form := elicitation.Member("form")
	_, url := elicitation.Member("url")
	return form || !url
}

// cannotAsk refuses a call whose client cannot ask the user. A stateless client gets the
// protocol's code for a missing capability, with the capability that it would have to
// declare.
func cannotAsk(c *mcp.Call) (*mcp.Reply, error) {
	const why = "This call needs the user's approval, and this client cannot ask for it: it does not declare elicitation with forms. " +
		"It did not run. Use a client that supports elicitation, or have the operator of the gateway change the rule."
	if c.Ephemeral {
		return nil, mcp.Errorf(failure.ApprovalImpossible, why).WithCode(mcp.CodeMissingCapability).
			WithData(mcp.Object("requiredCapabilities", mcp.Raw(`{"elicitation":{"form":{}}}`)))
	}
	return refuse(c, failure.ApprovalImpossible, why, "cannot_ask")
}

// refuse ends a call that was not approved: for a tool with a result that a model can read,
// for anything else with an error.
func refuse(c *mcp.Call, name failure.Name, why, reason string) (*mcp.Reply, error) {
	if c.Method == mcp.MethodToolsCall {
		block := mcp.Object("type", mcp.Raw(`"text"`), "text", mcp.String(why))
		return &mcp.Reply{Result: mcp.Object("content", mcp.Raw("["+string(block)+"]"), "isError", mcp.Raw("true"))}, nil
	}
	return nil, mcp.Errorf(name, "%s", why).
		WithData(mcp.Object("reason", mcp.String(reason), "retryable", mcp.Raw("false"), "executed", mcp.String(string(mcp.ExecutedNo))))
}

type answer uint8

const (
	unanswered answer = iota // or the answer is malformed
	accepted
	declined
)

// answerOf reads the answer to the gateway's question. Only a clear yes counts as accepted.
func answerOf(c *mcp.Call) answer {
	if c.Refused[approvalKey] != nil {
		return declined
	}
	result := c.Answers[approvalKey]
	action, _ := result.Member("action")
	switch action.Text() {
	case "decline", "cancel":
		return declined
	case "accept":
	default:
		return unanswered
	}
	content, _ := result.Member("content")
	values, _, err := readObject(content)
	if err != nil {
		return unanswered
	}
	if values[approveMember] == true {
		return accepted
	}
	return declined
}

// unavailable is the error for a store that does not answer.
func unavailable(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return mcp.Errorf(failure.StoreDown, "Approvals are not available now: try again in a minute").
		WithData(mcp.Object("retryable", mcp.Raw("true"), "executed", mcp.String(string(mcp.ExecutedNo))))
}
