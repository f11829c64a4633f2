package mcp

import (
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/trail"
)

// Call is a client request on its way to an upstream. A Call is immutable once it has been
// passed on: to change it, make a copy with Call.Clone.
type Call struct {
	// ID is the gateway's id of the request, the same in each of its rounds, for logs and
	// traces. It is never sent as a JSON-RPC id.
	ID string
	// Continues is the ID of the first request of a stateless client that this one continues with
	// answers, "" if it is the first.
	Continues string
	// Method is the method's name, such as "tools/call".
	Method string
	// Name is the routing key of the method: the name of a tool or prompt, the URI of a
	// resource, or, for completion/complete, the name or URI in its ref. Empty for methods
	// without one. It takes precedence over a name in Params.
	Name string
	// Lens is what the caller saw when the call began; nil above the stage that sets it.
	Lens Lens
	// Target is what Name stands for. Policy sets it when the caller may use it, and the
	// catalog passes on nothing without it. Zero above policy, and for methods without a
	// Name.
	Target Target
	// Visible reports whether the caller may know of an upstream. Policy sets it for
	// server/discover, subscriptions/listen and the methods of tasks; nil means all
	// upstreams.
	Visible func(upstream string) bool
	// VisibleSkills is Visible for skills: whether the caller may know of some of an upstream.
	// Policy sets it for server/discover and subscriptions/listen.
	VisibleSkills func(upstream string) bool
	// Sees reports whether the caller may know of something. Policy sets it for
	// resources/directory/read; nil means everything.
	Sees func(Target) bool
	// Preface is, for server/discover, a text of the gateway itself that the instructions have
	// to contain.
	Preface string
	// Params is the params object as the client wrote it, with _meta; nil if the client sent
	// none.
	Params Raw
	// Outline is the outline of large Params, else nil. It may stay when other Params replace these.
	Outline *Outline
	Caller  Caller
	// Aside says that an operator looks at what the caller would get from a list: no server is
	// asked with the caller's credentials, and nothing is kept for the caller.
	Aside bool
	// Revision is the client's protocol revision, "" for calls of the gateway itself.
	Revision string
	// Session is "user:session". For a stateless client it is derived from user and client;
	// for calls of the gateway itself it is "".
	Session string
	// Ephemeral says that Session was derived, so it has no explicit end: what is kept for it
	// expires when idle.
	Ephemeral bool
	// Caps is the client's ClientCapabilities object, nil for none: what it can be asked for.
	Caps Raw
	// LogLevel is the least severe level of log messages that the caller wants, "" if it
	// never said.
	LogLevel string
	// ParamHeaders are the Mcp-Param-* headers of the request, still encoded, by the part of
	// the name after "Mcp-Param-" in lower case; nil if the revision has none, which means
	// that they are not checked (2026-07-28 basic/transports/streamable-http).
	ParamHeaders map[string]string
	// Tasks is the form of tasks that the client knows. Task, for tools/call, is the member
	// task of 2025-11-25: the call shall run as a task. The catalog also sets it for tools
	// that only run as tasks; a client that does not know such tasks gets the result.
	Tasks TaskForm
	Task  Raw
	// On a retry, Answers are the answers to Ask.Requests by key, Refused the errors that a
	// stateful client answered instead, and Round is the matching Ask.Round.
	Answers map[string]Raw
	Refused map[string]*Error
	Round   Round
	// Trace is the trace that the call belongs to, nil if none is known or traces are off.
	Trace *Trace
	// Trail, if not nil, records where the time of the call goes, and its messages.
	Trail *trail.Trail
	// Room is the call's share of the memory for large messages, until its answer is written;
	// nil for calls that are not counted.
	Room *Room
	// Verdict, if not nil, receives what the stages know of the call. It is the same in all
	// rounds. Its observer reads it after the last reply.
	Verdict *Verdict
	// Notify receives events before the reply: progress, log messages and the events of
	// subscriptions/listen. It is never nil, is safe for concurrent use, and does not keep
	// the event's bytes after it returns. No event follows the reply, unless that is an Ask:
	// then the call goes on while it is answered.
	Notify func(Event)
}

// Clone returns a copy that may be changed. It shares raw values and maps with c.
func (c *Call) Clone() *Call {
	d := *c
	return &d
}

