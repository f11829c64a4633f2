package dialect

import (
	"slices"
	"strings"
)

// Kind says who takes the retry that has a State.
type Kind string

// Kinds of states.
const (
	ServerState Kind = "server" // the server, whose own text the value is
	ParkedState Kind = "parked" // the call that waits at a handle
	RootsState  Kind = "roots"  // the call itself, once the questions for roots are answered
	AnewState   Kind = "anew"   // the call itself, once the user is done at pages of these ids
	TaskState   Kind = "task"   // the call that waits for a task
)

var ownKinds = []Kind{ServerState, ParkedState, RootsState, AnewState, TaskState}

// State is what an mcp.Ask.State of an upstream says. A server's text stands in Value alone,
// so that it cannot pass for a state of the gateway's.
type State struct {
	Kind  Kind
	Value string
}

// ParseState reads a state: what has no kind is a server's.
func ParseState(text string) State {
	if kind, value, ok := strings.Cut(text, ":"); ok && slices.Contains(ownKinds, Kind(kind)) {
		return State{Kind(kind), value}
	}
	return State{ServerState, text}
}

// String writes a state. A server's own is written with its kind only where it would be read
// as another one.
func (s State) String() string {
	if s.Kind == ServerState && ParseState(s.Value) == s {
		return s.Value
	}
	return string(s.Kind) + ":" + s.Value
}
