package mcp

import "time"

// Call is one client request on its way in. A Call is not changed once it has been
// handed on: whoever needs another one copies it (see Call.Clone).
type Call struct {
	// ID is ours, the same in every round of one request; it is what logs, traces
	// and audit records carry. It never leaves as a JSON-RPC id.
	ID string
	// Method is the method's name, such as "tools/call".
	Method string
	// Name is the routing key of the method: the name of a tool or prompt, or a
	// resource's URI; for completion/complete the name or URI that its ref has.
	// Empty for methods without one. It wins over any name in Params.
	Name string
	// Target is what Name stands for, set by policy once it has decided that the caller
	// may: the catalog hands on nothing without it. Zero above policy, and for methods
	// without a Name.
	Target Target
	// Visible, set by policy for server/discover, subscriptions/listen and what is about
	// tasks, reports whether the caller may know of an upstream at all; nil for all of them.
	Visible func(upstream string) bool
	// Params is the params object as the client wrote it, _meta included; nil when
	// the client sent none.
	Params Raw
	// Caller is who calls.
	Caller Caller
	// Session is "user:session". A stateless client gets one derived from user and
	// client; calls that the gateway makes on its own behalf have "".
	Session string
	// Ephemeral says that Session was derived and nobody will end it: what is kept
	// for it goes by idle time.
	Ephemeral bool
	// Caps is what the client declared that it can be asked for: a ClientCapabilities
	// object, nil for none.
	Caps Raw
	// LogLevel is the least severe level of log messages that the caller wants, ""
	// when it never said.
	LogLevel string
	// ParamHeaders are the Mcp-Param-* headers of the request, by the name after
	// "Mcp-Param-" in lower case, still encoded; nil when the revision has none and
	// they are not to be checked (2026-07-28 basic/transports/streamable-http).
	ParamHeaders map[string]string
	// Tasks is the form of tasks that the client knows. Task, for tools/call, is the
	// member task of 2025-11-25: the call shall run as a task. The catalog sets it too,
	// for tools that run as nothing else; who does not know such tasks gets the result.
	Tasks TaskForm
	Task  Raw
	// Answers are, on a retry, the answers to Ask.Requests by their keys, Refused the
	// errors that a stateful client answered instead, and State is the Ask.State that
	// they belong to.
	Answers map[string]Raw
	Refused map[string]*Error
	State   string
	// Room is what the call holds of the memory for large messages, until its answer has
	// been written; nil for calls that are not counted.
	Room *Room
	// Verdict, where it is not nil, takes what policy decides: whoever observes the call
	// reads it once the call has been answered.
	Verdict *Verdict
	// Notify takes what happens before the reply: progress, log messages and, for
	// subscriptions/listen, the events. Never nil, safe for concurrent use, and it
	// does not keep the event's bytes after it returns. After the reply nothing comes
	// any more, unless that was an Ask: while it is being answered, the call goes on.
	Notify func(Event)
}

// Clone returns a copy that may be changed. Raw values and maps are shared.
func (c *Call) Clone() *Call {
	d := *c
	return &d
}

// Event is a notification on its way to the client. Params is as the server wrote
// it; the edge that delivers it puts in its own progress token or subscription id.
type Event struct {
	Method string
	Params Raw
	// Failed is, of NoteAcknowledged, why resources are not among those that are honoured,
	// by their URIs, where that is known. It goes no further than to the edge.
	Failed map[string]error
}

// Reply is the answer to a Call. Exactly one of Result, List and Ask is set.
type Reply struct {
	// Result is the result object as the server wrote it.
	Result Raw
	// Outline is that of a large Result, nil where there is none. Whoever puts another
	// Result in the place of this one may leave it.
	Outline *Outline
	// List is the answer of a list method, item by item.
	List *List
	// Ask says that the server wants input first.
	Ask *Ask
	// Task says that Result is a task, which the caller asked for or has declared to know.
	Task bool
	// Release, if set, gives the memory of Result back to be used again: the edge that
	// has written the reply calls it, once, and nobody reads Result any more then.
	// Whoever wants to keep a Result clones it. A reply that is dropped need not be
	// released.
	Release func()
}

// Item is one entry of a list. Name is its routing key: a name, a URI or a URI
// template. Target is what it stands for, set where lists are merged.
type Item struct {
	Name   string
	Raw    Raw
	Target Target
}

// Ask is a reply that asks: its requests are to be answered by the client, and the
// same Call is then made again with Answers and State. It is what 2026-07-28 calls
// an InputRequiredResult (basic/patterns/mrtr).
type Ask struct {
	// Requests in the order in which the server made them; none when the server
	// only wants the call to be made again.
	Requests []InputRequest
	// State is opaque, to be given back with the answers; "" when there is none.
	State string
	// Here says that only this replica can take the answers. Kept says that the server
	// keeps something for them, and any replica can take them. Who will not come back
	// with answers makes the call once more all the same, cancelled, in either case.
	Here bool
	Kept bool
	// Anew says that the server has ended the call for these questions, all of which
	// send the user to a URL: once they are done with it is made anew. It is what
	// 2025-11-25 says by the error URLElicitationRequired (client/elicitation).
	Anew bool
	// Expires is when nobody waits for the answers any more, zero for never.
	Expires time.Time
}

// OwnKey begins the keys of the questions that the gateway itself asks. No server asks
// under such a key.
const OwnKey = "gatehouse-"

// InputRequest is one question of an Ask: Method is elicitation/create,
// sampling/createMessage or roots/list. An elicitation that sends the user to a URL may
// have an elicitationId in Params: it is ours, and NoteElicitationComplete tells by it
// that the user is done. NoteCancelled tells by the member key that a question needs
// no answer any more.
type InputRequest struct {
	Key    string
	Method string
	Params Raw
}
