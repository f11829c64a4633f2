package mcp

import (
	"encoding/json"
	"slices"
)

// Round is the state that a call brings back with its client's answers. It is a stack of frames:
// each stage that asks, or that has to know the call again, puts one on top of those of the stages
// below it, and takes it off when the call comes back. So no stage takes what another one or a
// server says for its own. The endpoint seals a Round into the requestState of stateless clients
// (2026-07-28 basic/patterns/mrtr). A Round is immutable. None stands for a call that has not asked
// yet, and for one that is asked without a state.
type Round []Frame

// Frame is what one stage keeps of a call between two of its rounds.
type Frame struct {
	Kind FrameKind `json:"k"`
	// Value is the stage's own text.
	Value string `json:"v,omitempty"`
}

// FrameKind says which stage takes a frame, and for what.
type FrameKind string

// Kinds of frames, from the outermost stage to the server.
const (
	FrameCounted  FrameKind = "counted"  // limits have counted the call; Value is a nonce
	FrameAsked    FrameKind = "asked"    // policy asks the user; Value is a nonce
	FrameApproved FrameKind = "approved" // the user has approved of the call; Value is a nonce
	FrameSignIn   FrameKind = "sign-in"  // the user signs in at the server; Value is a ticket
	FrameServer   FrameKind = "server"   // the server asks; Value is its requestState
	FrameParked   FrameKind = "parked"   // the call waits at this replica; Value is its handle
	FrameRoots    FrameKind = "roots"    // the call begins when the roots are known
	FramePages    FrameKind = "pages"    // the call begins again when the user was at pages; Value is their ids
	FrameTask     FrameKind = "task"     // the call waits for a task; Value says which, and what was answered
)

// NewRound returns a Round with one frame.
func NewRound(kind FrameKind, value string) Round { return Round{{kind, value}} }

// Push returns the round with a frame on top.
func (r Round) Push(kind FrameKind, value string) Round {
	return append(slices.Clip(r), Frame{kind, value})
}

// Top returns the frame on top, the zero Frame if there is none.
func (r Round) Top() Frame {
	if len(r) == 0 {
		return Frame{}
	}
	return r[len(r)-1]
}

// Pop takes off the frame on top, if it has this kind: it returns its value and the round below.
func (r Round) Pop(kind FrameKind) (value string, below Round, ok bool) {
	top := r.Top()
	switch {
	case top.Kind != kind:
		return "", r, false
	case len(r) == 1:
		return top.Value, nil, true
	}
	return top.Value, r[:len(r)-1], true
}

// String returns the round in JSON, "" for none.
func (r Round) String() string {
	if len(r) == 0 {
		return ""
	}
	text, _ := json.Marshal(r) // strings always have a form in JSON
	return string(text)
}
