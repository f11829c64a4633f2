package front

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// This file alone knows which HTTP status an error has and what its body looks
// like. Every non-2xx answer to a POST carries a JSON-RPC error with the request's
// id, or official clients take the connection for dead; only a lost session has
// the id null, or they never notice it.

// Causes of a cancelled call. Handlers return them, and know them for what they are.
var (
	errCancelled = fmt.Errorf("front: cancelled by its client: %w", context.Canceled)
	errEnded     = fmt.Errorf("front: its session has ended: %w", context.Canceled)
	errClosing   = fmt.Errorf("front: the gateway is closing: %w", context.Canceled)
	errFenced    = fmt.Errorf("front: another replica owns its session: %w", context.Canceled)
	errExpired   = fmt.Errorf("front: its caller's proof has expired: %w", context.Canceled)
)

// refusal is the answer to a request that did not become a call.
type refusal struct {
	status int
	err    *mcp.Error
	id     idRule
	allow  string // the Allow header
	retry  bool   // with Retry-After: the trouble should pass
	close  bool   // ends the connection: its input cannot be trusted to be in step
	bound  bound  // that was reached, "" for none
}

// refusedError is a refusal as the error of a call that the front itself makes.
type refusedError struct{ *refusal }

func (e *refusedError) Error() string { return e.err.Error() }

// idRule says which id the body of a refusal has.
type idRule uint8

const (
	ownID  idRule = iota // the request's, or null where it is not known
	nullID               // null
	noID                 // none: no request was looked at
)

// What ServeHTTP refuses before it reads a body.

func refuseMethod(allow string) *refusal {
	return &refusal{status: http.StatusMethodNotAllowed, allow: allow, id: noID,
		err: mcp.Errorf(mcp.CodeInvalidRequest, "this method is not served here: use %s", allow)}
}

func refuseForbidden(format string, args ...any) *refusal {
	return &refusal{status: http.StatusForbidden, id: noID, err: mcp.Errorf(mcp.CodeInvalidRequest, format, args...)}
}

func refuseMedia(format string, args ...any) *refusal {
	return &refusal{status: http.StatusUnsupportedMediaType, close: true, err: mcp.Errorf(mcp.CodeInvalidRequest, format, args...)}
}

func refuseAccept(want string) *refusal {
	return &refusal{status: http.StatusNotAcceptable, err: mcp.Errorf(mcp.CodeInvalidRequest, "Accept must allow %s", want)}
}

func refuseLarge(limit int64) *refusal {
	return &refusal{status: http.StatusRequestEntityTooLarge, close: true,
		err: mcp.Errorf(mcp.CodeInvalidRequest, "the request is larger than %d bytes", limit)}
}

// refuseFull is for a large request while large messages fill the memory for them.
func refuseFull() *refusal {
	return &refusal{status: http.StatusServiceUnavailable, retry: true, close: true, bound: boundMemory,
		err: &mcp.Error{Code: mcp.CodeOverloaded, Message: "the gateway has no room for a large request now: try again", Data: ownData(true, mcp.ExecutedNo)}}
}

func refuseSlow() *refusal {
	return &refusal{status: http.StatusRequestTimeout, close: true,
		err: mcp.Errorf(mcp.CodeInvalidRequest, "the request's body did not come in time")}
}

func refuseCut() *refusal {
	return &refusal{status: http.StatusBadRequest, close: true,
		err: mcp.Errorf(mcp.CodeParse, "Parse error: the body ended early")}
}

// refuseBad is a request that is wrong as it stands.
func refuseBad(err error) *refusal {
	e, ok := errors.AsType[*mcp.Error](err)
	if !ok {
		return refuseInternal("")
	}
	status := http.StatusBadRequest
	if e.Code == mcp.CodeMethodNotFound {
		status = http.StatusNotFound
	}
	return &refusal{status: status, err: e}
}

func refuseInvalid(format string, args ...any) *refusal {
	return refuseBad(mcp.Errorf(mcp.CodeInvalidRequest, format, args...))
}

// refuseVersion is UnsupportedProtocolVersionError (2026-07-28 basic/versioning).
func refuseVersion(requested string) *refusal {
	e := mcp.Errorf(mcp.CodeUnsupportedVersion, "Unsupported protocol version")
	e.Data = mcp.Object("supported", supportedVersions(), "requested", mcp.String(requested))
	return refuseBad(e)
}

func refuseInternal(callID string) *refusal {
	return &refusal{status: http.StatusInternalServerError, err: internalError(callID)}
}

func refuseClosing() *refusal {
	return &refusal{status: http.StatusServiceUnavailable, retry: true, close: true, err: closingError(mcp.ExecutedNo)}
}

