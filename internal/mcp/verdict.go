package mcp

import "time"

// Verdict is the decision of policy on a call. It stays zero for a call that needs no
// decision, such as a list.
type Verdict struct {
	// Target is what the call's name stands for, zero for an unknown name.
	Target Target
	// Effect is "allow", "ask", "deny", or "unknown" for a name that does not exist.
	Effect string
	// Rule is the name of the deciding rule, "" for the default.
	Rule string
	// Approval is what became of a question to the user: "asked", "approved", "held" (an
	// earlier approval holds), "declined", or "impossible" for a client that cannot ask; or to
	// somebody else: "waiting", "approved", "refused", or "expired" if nobody decided in time.
	// "" if there was none.
	Approval string
	// Approver is the somebody else who decided, a subject.
	Approver string
	// Hooks are the hooks that ran for the call, in their order.
	Hooks []HookRun
}

// HookRun is what a hook did for a call.
type HookRun struct {
	Name string
	// On is "arguments" or "results".
	On string
	// Action is "pass", "change", "refuse", or, for a hook that could not judge, "fail_open" if
	// the content has passed and "fail_closed" if it was refused.
	Action string
	Took   time.Duration
}
