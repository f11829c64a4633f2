package observe

import (
	"context"
	"errors"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// outcome is how a call ended.
type outcome uint8

const (
	outcomeOK          outcome = iota // with a result, even that of a failed tool
	outcomeAsk                        // the user is asked first
	outcomeCancelled                  // its caller has left
	outcomeInvalid                    // the caller's error: invalid params, or a name that does not exist for the caller
	outcomeLimited                    // by a limit of ours or of the upstream
	outcomeUpstream                   // the upstream failed
	outcomeUnavailable                // the gateway is temporarily unable
	outcomeError                      // any other error that the client may read
	outcomeInternal                   // a failure of the gateway
)

// outcomes are the label values.
var outcomes = [...]string{"ok", "ask", "cancelled", "invalid", "limited", "upstream", "unavailable", "error", "internal"}

func outcomeOf(ctx context.Context, reply *mcp.Reply, err error) outcome {
	if err == nil {
		if reply != nil && reply.Ask != nil {
			return outcomeAsk
		}
		return outcomeOK
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return outcomeCancelled
	}
	e, ok := errors.AsType[*mcp.Error](err)
	if !ok {
		return outcomeInternal
	}
	switch e.Code {
	case mcp.CodeParse, mcp.CodeInvalidRequest, mcp.CodeMethodNotFound, mcp.CodeInvalidParams, mcp.CodeResourceNotFound,
		mcp.CodeHeaderMismatch, mcp.CodeMissingCapability, mcp.CodeUnsupportedVersion:
		return outcomeInvalid
	case mcp.CodeRateLimited:
		return outcomeLimited
	case mcp.CodeUpstreamUnreachable, mcp.CodeUpstreamBadAnswer, mcp.CodeUpstreamAnswerTooLarge, mcp.CodeUpstreamAuthFailed,
		mcp.CodeUpstreamSessionLost, mcp.CodeUpstreamTimeout:
		return outcomeUpstream
	case mcp.CodeDraining, mcp.CodeOverloaded, mcp.CodeStoreUnavailable, mcp.CodeIssuerUnavailable, mcp.CodeHookUnavailable:
		return outcomeUnavailable
	}
	return outcomeError
}
