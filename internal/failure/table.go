package failure

// The names, grouped as in docs/errors.md. The order has no meaning, except that Upstream is
// the zero Name.
const (
	Upstream Name = iota // the server's own error, which is relayed as it is

	// Requests that are wrong.

	Parse
	InvalidRequest
	InvalidParams
	InvalidCursor
	UnknownMethod
	NotFound
	NoTask
	StateInvalid
	ArgumentsDenied
	HookRefused
	HookDown
	NotApproved
	HeaderMismatch
	MissingCapability
	UnsupportedVersion
	URLNeeded
	HTTPMethod
	HTTPHost
	HTTPLoop
	HTTPOrigin
	HTTPMedia
	HTTPAccept
	RequestTooLarge
	RequestSlow
	RequestCut

	// Callers who are refused.

	TokenMissing
	TokenMalformed
	TokenInvalid
	TokenExpired
	ScopeMissing
	UserRefused
	ViewRefused
	IssuerDown

	// Limits and bounds.

	RateLimited
	TooManySessions
	TooManyStreams
	TooManyRequests
	TooManyQuestions
	TooManyTasks
	TooManyApprovals
	NoRoom

	// Sessions and calls.

	SessionNotFound
	SessionEnded
	SessionFull
	StreamNotFound
	CallLost
	AnswerDropped
	Unsubscribed
	Stopping
	StoreDown
	Internal

	// Questions to users.

	ApprovalDeclined
	ApprovalImpossible
	ApprovalRefused
	ApprovalTimeout
	QuestionImpossible
	QuestionRefused
	QuestionUnanswered
	EndlessQuestions
	SignInNeeded

	// Servers that fail.

	UpstreamDown
	UpstreamStatus
	UpstreamBadAnswer
	UpstreamCut
	UpstreamTooLarge
	UpstreamLogin
	UpstreamSessionLost
	UpstreamTimeout
	UpstreamLimited
	UpstreamBusy
	UpstreamClosing
	UpstreamAsksTooMuch
	UpstreamRefuses
	UpstreamDisabled
	TaskFailed

	// What only operators meet.

	ConfigInvalid
	ConfigDoubtful
	ClusterUnknown
	CertificateRefused
	CertificateNotIssued
	ReloadLeftovers
	StopUnclean
	AdminDown
	AdminTokenMissing
	AdminTokenInvalid
	AdminRole
	AdminNotFound
	AdminRequest
	AdminBusy
	AdminApproval
	LogSlow
	KeysMissing
	TokenRefused
	SignInFailed
	UpstreamEnded
	UpstreamMisbehaves
	ToolDropped
	SkillSkipped
	ItemWithheld
	ResultNotKept
	EventsDropped
	AuditSinkDown
	TracesLost
	MetricsLost
	AuditTorn
	StoreFull
	StoreRefused
	StoreForeign
	StoreEvicts
	ReplicaUnreachable
	ReplicaGone
	LeaseLost
	LinkDown
	ForwardRefused
)