// Kind returns the kind of the thing that Name names, one of the Kind constants, "" if it names nothing
// or a task.
func (c *Call) Kind() string {
	switch c.Method {
	case MethodToolsCall:
		return KindTools
	case MethodPromptsGet:
		return KindPrompts
	case MethodResourcesRead, MethodDirectoryRead:
		return KindResources
	case MethodSkillsGet:
		return KindSkills
	case MethodComplete:
		switch c.Params.At("ref", "type").Text() {
		case "ref/prompt":
			return KindPrompts
		case "ref/resource":
			return KindResources
		}
	}
	return ""
}

// Reached notes that the call is about to be written to a server. Stages that make further calls
// for the same caller, such as for lists, have no Target.
func (c *Call) Reached() {
	if c.Verdict != nil && c.Target.Upstream != "" {
		c.Verdict.Reached++
	}
}

// CancelReason is in the cause of a context: why the client cancelled, in its own words.
type CancelReason string

func (r CancelReason) Error() string { return string(r) }

// Event is a notification on its way to the client. Params is as the server wrote it; the
// edge that delivers it inserts its own progress token or subscription id.
type Event struct {
	Method string
	Params Raw
	// Failed has, for NoteAcknowledged, the known reasons why resources are not honoured, by
	// URI. The front does not send it.
	Failed map[string]error
	// Upstream is the sender, for log messages outside of calls. The front does not send it.
	Upstream string
}

// Reply is the answer to a Call. Exactly one of Result, List and Ask is set.
type Reply struct {
	// Result is the result object as the server wrote it.
	Result Raw
	// Outline is the outline of a large Result, else nil. It may stay when another Result replaces
	// this one.
	Outline *Outline
	// List is the answer of a list method.
	List *List
	// Ask says that the server needs input first.
	Ask *Ask
	// Task says that Result is a task. The caller has asked for a task or declared to know
	// tasks.
	Task bool
	// Release, if set, frees the memory of Result for reuse. The edge that has written the reply
	// calls it once; Result must not be read after that. To keep a Result, clone it. A dropped
	// reply need not be released.
	Release func()
}

// Item is an entry of a list. Name is its routing key: a name, a URI or a URI template.
// Target is what it stands for, set when lists are merged.
type Item struct {
	Name   string
	Raw    Raw
	Target Target
}

// Ask is a request for input: the client answers the questions, and the same Call is made
// again with Answers and Round. 2026-07-28 calls it an InputRequiredResult
// (basic/patterns/mrtr).
type Ask struct {
	// Requests are in the order of the server. They are empty if the server only wants the
	// call to be made again.
	Requests []InputRequest
	// Round returns with the answers.
	Round Round
	// Here says that only this replica can take the answers.
	Here bool
	// Drop, if set, frees what waits for answers that will not come, and tells its server the
	// reason. It returns at once, and does nothing once the answers were taken or the wait has
	// ended.
	Drop func(reason string)
	// Restart says that the server has ended the call with these questions; all of them send the
	// user to a URL. When the user is done, the call is made from the beginning. 2025-11-25
	// expresses it by the error URLElicitationRequired (client/elicitation).
	Restart bool
	// Expires is the time until which the call waits for the answers, zero for no limit.
	Expires time.Time
}

// Dropped ends the wait for the answers, for this reason.
func (a *Ask) Dropped(reason string) {
	if a != nil && a.Drop != nil {
		a.Drop(reason)
	}
}

// OwnKey begins the keys of the gateway's own questions. No question of a server has such a
// key.
const OwnKey = "gatehouse-"

// InputRequest is a question of an Ask. Method is elicitation/create, sampling/createMessage
// or roots/list. An elicitation that sends the user to a URL may have an elicitationId in
// Params, made by the gateway; NoteElicitationComplete refers to it when the user is done.
// NoteCancelled names by its member key a question that needs no answer any more.
type InputRequest struct {
	Key    string
	Method string
	Params Raw
}

// Entry returns the question as what inputRequests has under its key (2026-07-28
// basic/patterns/mrtr). It always has params, because there are clients that need them.
func (r InputRequest) Entry() Raw {
	params := r.Params
	if !params.IsObject() {
		params = Raw(`{}`)
	}
	return Object("method", String(r.Method), "params", params)
}
