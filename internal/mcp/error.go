package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
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
	CodeHookUnavailable        = 50305
	CodeUpstreamTimeout        = 50401
)

// Error is a JSON-RPC error object that a client may read. Data is nil or valid JSON. Make it
// with Errorf, UpstreamError or Relayed.
type Error struct {
	Code    int
	Message string
	Data    Raw
	// Cause is additional information for the operator, such as an address, an exit code or
	// what is wrong with a certificate; "" for none. It contains no secrets, and never
	// reaches a client.
	Cause string
	// Name says which failure this is. It is failure.Upstream for the error of a server, which
	// is relayed: Data is then the server's.
	Name failure.Name
	// AsResult says that the caller of a tool gets the error as a result for the model.
	AsResult bool
}

// Errorf makes an error of the gateway's own.
func Errorf(name failure.Name, format string, args ...any) *Error {
	return &Error{Name: name, Code: name.Code(), Message: fmt.Sprintf(format, args...)}
}

// Relayed makes the error that a server, or a client to which a question was put, answered with.
func Relayed(code int, message string, data Raw) *Error {
	return &Error{Code: code, Message: message, Data: data}
}

// WithData returns a copy of the error with other data.
func (e *Error) WithData(data Raw) *Error {
	again := *e
	again.Data = data
	return &again
}

// WithCode returns a copy of the error with another code, for a revision that has one of its own.
func (e *Error) WithCode(code int) *Error {
	again := *e
	again.Code = code
	return &again
}

// Why describes an error to an operator: the message without advice for clients, and the
// cause. FailureOf names it.
func Why(err error) string {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err.Error()
	}
	why := strings.TrimSuffix(e.Message, "; try again later")
	if e.Cause != "" {
		why += ": " + e.Cause
	}
	return why
}

// FailureOf returns which failure an error is. What is no *Error is a bug of the gateway.
func FailureOf(err error) failure.Name {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Name
	}
	return failure.Internal
}

// HasCode reports whether err is an *Error with this code.
func HasCode(err error, code int) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code == code
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// Is reports whether target is an *Error of the same code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// AppendTo appends the error object. The data of the gateway's own errors has the name of the
// failure; that of servers is written as it came.
func (e *Error) AppendTo(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, `{"code":`...), int64(e.Code), 10)
	dst = AppendString(append(dst, `,"message":`...), e.Message)
	data := e.Data
	if e.Name != failure.Upstream && (data == nil || data.IsObject()) {
		data = data.Edit(Edit{Name: failure.Key, Value: String(e.Name.String())})
	}
	if data != nil {
		dst = append(append(dst, `,"data":`...), data...)
	}
	return append(dst, '}')
}

// Executed says whether a failed call may have run at its upstream.
type Executed string

// The gateway never repeats a call that may have run.
const (
	ExecutedYes     Executed = "yes"
	ExecutedNo      Executed = "no"
	ExecutedUnknown Executed = "unknown"
)

// UpstreamError makes the error of a call that failed at an upstream. The message should name
// the upstream and say what to do; Data has the same for programs.
func UpstreamError(name failure.Name, upstream string, executed Executed, format string, args ...any) *Error {
	e := Errorf(name, format, args...)
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

// Executed says whether the call may have run, by an error of the gateway; else "".
func (e *Error) Executed() Executed {
	if e.Name == failure.Upstream {
		return "" // the data is the server's, which may say what it likes
	}
	return Executed(e.Data.At("executed").Text())
}

// ErrDisabled is the error for a call to an upstream that an operator has disabled.
func ErrDisabled(upstream string) *Error {
	return UpstreamError(failure.UpstreamDisabled, upstream, ExecutedNo,
		"Upstream %s is disabled by the gateway's operator, who has to enable it before it can be used", upstream)
}

// ErrRound is the error for a Round that does not wait for answers any more.
func ErrRound() *Error {
	return Errorf(failure.StateInvalid,
		"Invalid params: requestState is not one that waits for answers; make the call from the beginning").
		WithData(Object("reason", String("expired")))
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
		return Errorf(failure.NotFound, "Resource not found").WithData(Object("uri", String(name)))
	case MethodSkillsGet:
		what = "skill"
	case MethodDirectoryRead: // without data: every client gets -32602
		what = "directory"
	case MethodComplete:
		what = "reference"
	case MethodTasksGet, MethodTasksUpdate, MethodTasksCancel, MethodTasksResult:
		return Errorf(failure.NotFound, "Task not found")
	}
	return Errorf(failure.NotFound, "Unknown %s: %s", what, name)
}

// ErrMethod is the error for an unknown method.
func ErrMethod(method string) *Error {
	return Errorf(failure.UnknownMethod, "Method not found: %s", method)
}
