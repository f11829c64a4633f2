package mcp

import (
	"errors"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
)

// Verdict collects what the stages of a call know of it: each notes what it did. Policy's part
// stays zero for a call that needs no decision, such as a list.
type Verdict struct {
	// Target is what the call's name stands for, zero for an unknown name.
	Target Target
	// Effect is "allow", "ask", "deny", or "unknown" for a name that does not exist.
	Effect string
	// Rule is the name of the deciding rule, "" for the default.
	Rule string
	// Approval is the outcome of a question to the user: "asked", "approved", "held" (an earlier approval
	// holds), "declined", "unanswered", or "impossible" for a client that cannot ask; or to an approver:
	// "waiting", "approved", "refused", or "expired" without a decision in time. "" if there was none.
	Approval string
	// Approver is the approver who decided, a subject.
	Approver string
	// Hooks are the hooks that ran for the call, in their order.
	Hooks []HookRun

	// Reached counts how often the call was written to its server, in all rounds.
	Reached int
	// Executed says whether the call ran at its server. "" stands for ExecutedNo.
	Executed Executed
	// Explained says why conditions on the arguments made the decision what it is, with values that
	// records may have; nil if it does not depend on arguments.
	Explained []string
	// ServerError is the text of the server's own error, as it came; "" for none.
	ServerError string
	// ToolError says that the tool itself failed: its result says isError.
	ToolError bool
	// Waiting is when the call began to wait for an approver, zero if it never did.
	Waiting time.Time
	// Waited is how long the user took to answer questions.
	Waited time.Duration
	// Reason says why the call ended before its answer, "" if it did not.
	Reason string
}

// Decided notes a decision: Target, Effect, Rule and Explained. What the call did in earlier rounds
// stays.
func (v *Verdict) Decided(d Verdict) {
	if v != nil {
		d.Hooks, d.Reached, d.Executed, d.Waiting, d.Waited, d.Reason = v.Hooks, v.Reached, v.Executed, v.Waiting,
			v.Waited, v.Reason
		*v = d
	}
}

// Ended notes why a call ended before its answer. The first reason stands.
func (v *Verdict) Ended(reason string) {
	if v != nil && v.Reason == "" {
		v.Reason = reason
	}
}

// Answered notes what a server has made of a call that Reached it. A call that may have run in an
// earlier round does not become one that has not.
func (v *Verdict) Answered(method string, reply *Reply, err error) {
	if v == nil || v.Reached == 0 {
		return
	}
	switch e, ok := errors.AsType[*Error](err); {
	case err == nil && reply != nil && reply.Ask == nil:
		v.Executed = ExecutedYes
		says, _ := reply.Outline.Member(reply.Result, "isError")
		if v.ToolError = method == MethodToolsCall && says.IsTrue(); v.ToolError {
			v.ServerError = firstText(reply.Result)
		}
	case ok && e.Executed() == ExecutedNo: // no more than before
	case v.Executed != ExecutedYes:
		v.Executed = ExecutedUnknown
	}
	if e, ok := errors.AsType[*Error](err); ok && e.Name == failure.Upstream {
		v.ServerError = e.Message
	}
}

// firstText returns the first text in the result of a tool.
func firstText(result Raw) (text string) {
	content, _ := result.Member("content")
	content.Elements(func(item Raw) bool {
		text = item.At("text").Text()
		return text == ""
	})
	return text
}

// HookRun is the run of a hook for a call.
type HookRun struct {
	Name string
	// On is "arguments" or "results".
	On string
	// Action is "pass", "change", "refuse", or, for a hook that could not judge, "fail_open" if
	// the content has passed and "fail_closed" if it was refused.
	Action string
	Took   time.Duration
}
