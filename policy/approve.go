package policy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/policy/foureyes"
)

const (
	// approvalKey is the key of the gateway's question. approveMember is the member of the
	// form that has to be true.
	approvalKey   = mcp.OwnKey + "approval"
	approveMember = "approve"
	heldKey       = "held"
	// maxReason bounds what the caller reads of an approver's reason, in bytes before escaping.
	maxReason = 500
)

// approve lets an approved call through, and asks about any other. An approval is bound to
// the digest of one call of one user. The call uses it up, unless the rule lets approvals
// last for a time.
func (g *Guard) approve(ctx context.Context, c *mcp.Call, next mcp.Handler, target mcp.Target,
	d Decision) (*mcp.Reply, error) {
	round, digest := roundOf(c), digestOf(c, target)
	switch {
	case round.kind == mcp.FrameApproved:
		ok, err := g.recall(ctx, c, round, digest)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, mcp.ErrRound()
		}
		return g.pass(ctx, c, next, target, round, digest)
	case round.kind == "" && len(round.inner) > 0: // it began when the rules let it pass without being asked
		return nil, mcp.ErrRound()
	}
	if !d.asksUser() {
		return g.second(ctx, c, next, target, d, round, digest)
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
	if round.kind != mcp.FrameAsked {
		return g.askUser(ctx, c, target, d, digest)
	}
	ok, err := g.recall(ctx, c, round, digest)
	if err != nil {
		return nil, err
	}
	if !ok {
		return g.askUser(ctx, c, target, d, digest)
	}
	switch answer := answerOf(c); answer {
	case accepted:
		g.metrics.approved.Inc()
		approval(c, "approved")
		if d.ApproveFor > 0 {
			if err := g.approvals.Put(ctx, c.Caller.User(), heldKey+digest, digest, d.ApproveFor); err != nil {
				return nil, unavailable(err)
			}
		}
		if d.FourEyes != nil {
			return g.second(ctx, c, next, target, d, round, digest)
		}
		return g.pass(ctx, c, next, target, round, digest)
	case declined, dismissed:
		said, count := "declined", g.metrics.declined
		if answer == dismissed {
			said, count = "unanswered", g.metrics.unanswered
		}
		count.Inc()
		approval(c, said)
		return refuse(failure.ApprovalDeclined, "The user did not approve of this call, so it did not run. "+
			"Do not make it again unless the user asks for it.", said)
	}
	return g.askUser(ctx, c, target, d, digest)
}

// asksUser reports whether the user of a call is asked.
func (d Decision) asksUser() bool { return d.FourEyes == nil || d.FourEyes.UserToo }

// whoApproves names the approvers that a call needs.
func (d Decision) whoApproves() string {
	switch {
	case d.FourEyes == nil:
		return "the user approves"
	case d.FourEyes.UserToo:
		return "the user and somebody else approve"
	}
	return "somebody else approves"
}

// second lets a call wait until another user decides on it.
func (g *Guard) second(ctx context.Context, c *mcp.Call, next mcp.Handler, target mcp.Target, d Decision, r round,
	digest string) (*mcp.Reply, error) {
	approval(c, "waiting")
	waits := &foureyes.Call{
		ID: c.ID, Issuer: c.Caller.Issuer, User: c.Caller.Subject, Client: c.Caller.ClientID, View: c.Caller.View,
		Method: c.Method,
		Name:   c.Name, Upstream: target.Upstream, Original: target.Name, File: target.File,
		Rules: d.FourEyes.Rules, Digest: digest,
	}
	waits.Arguments, waits.Others = sent(c)
	told := 0
	reign, end := g.lasting.While(ctx, &c.Caller)
	defer end()
	reign, stop := context.WithCancelCause(reign)
	defer stop(nil)
	defer context.AfterFunc(g.reign, func() { stop(foureyes.ErrRestart) })()
	waiting := c.Trail.Begin("approval", "")
	verdict, err := g.fourEyes.Wait(reign, c.Caller.User(), waits, d.FourEyes.left(c), func() {
		// Fractions leave the whole numbers to the progress of the server.
		c.Notify(mcp.Event{Method: mcp.NoteProgress, Params: mcp.Object(
			"progress", mcp.Raw(fmt.Sprintf("0.%06d", told)), "message",
			mcp.String("Waiting for somebody else to approve of this call"))})
		told++
	})
	waiting.End("")
	switch {
	case errors.Is(err, foureyes.ErrExpired):
		approval(c, "expired")
		return refuse(failure.ApprovalTimeout, "Somebody else has to approve of this call, and nobody did within "+
			d.FourEyes.Timeout.String()+", so it did not run. ("+failure.ApprovalTimeout.String()+")", "approval_timeout")
	case errors.Is(err, foureyes.ErrFull):
		return nil, notRun(mcp.Errorf(failure.TooManyApprovals,
			"Too many calls wait for approval: try again when some of them have ended"))
	case errors.Is(err, foureyes.ErrClosed):
		return nil, notRun(mcp.Errorf(failure.Stopping, "the gateway is stopping: try again"))
	case errors.Is(err, foureyes.ErrRestart):
		return nil, mcp.UpstreamError(failure.UpstreamClosing, target.Upstream, mcp.ExecutedNo,
			"the configuration has changed: try again")
	case err != nil && context.Cause(reign) == mcp.ErrOver:
		approval(c, "expired")
		return nil, notRun(mcp.Errorf(failure.TokenExpired,
			"what this call came with has expired or was withdrawn while it waited, so it did not run: make it again with a new token or key"))
	case err != nil:
		return nil, err
	}
	if c.Verdict != nil {
		c.Verdict.Approver = verdict.By.Subject
	}
	if !verdict.Approve {
		approval(c, "refused")
		why := "Somebody who has to approve of this call has refused it, so it did not run. Do not make it again unless the user asks for it."
		if verdict.Reason != "" {
			why += " The reason given: " + shown(verdict.Reason, maxReason)
		}
		return refuse(failure.ApprovalRefused, why+" ("+failure.ApprovalRefused.String()+")", "refused")
	}
	approval(c, "approved")
	return g.pass(ctx, c, next, target, r, digest)
}

