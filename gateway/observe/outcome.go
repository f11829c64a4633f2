package observe

import (
	"context"
	"errors"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// outcome is the kind of a call's end.
type outcome uint8

const (
	outcomeOK          outcome = iota // with a result
	outcomeToolError                  // with a result of the tool that says isError
	outcomeAsk                        // the client was asked, and makes another request to answer
	outcomeCancelled                  // its caller has left
	outcomeNotApproved                // it was not approved
	outcomeSignIn                     // its user has to sign in at the upstream first
	outcomeInvalid                    // the caller's error: invalid params, or a name that does not exist for it
	outcomeLimited                    // by a limit of the gateway or of the upstream
	outcomeUpstream                   // the upstream failed
	outcomeUnavailable                // the gateway is temporarily unable
	outcomeError                      // any other error that the client may read
	outcomeInternal                   // a failure of the gateway
)

// outcomes are the label values.
var outcomes = [...]string{"ok", "tool-error", "ask", "cancelled", "not-approved", "sign-in-needed", "invalid",
	"limited", "upstream", "unavailable", "error", "internal"}

func outcomeOf(ctx context.Context, c *mcp.Call, reply *mcp.Reply, err error) outcome {
	switch {
	case err != nil:
	case reply != nil && reply.Ask != nil:
		return outcomeAsk
	case c.Verdict != nil && c.Verdict.ToolError:
		return outcomeToolError
	default:
		return outcomeOK
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return outcomeCancelled
	}
	e, ok := errors.AsType[*mcp.Error](err)
	if !ok {
		return outcomeInternal
	}
	switch e.Name {
	case failure.SignInNeeded:
		return outcomeSignIn
	case failure.ApprovalDeclined, failure.ApprovalRefused, failure.ApprovalTimeout, failure.ApprovalImpossible:
		return outcomeNotApproved
	}
	switch e.Code {
	case mcp.CodeParse, mcp.CodeInvalidRequest, mcp.CodeMethodNotFound, mcp.CodeInvalidParams, mcp.CodeResourceNotFound,
		mcp.CodeHeaderMismatch, mcp.CodeMissingCapability, mcp.CodeUnsupportedVersion:
		return outcomeInvalid
	case mcp.CodeRateLimited:
		return outcomeLimited
	case mcp.CodeUpstreamUnreachable, mcp.CodeUpstreamBadAnswer, mcp.CodeUpstreamAnswerTooLarge,
		mcp.CodeUpstreamAuthFailed,
		mcp.CodeUpstreamSessionLost, mcp.CodeUpstreamTimeout:
		return outcomeUpstream
	case mcp.CodeDraining, mcp.CodeOverloaded, mcp.CodeStoreUnavailable, mcp.CodeIssuerUnavailable,
		mcp.CodeHookUnavailable:
		return outcomeUnavailable
	}
	return outcomeError
}
