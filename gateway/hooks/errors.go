package hooks

import (
	"errors"
	"strconv"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// errPushed is for pushed content: no service judges it. The client gets it when it asks.
var errPushed = errors.New("hooks: nobody waits for it")

// stopped returns the part of a call that was stopped, and whether the call has run.
func (r *run) stopped(to side, kind string) (what string, ran mcp.Executed) {
	switch {
	case kind == kindArguments && len(r.call.Round) > 0: // it began before it asked
		return "these arguments", mcp.ExecutedUnknown
	case kind == kindArguments:
		return "these arguments", mcp.ExecutedNo
	case kind == kindResult:
		return "the result", mcp.ExecutedYes
	case to == toServer:
		return "this answer", mcp.ExecutedUnknown
	}
	return "what the server says", mcp.ExecutedUnknown
}

// refusal returns the error for content that a hook refuses.
func (r *run) refusal(to side, kind, why string) error {
	what, ran := r.stopped(to, kind)
	return mcp.Errorf(failure.HookRefused, "A guardrail of the gateway refuses %s: %s", what, why).
		WithData(executed(ran, false).With("reason", mcp.String(why)))
}

// outage returns the error for content that a hook could not judge.
func (r *run) outage(to side, kind, name, why string) error {
	what, ran := r.stopped(to, kind)
	e := mcp.Errorf(failure.HookDown, "A guardrail of the gateway could not look at %s, and nothing passes without it",
		what).
		WithData(executed(ran, ran == mcp.ExecutedNo))
	e.Cause = name + ": " + why
	return e
}

func executed(ran mcp.Executed, retryable bool) mcp.Raw {
	return mcp.Object("retryable", mcp.Raw(strconv.FormatBool(retryable)), "executed", mcp.String(string(ran)))
}