// left is how long a call may wait. The time runs on if the rules change during the wait.
func (s *FourEyes) left(c *mcp.Call) time.Duration {
	if c.Verdict == nil {
		return s.Timeout
	}
	if c.Verdict.Waiting.IsZero() {
		c.Verdict.Waiting = time.Now()
	}
	return s.Timeout - time.Since(c.Verdict.Waiting)
}

// sent copies what a server gets of a call's params: the arguments, and everything else.
func sent(c *mcp.Call) (arguments mcp.Raw, others []foureyes.Other) {
	eachSent(c, func(in, name string, value mcp.Raw) {
		if in == "" && name == "arguments" && arguments == nil {
			arguments = bytes.Clone(value)
			return
		}
		others = append(others, foureyes.Other{In: in, Name: name, Value: bytes.Clone(value)})
	})
	return arguments, others
}

// notRun notes in an error that the call did not run, and that it helps to make it again.
func notRun(e *mcp.Error) *mcp.Error {
	return e.WithData(mcp.Object("retryable", mcp.Raw("true"), "executed", mcp.String(string(mcp.ExecutedNo))))
}

// approval reports the outcome of the question to a call's user to the observer of the call.
func approval(c *mcp.Call, what string) {
	if c.Verdict != nil {
		c.Verdict.Approval = what
	}
}

// askUser puts the approval to the user, if the client can ask.
func (g *Guard) askUser(ctx context.Context, c *mcp.Call, target mcp.Target, d Decision,
	digest string) (*mcp.Reply, error) {
	if !canAsk(c.Caps) {
		g.metrics.cannot.Inc()
		approval(c, "impossible")
		return cannotAsk(c)
	}
	round, err := g.remember(ctx, c, mcp.FrameAsked, digest, nil)
	if err != nil {
		return nil, err
	}
	g.metrics.asked.Inc()
	approval(c, "asked")
	params := mcp.Object(
		"message", mcp.String(question(target, c, d.ApproveFor)),
		"requestedSchema", mcp.Raw(`{"type":"object","properties":{"`+approveMember+
			`":{"type":"boolean","title":"Let this call run","default":true}},"required":["`+approveMember+`"]}`))
	return &mcp.Reply{Ask: &mcp.Ask{
		Requests: []mcp.InputRequest{{Key: approvalKey, Method: mcp.MethodElicit, Params: params}},
		Round:    round,
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

// cannotAsk refuses a call if its client cannot ask the user. A stateless client gets the
// protocol's code for a missing capability, with the capability that it would have to declare.
func cannotAsk(c *mcp.Call) (*mcp.Reply, error) {
	const why = "This call needs the user's approval, and this client cannot ask for it: it does not declare elicitation with forms. " +
		"It did not run. Use a client that supports elicitation, or have the operator of the gateway change the rule."
	if c.Ephemeral {
		return nil, mcp.Errorf(failure.ApprovalImpossible, why).WithCode(mcp.CodeMissingCapability).
			WithData(mcp.Object("requiredCapabilities", mcp.Raw(`{"elicitation":{"form":{}}}`)))
	}
	return refuse(failure.ApprovalImpossible, why, "cannot_ask")
}

// refuse ends a call that was not approved.
func refuse(name failure.Name, why, reason string) (*mcp.Reply, error) {
	e := mcp.Errorf(name, "%s", why).
		WithData(mcp.Object("reason", mcp.String(reason), "retryable", mcp.Raw("false"), "executed",
			mcp.String(string(mcp.ExecutedNo))))
	e.AsResult = true
	return nil, e
}

type answer uint8

const (
	unanswered answer = iota // or the answer is malformed
	accepted
	declined
	dismissed // without a choice, or not answered in time
)

// answerOf reads the answer to the gateway's question. Only a clear yes counts as accepted.
func answerOf(c *mcp.Call) answer {
	if c.Refused[approvalKey] != nil {
		return dismissed
	}
	result := c.Answers[approvalKey]
	action, _ := result.Member("action")
	switch action.Text() {
	case "decline":
		return declined
	case "cancel":
		return dismissed
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
	return notRun(mcp.Errorf(failure.StoreDown, "Approvals are not available now: try again in a minute"))
}
