package dialect

import (
	"slices"
	"strings"
)

// Kind says what takes the retry that carries a State.
type Kind string

// Kinds of State.
const (
	ServerState Kind = "server" // the server; the value is the server's own text
	ParkedState Kind = "parked" // the parked call with the handle in the value
	RootsState  Kind = "roots"  // the call itself, once the questions for roots are answered
	AnewState   Kind = "anew"   // the call itself, once the user is done at the pages with these ids
	TaskState   Kind = "task"   // the call that waits for a task
)

var ownKinds = []Kind{ServerState, ParkedState, RootsState, AnewState, TaskState}

// State is the meaning of an mcp.Ask.State of an upstream. Server text appears only in
// Value, so that it cannot pass for a state of the gateway's.
type State struct {
	Kind  Kind
	Value string
}

// ParseState parses a state. Text without a kind is a server's.
func ParseState(text string) State {
	if kind, value, ok := strings.Cut(text, ":"); ok && slices.Contains(ownKinds, Kind(kind)) {
		return State{Kind(kind), value}
	}
	return State{ServerState, text}
}

// String encodes a state. A server's own text gets its kind only if it would otherwise be
// parsed as another kind.
func (s State) String() string {
	if s.Kind == ServerState && ParseState(s.Value) == s {
		return s.Value
	}
	return string(s.Kind) + ":" + s.Value
}