var table = [...]row{
	Upstream: {"GH-UPSTREAM-ERROR", 0, Depends, "the upstream answered with an error of its own"},

	Parse: {"GH-PARSE", -32700, Never, "the request is not valid JSON"},
	InvalidRequest: {"GH-INVALID-REQUEST", -32600, Never,
		"the request is not a valid JSON-RPC message, or its HTTP request is not valid"},
	InvalidParams: {"GH-INVALID-PARAMS", -32602, Never, "the params of the request are wrong"},
	InvalidCursor: {"GH-INVALID-CURSOR", -32602, Never, "the cursor is unknown, or the list has changed since"},
	UnknownMethod: {"GH-UNKNOWN-METHOD", -32601, Never, "nobody here serves this method"},
	NotFound:      {"GH-NOT-FOUND", -32602, Never, "the name does not exist for this caller"},
	NoTask:        {"GH-NO-TASK", -32601, Never, "this tool does not run as a task"},
	StateInvalid: {"GH-STATE-INVALID", -32602, Never,
		"the state of the retry is not its own, or nothing waits for it any more"},
	ArgumentsDenied: {"GH-ARGUMENTS-DENIED", -32602, Never,
		"a policy rule allows the tool or prompt, but not with these arguments"},
	HookRefused: {"GH-HOOK-REFUSED", -32603, Depends,
		"a hook refuses the arguments of the call, or what came back"},
	HookDown: {"GH-HOOK-DOWN", 50305, Depends,
		"the service of a hook gives no answer that counts, and nothing passes without one"},
	NotApproved: {"GH-NOT-APPROVED", -32602, Never,
		"what the upstream offers here is not what the operator has approved"},
	HeaderMismatch: {"GH-HEADER-MISMATCH", -32020, Never, "an HTTP header is missing or contradicts the body"},
	MissingCapability: {"GH-MISSING-CAPABILITY", -32021, Never,
		"the client does not declare a capability that the request needs"},
	UnsupportedVersion: {"GH-UNSUPPORTED-VERSION", -32022, Never,
		"the gateway does not speak the protocol revision of the request"},
	URLNeeded:  {"GH-URL-NEEDED", -32042, Later, "the user has to open a page before the request can be made"},
	HTTPMethod: {"GH-HTTP-METHOD", -32600, Never, "the path does not serve this HTTP method"},
	HTTPHost:   {"GH-HTTP-HOST", -32600, Never, "the request is for a host that the gateway does not serve"},
	HTTPLoop: {"GH-HTTP-LOOP", -32600, Never,
		"the request is one of this gateway's own: an upstream is the gateway itself"},
	HTTPOrigin:      {"GH-HTTP-ORIGIN", -32600, Never, "a web page sent the request, and its origin is not allowed"},
	HTTPMedia:       {"GH-HTTP-MEDIA", -32600, Never, "the body has another media type or encoding than application/json"},
	HTTPAccept:      {"GH-HTTP-ACCEPT", -32600, Never, "the client does not accept the media types of the answer"},
	RequestTooLarge: {"GH-REQUEST-TOO-LARGE", -32600, Never, "the body of the request is larger than the limit"},
	RequestSlow:     {"GH-REQUEST-SLOW", -32600, Later, "the body of the request did not arrive in time"},
	RequestCut:      {"GH-REQUEST-CUT", -32700, Later, "the body of the request ended early"},

	TokenMissing:   {"GH-TOKEN-MISSING", -32600, Never, "the request has no access token"},
	TokenMalformed: {"GH-TOKEN-MALFORMED", -32600, Never, "the request does not carry its access token as it should"},
	TokenInvalid: {"GH-TOKEN-INVALID", -32600, Never,
		"the access token or API key does not prove who calls, or the proof of a bound token does not fit"},
	TokenExpired: {"GH-TOKEN-EXPIRED", -32600, Never, "the access token or API key has expired"},
	ScopeMissing: {"GH-SCOPE-MISSING", -32600, Never, "the access token lacks a scope"},
	UserRefused:  {"GH-USER-REFUSED", -32600, Never, "the access token is good, but its user cannot be served"},
	ViewRefused:  {"GH-VIEW-REFUSED", -32600, Never, "the view is for other users"},
	IssuerDown: {"GH-ISSUER-DOWN", 50304, Later,
		"the issuer of the access token does not answer, so the token cannot be checked"},

	RateLimited: {"GH-RATE-LIMITED", 42901, Later, "a limit of the gateway's configuration is reached"},
	TooManySessions: {"GH-TOO-MANY-SESSIONS", 42901, Later,
		"the user or the gateway has as many sessions as are allowed"},
	TooManyStreams:   {"GH-TOO-MANY-STREAMS", 42901, Later, "the user has as many event streams open as are allowed"},
	TooManyRequests:  {"GH-TOO-MANY-REQUESTS", 50302, Later, "the client sends requests without waiting for answers"},
	TooManyQuestions: {"GH-TOO-MANY-QUESTIONS", 50302, Later, "too many questions wait for this client"},
	TooManyTasks: {"GH-TOO-MANY-TASKS", 50302, Later,
		"too many requests of this user wait for results of tasks, or too many tasks are kept"},
	TooManyApprovals: {"GH-TOO-MANY-APPROVALS", 50302, Later,
		"too many calls of this user, or of all, wait for somebody else's approval"},
	NoRoom: {"GH-NO-ROOM", 50302, Depends, "other large messages fill the memory that the gateway sets aside for them"},

	SessionNotFound: {"GH-SESSION-NOT-FOUND", -32600, Never, "the session has ended, or it was never this user's"},
	SessionEnded:    {"GH-SESSION-ENDED", -32600, Depends, "the session ended while the call ran"},
	SessionFull:     {"GH-SESSION-FULL", -32602, Never, "the session would have to remember more than it can hold"},
	StreamNotFound:  {"GH-STREAM-NOT-FOUND", -32600, Never, "the event stream of this client is closed"},
	CallLost:        {"GH-CALL-LOST", 50205, Depends, "the replica that had the call is gone"},
	AnswerDropped:   {"GH-ANSWER-DROPPED", -32603, Depends, "the client came back too late for the answer"},
	Unsubscribed:    {"GH-UNSUBSCRIBED", -32603, Later, "nothing confirmed the subscription"},
	Stopping:        {"GH-STOPPING", 50301, Depends, "the gateway, or this replica of it, is being stopped"},
	StoreDown:       {"GH-STORE-DOWN", 50303, Later, "Redis, which keeps sessions, does not answer"},
	Internal:        {"GH-INTERNAL", -32603, Depends, "a bug in the gateway"},

	ApprovalDeclined: {"GH-APPROVAL-DECLINED", -32603, Never, "the user did not approve of the call"},
	ApprovalImpossible: {"GH-APPROVAL-IMPOSSIBLE", -32603, Never,
		"the call needs the user's approval, and the client cannot ask for it"},
	ApprovalRefused: {"GH-APPROVAL-REFUSED", -32603, Never, "somebody who has to approve of the call has refused it"},
	ApprovalTimeout: {"GH-APPROVAL-TIMEOUT", -32603, Never,
		"nobody of those who have to approve of the call has decided in time"},
	QuestionImpossible: {"GH-QUESTION-IMPOSSIBLE", -32603, Depends,
		"the upstream asks for something that this client cannot be asked"},
	QuestionRefused:    {"GH-QUESTION-REFUSED", -32603, Never, "the gateway does not pass on a question of the upstream"},
	QuestionUnanswered: {"GH-QUESTION-UNANSWERED", -32603, Depends, "a question of the upstream got no usable answer"},
	EndlessQuestions: {"GH-ENDLESS-QUESTIONS", -32603, Depends,
		"the upstream answers each answer with another question"},
	SignInNeeded: {"GH-SIGN-IN-NEEDED", 50204, Later,
		"the user has to sign in at the upstream, with an account of their own"},

	UpstreamDown: {"GH-UPSTREAM-DOWN", 50201, Depends, "the upstream cannot be reached"},
	UpstreamStatus: {"GH-UPSTREAM-STATUS", 50202, Depends,
		"the upstream, or a proxy in front of it, answered with an HTTP status that is no answer"},
	UpstreamBadAnswer: {"GH-UPSTREAM-BAD-ANSWER", 50202, Depends, "the upstream answered something that is not MCP"},
	UpstreamCut:       {"GH-UPSTREAM-CUT", 50202, Depends, "the connection to the upstream broke, or its process ended"},
	UpstreamTooLarge:  {"GH-UPSTREAM-TOO-LARGE", 50203, Depends, "the answer of the upstream is larger than the limit"},
	UpstreamLogin: {"GH-UPSTREAM-LOGIN", 50204, Never,
		"the upstream refuses the credential, or the gateway has none for it"},
	UpstreamSessionLost: {"GH-UPSTREAM-SESSION-LOST", 50205, Depends,
		"the upstream forgot its session with the gateway, or another replica took the session over"},
	UpstreamTimeout: {"GH-UPSTREAM-TIMEOUT", 50401, Depends,
		"the upstream did not answer in time, or an answer to a question in mid-call came too late"},
	UpstreamLimited: {"GH-UPSTREAM-LIMITED", 42901, Later, "the upstream takes no more requests for now"},
	UpstreamBusy:    {"GH-UPSTREAM-BUSY", 50302, Later, "more calls than allowed run and wait at the upstream"},
	UpstreamClosing: {"GH-UPSTREAM-CLOSING", 50301, Depends,
		"the upstream is taken out of service, by a reload or a stop of the gateway"},
	UpstreamAsksTooMuch: {"GH-UPSTREAM-ASKS-TOO-MUCH", 50302, Depends,
		"the upstream asks the user more questions than are allowed"},
	UpstreamRefuses:  {"GH-UPSTREAM-REFUSES", -32603, Never, "the upstream does not accept the gateway's requests"},
	UpstreamDisabled: {"GH-UPSTREAM-DISABLED", 50201, Never, "an operator has disabled the upstream"},
	TaskFailed: {"GH-TASK-FAILED", -32603, Depends,
		"the task that the upstream made of the call ended without a result"},

	ConfigInvalid:  {"GH-CONFIG-INVALID", 0, Never, "the configuration has problems, and is not used"},
	ConfigDoubtful: {"GH-CONFIG-DOUBTFUL", 0, Never, "the configuration works, but probably not as intended"},
	ClusterUnknown: {"GH-DISCOVERY-API", 0, Later, "the Kubernetes API does not say which servers there are"},
	CertificateRefused: {"GH-CERTIFICATE-REFUSED", 0, Never,
		"a changed certificate of a listener cannot be used, and the one before stays in use"},
	CertificateNotIssued: {"GH-CERTIFICATE-NOT-ISSUED", 0, Later,
		"an authority did not issue the certificate of a listener (acme), and the one before stays in use, if there is one"},
	ReloadLeftovers:   {"GH-RELOAD-LEFTOVERS", 0, Never, "parts of the former configuration did not end in good order"},
	StopUnclean:       {"GH-STOP-UNCLEAN", 0, Never, "a part of the gateway did not stop in good order"},
	AdminDown:         {"GH-ADMIN-DOWN", 0, Never, "the listener for operators has ended"},
	AdminTokenMissing: {"GH-ADMIN-TOKEN-MISSING", 0, Never, "a request to the admin API has no token"},
	AdminTokenInvalid: {"GH-ADMIN-TOKEN-INVALID", 0, Never,
		"the token of a request to the admin API is none of those in the configuration"},
	AdminRole: {"GH-ADMIN-ROLE", 0, Never,
		"the role of an operator does not allow what was asked of the admin API"},
	AdminNotFound: {"GH-ADMIN-NOT-FOUND", 0, Never, "the admin API does not know what was asked for"},
	AdminRequest:  {"GH-ADMIN-REQUEST", 0, Never, "a request to the admin API makes no sense, or not now"},
	AdminBusy:     {"GH-ADMIN-BUSY", 0, Later, "as many operators follow the decisions as may, or a replay runs"},
	AdminApproval: {"GH-ADMIN-APPROVAL", 0, Never,
		"a decision on a call that waits for approval does not hold: it is of its caller, or of another digest"},
	LogSlow:            {"GH-LOG-SLOW", 0, Later, "whatever reads the log is too slow"},
	KeysMissing:        {"GH-KEYS-MISSING", 0, Later, "the issuer publishes no key that the gateway can use"},
	TokenRefused:       {"GH-TOKEN-REFUSED", 0, Never, "the token endpoint for an upstream gave no usable token"},
	SignInFailed:       {"GH-SIGN-IN-FAILED", 0, Never, "a user could not sign in at an upstream"},
	UpstreamEnded:      {"GH-UPSTREAM-ENDED", 0, Later, "the process of an upstream ended, or had to be ended"},
	UpstreamMisbehaves: {"GH-UPSTREAM-MISBEHAVES", 0, Never, "the upstream sent something that is against the protocol"},
	ToolDropped:        {"GH-TOOL-DROPPED", 0, Never, "the definition of a tool is not valid"},
	SkillSkipped:       {"GH-SKILL-SKIPPED", 0, Never, "a skill, or a file of one, is not valid"},
	ItemWithheld:       {"GH-ITEM-WITHHELD", 0, Never, "an item of an upstream's list cannot be offered to clients"},
	ResultNotKept:      {"GH-RESULT-NOT-KEPT", 0, Later, "a large result was sent whole, because it could not be kept"},
	EventsDropped:      {"GH-EVENTS-DROPPED", 0, Later, "a client reads its events too slowly, or not at all"},
	AuditSinkDown:      {"GH-AUDIT-SINK-DOWN", 0, Later, "audit records cannot be written, or may be lost"},
	TracesLost:         {"GH-TRACES-LOST", 0, Later, "the collector did not take spans"},
	MetricsLost:        {"GH-METRICS-LOST", 0, Later, "the collector did not take metrics"},
	AuditTorn:          {"GH-AUDIT-TORN", 0, Never, "a file of audit records does not end as it was written"},
	StoreFull:          {"GH-STORE-FULL", 0, Later, "Redis has no memory left"},
	StoreRefused:       {"GH-STORE-REFUSED", 0, Never, "Redis refuses a command"},
	StoreForeign:       {"GH-STORE-FOREIGN", 0, Never, "Redis has a value that no replica with this key has written"},
	StoreEvicts:        {"GH-STORE-EVICTS", 0, Never, "Redis may drop sessions and limits when it is full"},
	ReplicaUnreachable: {"GH-REPLICA-UNREACHABLE", 0, Later, "a replica cannot reach another one"},
	ReplicaGone:        {"GH-REPLICA-GONE", 0, Later, "another replica refuses connections"},
	LeaseLost:          {"GH-LEASE-LOST", 0, Later, "a replica could not renew its lease in Redis"},
	LinkDown:           {"GH-LINK-DOWN", 0, Never, "the listener for other replicas has ended"},
	ForwardRefused:     {"GH-FORWARD-REFUSED", 0, Never, "a forwarded request did not prove which replica sent it"},
}
