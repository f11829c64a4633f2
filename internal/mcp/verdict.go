package mcp

// Verdict is what policy decided about a call. The zero Verdict is that of a call that
// names nothing to decide about, such as a list.
type Verdict struct {
	// Target is what the call's name stands for, zero for an unknown name.
	Target Target
	// Effect is "allow", "ask", "deny", or "unknown" for a name that stands for nothing.
	Effect string
	// Rule is the name of the rule that decided, "" for the default.
	Rule string
}
