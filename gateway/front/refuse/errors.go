package refuse

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// Status is the HTTP status of a call's error (2026-07-28 basic/transports/streamable-http,
// basic/index#error-codes). Within a session it is 200 for any error of a call, unless a limit
// kept the call from being made.
func Status(rev *wire.Revision, e *mcp.Error) int {
	switch {
	case e.Code == mcp.CodeRateLimited:
		return http.StatusTooManyRequests
	case rev.Stateful:
	case e.Code == mcp.CodeMethodNotFound:
		return http.StatusNotFound
	case e.Code == mcp.CodeHeaderMismatch, e.Code == mcp.CodeMissingCapability, e.Code == mcp.CodeUnsupportedVersion:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// Readable turns the error of a call into what its client may read. Any error that is not an
// *mcp.Error is internal: the client learns only the call id to look for.
func Readable(rev *wire.Revision, method, callID string, err error) *mcp.Error {
	e, ok := errors.AsType[*mcp.Error](err)
	if !ok {
		return internal(callID)
	}
	switch e.Code {
	case mcp.CodeRateLimited, mcp.CodeUpstreamUnreachable, mcp.CodeUpstreamBadAnswer, mcp.CodeUpstreamAnswerTooLarge,
		mcp.CodeUpstreamAuthFailed, mcp.CodeUpstreamSessionLost, mcp.CodeDraining, mcp.CodeOverloaded,
		mcp.CodeStoreUnavailable, mcp.CodeUpstreamTimeout: // the gateway's own
		data := e.Data
		if !data.IsObject() {
			data = nil
		}
		e = e.WithData(data.Edit(mcp.Edit{Name: "request_id", Value: mcp.String(callID)}))
	}
	return rev.Error(method, e)
}

func internal(callID string) *mcp.Error {
	e := mcp.Errorf(failure.Internal, "internal error")
	if callID != "" {
		e.Data = mcp.Object("request_id", mcp.String(callID))
	}
	return e
}

// ClosingError is the answer to a call that the stop of the gateway interrupts or prevents.
func ClosingError(executed mcp.Executed) *mcp.Error {
	if executed == mcp.ExecutedNo {
		return notRun(failure.Stopping, "the gateway is stopping: try again")
	}
	return mayHaveRun(failure.Stopping,
		"the gateway is stopping, and has cut this call off: see whether it has run before you make it again")
}

// LostError is the answer to a call that ran at a replica which has gone.
func LostError() *mcp.Error {
	return mayHaveRun(failure.CallLost,
		"the replica of the gateway that had this call is gone, and its result is lost: see whether it has run before you make it again")
}

// DroppedError is the answer to a client that comes back too late for an answer.
func DroppedError() *mcp.Error {
	return mayHaveRun(failure.AnswerDropped,
		"the answer to this request was dropped, for its client was away for too long; what was asked may have been done")
}

// TooLateError is the answer to a call that was given up before its client answered a question.
func TooLateError(executed mcp.Executed) *mcp.Error {
	if executed == mcp.ExecutedNo {
		return notRun(failure.UpstreamTimeout,
			"the answer to the question came too late, so the call was given up: it has not run; make it again")
	}
	return mayHaveRun(failure.UpstreamTimeout,
		"the answer to the server's question came too late, so the call was given up: it may or may not have run")
}

// ExpiredError is the answer to a call that cannot continue: its caller's proof has expired.
func ExpiredError() *mcp.Error {
	return mayHaveRun(failure.TokenExpired,
		"the access token of this request has expired while it waited: make it again with a new one")
}

func mayHaveRun(name failure.Name, message string) *mcp.Error {
	return mcp.Errorf(name, "%s", message).WithData(Data(false, mcp.ExecutedUnknown))
}

func notRun(name failure.Name, message string) *mcp.Error {
	return mcp.Errorf(name, "%s", message).WithData(Data(true, mcp.ExecutedNo))
}

// Data is the data of an error of the gateway's own.
func Data(retryable bool, executed mcp.Executed) mcp.Raw {
	return mcp.Raw(fmt.Sprintf(`{"retryable":%t,"executed":%q}`, retryable, executed))
}

// MissingCapability is MissingRequiredClientCapabilityError (2026-07-28 basic/index).
func MissingCapability(required mcp.Raw) *mcp.Error {
	return mcp.Errorf(failure.MissingCapability, "Missing required client capability").
		WithData(mcp.Object("requiredCapabilities", required))
}

// HeaderMismatch is the error for a header that contradicts the body.
func HeaderMismatch(format string, args ...any) *mcp.Error {
	return mcp.Errorf(failure.HeaderMismatch, format, args...)
}

// InvalidParams is the error for wrong params.
func InvalidParams(format string, args ...any) *mcp.Error {
	return mcp.Errorf(failure.InvalidParams, "Invalid params: "+format, args...)
}
