package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Codes of JSON-RPC 2.0 and of the specification.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603

	// CodeResourceNotFound is the code of the stateful revisions. Inside, and to stateless
	// clients, a missing resource is CodeInvalidParams.
	CodeResourceNotFound = -32002
	// CodeURLElicitation is URLElicitationRequired of 2025-11-25.
	CodeURLElicitation = -32042

	CodeHeaderMismatch     = -32020 // HeaderMismatch, 2026-07-28
	CodeMissingCapability  = -32021 // MissingRequiredClientCapability, 2026-07-28
	CodeUnsupportedVersion = -32022 // UnsupportedProtocolVersion, 2026-07-28
)

// Codes of the gateway. They are positive, outside of the range that JSON-RPC and the
// specification reserve.
const (
	CodeRateLimited            = 42901
	CodeUpstreamUnreachable    = 50201
	CodeUpstreamBadAnswer      = 50202
	CodeUpstreamAnswerTooLarge = 50203
	CodeUpstreamAuthFailed     = 50204
	CodeUpstreamSessionLost    = 50205
	CodeDraining               = 50301
	CodeOverloaded             = 50302
	CodeStoreUnavailable       = 50303
	CodeIssuerUnavailable      = 50304
	CodeUpstreamTimeout        = 50401
)

// Error is a JSON-RPC error object that a client may read. Data is nil or valid JSON.
type Error struct {
	Code    int
	Message string
	Data    Raw
	// Cause is additional information for the operator, such as an address, an exit code or
	// what is wrong with a certificate; "" for none. It contains no secrets, and never
	// reaches a client.
	Cause string
}

// Why describes an error to an operator: the message without advice for clients, and the
// cause.
func Why(err error) string {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err.Error()
	}
	why := strings.TrimSuffix(e.Message, "; try again later")
	if e.Cause != "" {
		why += ": " + e.Cause
	}
	return fmt.Sprintf("%s (%d)", why, e.Code)
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// Is reports whether target is an *Error of the same code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// Errorf makes an Error of a code and a message.
func Errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Executed says whether a failed call may have run at its upstream.
type Executed string

// The gateway never repeats a call that may have run.
const (
	ExecutedNo      Executed = "no"
	ExecutedUnknown Executed = "unknown"
)

// UpstreamError makes the error of a call that failed at an upstream. The message should name
// the upstream and say what to do; Data has the same for programs.
func UpstreamError(code int, upstream string, executed Executed, format string, args ...any) *Error {
	e := Errorf(code, format, args...)
	data, err := json.Marshal(struct {
		Upstream  string   `json:"upstream"`
		Retryable bool     `json:"retryable"`
		Executed  Executed `json:"executed"`
	}{upstream, executed == ExecutedNo, executed})
	if err != nil {
		panic(err) // strings and a bool always marshal
	}
	e.Data = data
	return e
}

// ErrUnknown is the error for a name that does not exist, and for one that the caller may not
// use: clients must not be able to tell the two apart.
func ErrUnknown(method, name string) *Error {
	what := "name"
	switch method {
	case MethodToolsCall:
		what = "tool"
	case MethodPromptsGet:
		what = "prompt"
	case MethodResourcesRead, MethodResourcesSubscribe, MethodResourcesUnsubscribe:
		return &Error{Code: CodeInvalidParams, Message: "Resource not found", Data: Object("uri", String(name))}
	case MethodSkillsGet:
		what = "skill"
	case MethodDirectoryRead: // without data: everyone is told by -32602
		what = "directory"
	case MethodComplete:
		what = "reference"
	case MethodTasksGet, MethodTasksUpdate, MethodTasksCancel, MethodTasksResult:
		return Errorf(CodeInvalidParams, "Task not found")
	}
	return Errorf(CodeInvalidParams, "Unknown %s: %s", what, name)
}

// ErrMethod is the error for an unknown method.
func ErrMethod(method string) *Error {
	return Errorf(CodeMethodNotFound, "Method not found: %s", method)
}