// refuseSession translates what the session store answers.
func (f *Front) refuseSession(err error) *refusal {
	switch {
	case errors.Is(err, session.ErrNotFound):
		return &refusal{status: http.StatusNotFound, id: nullID,
			err: mcp.Errorf(mcp.CodeInvalidRequest, "the session does not exist: start a new one with initialize")}
	case errors.Is(err, session.ErrTooMany):
		return &refusal{status: http.StatusTooManyRequests, retry: true, bound: boundSessions,
			err: &mcp.Error{Code: mcp.CodeRateLimited, Message: "too many sessions: end one with DELETE, or wait", Data: ownData(true, mcp.ExecutedNo)}}
	case errors.Is(err, session.ErrTooLarge):
		return refuseBad(mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: this is more than a session can hold"))
	case errors.Is(err, session.ErrUnavailable):
		return &refusal{status: http.StatusServiceUnavailable, retry: true,
			err: &mcp.Error{Code: mcp.CodeStoreUnavailable, Message: "sessions are not available now", Data: ownData(true, mcp.ExecutedNo)}}
	}
	f.log.Error("session store", "error", err)
	return refuseInternal("")
}

// refuseEnded is for a call whose session ended, or got lost, while it ran.
func refuseEnded() *refusal {
	e := mcp.Errorf(mcp.CodeInvalidRequest, "the session ended while this call ran, which may or may not have come to its end: start a new session with initialize")
	e.Data = ownData(false, mcp.ExecutedUnknown)
	return &refusal{status: http.StatusNotFound, id: nullID, err: e}
}

// refuseStream is for messages of HTTP+SSE that have no stream.
func refuseStream() *refusal {
	return &refusal{status: http.StatusNotFound, id: nullID,
		err: mcp.Errorf(mcp.CodeInvalidRequest, "there is no such stream, any more: open one by GET")}
}

// refuseStreams is for users who have as many event streams open as they may.
func refuseStreams(id idRule) *refusal {
	return &refusal{status: http.StatusTooManyRequests, retry: true, id: id, bound: boundStreams,
		err: &mcp.Error{Code: mcp.CodeRateLimited, Message: "too many event streams of this user are open: end one, or wait", Data: ownData(true, mcp.ExecutedNo)}}
}

// refuseSilent is for users of HTTP+SSE that open streams and say nothing.
func refuseSilent() *refusal {
	return &refusal{status: http.StatusTooManyRequests, retry: true, id: noID, bound: boundStreams,
		err: &mcp.Error{Code: mcp.CodeRateLimited, Message: "too many streams are open on which no session was begun", Data: ownData(true, mcp.ExecutedNo)}}
}

// refuseBusy is for a client that does not wait for its answers.
func refuseBusy() *refusal {
	return &refusal{status: http.StatusTooManyRequests, retry: true, bound: boundRequests,
		err: &mcp.Error{Code: mcp.CodeOverloaded, Message: "too many requests of this client are under way: wait for answers", Data: ownData(true, mcp.ExecutedNo)}}
}

// refuse writes a refusal.
func (f *Front) refuse(w http.ResponseWriter, id mcp.Raw, r *refusal) {
	if r == forwarded {
		return
	}
	f.metrics.refuse(r)
	if r.id != ownID {
		id = nil
	}
	body := mcp.Raw(wire.AppendError(nil, id, r.err))
	if r.id == noID {
		body = body.Without("id")
	}
	h := w.Header()
	if r.allow != "" {
		h.Set("Allow", r.allow)
	}
	if r.retry {
		h[headerRetryAfter] = []string{retryAfter(r.err)}
	}
	if r.close {
		h.Set("Connection", "close")
		// net/http reads what is left of a body before it closes: not for long.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(leftoverTime))
	}
	f.writeJSON(w, r.status, body)
}

const headerRetryAfter = "Retry-After"

// retryAfter is the value of Retry-After: the member retry_after of an error's data,
// whole seconds, one where there is none.
func retryAfter(e *mcp.Error) string {
	after, _ := e.Data.Member("retry_after")
	seconds, err := strconv.ParseUint(string(after), 10, 32)
	if err != nil {
		seconds = 1
	}
	return strconv.FormatUint(min(max(seconds, 1), maxRetryAfter), 10)
}

// maxRetryAfter bounds what clients are told to wait, in seconds.
const maxRetryAfter = 24 * 60 * 60

// status is the HTTP status of a call's error (2026-07-28
// basic/transports/streamable-http, basic/index#error-codes). Inside a session it
// is 200 whatever happened to the call, unless there was none, for there were too many.
func status(rev *wire.Revision, e *mcp.Error) int {
	if e.Code == mcp.CodeRateLimited {
		return http.StatusTooManyRequests
	}
	if rev.Stateful {
		return http.StatusOK
	}
	switch e.Code {
	case mcp.CodeMethodNotFound:
		return http.StatusNotFound
	case mcp.CodeHeaderMismatch, mcp.CodeMissingCapability, mcp.CodeUnsupportedVersion:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// readable turns the error of a call into what its client may read: anything but
// an *mcp.Error is ours and says no more than where to look. Its cause is in the log:
// handlers' errors by gateway/observe, through which they have come, the rest from here.
func (f *Front) readable(rev *wire.Revision, method, callID string, err error) *mcp.Error {
	e, ok := errors.AsType[*mcp.Error](err)
	if !ok {
		if errors.Is(err, errNoReply) {
			f.log.Error("internal error", "call", callID, "method", method, "error", err)
		}
		return internalError(callID)
	}
	if ours(e.Code) {
		data := e.Data
		if !data.IsObject() {
			data = nil
		}
		e = &mcp.Error{Code: e.Code, Message: e.Message, Data: data.Edit(mcp.Edit{Name: "request_id", Value: mcp.String(callID)})}
	}
	return rev.Error(method, e)
}

// ours reports whether a code is one of the gateway's own.
func ours(code int) bool {
	switch code {
	case mcp.CodeRateLimited, mcp.CodeUpstreamUnreachable, mcp.CodeUpstreamBadAnswer, mcp.CodeUpstreamAnswerTooLarge,
		mcp.CodeUpstreamAuthFailed, mcp.CodeUpstreamSessionLost, mcp.CodeDraining, mcp.CodeOverloaded,
		mcp.CodeStoreUnavailable, mcp.CodeUpstreamTimeout:
		return true
	}
	return false
}

func internalError(callID string) *mcp.Error {
	e := mcp.Errorf(mcp.CodeInternal, "internal error")
	if callID != "" {
		e.Data = mcp.Object("request_id", mcp.String(callID))
	}
	return e
}

func closingError(executed mcp.Executed) *mcp.Error {
	message := "the gateway is stopping: try again"
	if executed != mcp.ExecutedNo {
		message = "the gateway is stopping, and has cut this call off: see whether it has run before you make it again"
	}
	return &mcp.Error{Code: mcp.CodeDraining, Message: message, Data: ownData(executed == mcp.ExecutedNo, executed)}
}

// lostError is the answer to a call that was at a replica which has gone.
func lostError() *mcp.Error {
	e := mcp.Errorf(mcp.CodeUpstreamSessionLost, "the replica of the gateway that had this call is gone, and its result is lost: see whether it has run before you make it again")
	e.Data = ownData(false, mcp.ExecutedUnknown)
	return e
}

// droppedError is the answer to whoever comes back too late for an answer.
func droppedError() *mcp.Error {
	e := mcp.Errorf(mcp.CodeInternal, "the answer to this request was dropped, for its client was away for too long; what was asked may have been done")
	e.Data = ownData(false, mcp.ExecutedUnknown)
	return e
}

// expiredError is the answer to a call that cannot go on: whoever made it is not known
// to be who they were any more.
func expiredError() *mcp.Error {
	e := mcp.Errorf(mcp.CodeInvalidRequest, "the access token of this request has expired while it waited: make it again with a new one")
	e.Data = ownData(false, mcp.ExecutedUnknown)
	return e
}

func ownData(retryable bool, executed mcp.Executed) mcp.Raw {
	return mcp.Raw(fmt.Sprintf(`{"retryable":%t,"executed":%q}`, retryable, executed))
}

// missingCapability is MissingRequiredClientCapabilityError (2026-07-28 basic/index).
func missingCapability(required mcp.Raw) *mcp.Error {
	return &mcp.Error{Code: mcp.CodeMissingCapability, Message: "Missing required client capability",
		Data: mcp.Object("requiredCapabilities", required)}
}

func headerMismatch(format string, args ...any) *mcp.Error {
	return mcp.Errorf(mcp.CodeHeaderMismatch, format, args...)
}

func invalidParams(format string, args ...any) *mcp.Error {
	return mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: "+format, args...)
}

// isErrorResult is a failure as a tool's result, which a model can react to.
func isErrorResult(text string) mcp.Raw {
	return mcp.Object("content", mcp.Raw("["+string(mcp.Object("type", mcp.Raw(`"text"`), "text", mcp.String(text)))+"]"),
		"isError", mcp.Raw("true"))
}

// recovered logs a panic. http.ErrAbortHandler is net/http's own and goes on.
func (f *Front) recovered(cause any, callID string) {
	if cause == http.ErrAbortHandler {
		panic(cause)
	}
	f.log.Error("panic in a handler", slog.String("call", callID), slog.String("error", fmt.Sprint(cause)),
		slog.String("stack", strings.TrimSpace(string(debug.Stack()))))
}
