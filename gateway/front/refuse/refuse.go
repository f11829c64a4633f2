// Package refuse maps errors to HTTP statuses and bodies.
//
// It owns the answers to requests that do not become calls (Refusal), the errors that the
// endpoint itself makes, and what a client may read of any other error (Readable). It leaves
// writing, counting and logging to gateway/front. It starts no goroutines.
//
// Every answer to a POST that is not 2xx carries a JSON-RPC error with the request's id;
// otherwise official clients take the connection for dead. Only a lost session has the id
// null; otherwise they never notice it.
package refuse

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// Refusal is the answer to a request that did not become a call. It is an error, for calls
// that the endpoint makes itself.
type Refusal struct {
	Status int
	Err    *mcp.Error
	ID     IDRule
	Close  bool  // closes the connection: its input may be out of step
	Bound  Bound // the bound that was reached, "" for none
	Retry  bool  // adds Retry-After: the trouble should pass

	allow string // the Allow header
}

// IDRule selects the id in the body of a refusal.
type IDRule uint8

const (
	OwnID  IDRule = iota // the request's id, or null if it is unknown
	NullID               // null
	NoID                 // none: no request was read
)

// Bound names a bound on what clients can use. Refusals are counted by it.
type Bound string

// The bounds.
const (
	BoundStreams   Bound = "streams"
	BoundSessions  Bound = "sessions"
	BoundMemory    Bound = "memory" // of large requests
	BoundRequests  Bound = "requests"
	BoundQuestions Bound = "questions"
)

// Bounds returns all bounds.
func Bounds() []Bound {
	return []Bound{BoundStreams, BoundSessions, BoundMemory, BoundRequests, BoundQuestions}
}

// Statuses returns the statuses of refusals.
func Statuses() []int {
	return []int{
		http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusNotAcceptable, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable,
	}
}

// Error returns the message that the client reads.
func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap returns the error that the client reads.
func (r *Refusal) Unwrap() error { return r.Err }

// Body sets the headers of a refusal and returns its body. id is the request's id.
func (r *Refusal) Body(h http.Header, id mcp.Raw) mcp.Raw {
	if r.allow != "" {
		h.Set("Allow", r.allow)
	}
	if r.Retry {
		h.Set(HeaderRetryAfter, RetryAfter(r.Err))
	}
	if r.Close {
		h.Set("Connection", "close")
	}
	if r.ID != OwnID {
		id = nil
	}
	body := mcp.Raw(wire.AppendError(nil, id, r.Err))
	if r.ID == NoID {
		body = body.Without("id")
	}
	return body
}

// maxRetryAfter bounds the value of Retry-After, in seconds.
const maxRetryAfter = 24 * 60 * 60

// HeaderRetryAfter is the header with the wait before the next attempt.
const HeaderRetryAfter = "Retry-After"

// RetryAfter is the value of Retry-After: the member retry_after of an error's data, in whole
// seconds; one second if it is missing.
func RetryAfter(e *mcp.Error) string {
	seconds, err := strconv.ParseUint(string(e.Data.At("retry_after")), 10, 32)
	if err != nil {
		seconds = 1
	}
	return strconv.FormatUint(min(max(seconds, 1), maxRetryAfter), 10)
}

// Method refuses an HTTP method. allow lists the methods that are served.
func Method(allow string) *Refusal {
	return &Refusal{Status: http.StatusMethodNotAllowed, allow: allow, ID: NoID,
		Err: mcp.Errorf(failure.HTTPMethod, "this method is not served here: use %s", allow)}
}

// Forbidden refuses what no caller may do, such as a request from a foreign web page.
func Forbidden(name failure.Name, format string, args ...any) *Refusal {
	return &Refusal{Status: http.StatusForbidden, ID: NoID, Err: mcp.Errorf(name, format, args...)}
}

// Loop refuses a request that this gateway itself has sent.
func Loop() *Refusal {
	return &Refusal{Status: http.StatusLoopDetected, ID: NoID,
		Err: mcp.Errorf(failure.HTTPLoop, "this is the gateway itself: take the upstream out whose url leads here")}
}

// Media refuses a body of another media type.
func Media(format string, args ...any) *Refusal {
	return &Refusal{Status: http.StatusUnsupportedMediaType, Close: true,
		Err: mcp.Errorf(failure.HTTPMedia, format, args...)}
}

// Accept refuses a client that does not accept the media types of the answer.
func Accept(want string) *Refusal {
	return &Refusal{Status: http.StatusNotAcceptable, Err: mcp.Errorf(failure.HTTPAccept, "Accept must allow %s", want)}
}

// Large refuses a body of more than limit bytes.
func Large(limit int64) *Refusal {
	return &Refusal{Status: http.StatusRequestEntityTooLarge, Close: true,
		Err: mcp.Errorf(failure.RequestTooLarge, "the request is larger than %d bytes", limit)}
}

// Full refuses a large request while large messages fill the memory for them.
func Full() *Refusal {
	return &Refusal{Status: http.StatusServiceUnavailable, Retry: true, Close: true, Bound: BoundMemory,
		Err: notRun(failure.NoRoom, "the gateway has no room for a large request now: try again")}
}

// Slow refuses a body that does not arrive in time.
func Slow() *Refusal {
	return &Refusal{Status: http.StatusRequestTimeout, Close: true,
		Err: mcp.Errorf(failure.RequestSlow, "the request's body did not come in time")}
}

// Cut refuses a body that ends early.
func Cut() *Refusal {
	return &Refusal{Status: http.StatusBadRequest, Close: true,
		Err: mcp.Errorf(failure.RequestCut, "Parse error: the body ended early")}
}

// Bad refuses an invalid request with an *mcp.Error.
func Bad(err error) *Refusal {
	e, ok := errors.AsType[*mcp.Error](err)
	if !ok {
		return Internal("")
	}
	status := http.StatusBadRequest
	if e.Code == mcp.CodeMethodNotFound {
		status = http.StatusNotFound
	}
	return &Refusal{Status: status, Err: e}
}

// Invalid is Bad with an error for an invalid request.
func Invalid(format string, args ...any) *Refusal {
	return Bad(mcp.Errorf(failure.InvalidRequest, format, args...))
}

// Version is UnsupportedProtocolVersionError (2026-07-28 basic/versioning).
func Version(requested string) *Refusal {
	return Bad(mcp.Errorf(failure.UnsupportedVersion, "Unsupported protocol version").
		WithData(mcp.Object("supported", mcp.Strings([]string{wire.Stateless().Name}), "requested", mcp.String(requested))))
}

// Internal answers after a failure of our own; callID is in the log.
func Internal(callID string) *Refusal {
	return &Refusal{Status: http.StatusInternalServerError, Err: internal(callID)}
}

// Closing refuses requests that come while the gateway is stopping.
func Closing() *Refusal {
	return &Refusal{Status: http.StatusServiceUnavailable, Retry: true, Close: true, Err: ClosingError(mcp.ExecutedNo)}
}

// Lost answers requests that were lost with a replica and cannot have responses of their own.
func Lost() *Refusal {
	return &Refusal{Status: http.StatusServiceUnavailable, ID: NullID, Err: LostError()}
}

// Session translates an error of the session store. ok is false for any other error, which the
// caller must log.
func Session(err error) (r *Refusal, ok bool) {
	switch {
	case errors.Is(err, session.ErrNotFound):
		return lost(mcp.Errorf(failure.SessionNotFound, "the session does not exist: start a new one with initialize")), true
	case errors.Is(err, session.ErrTooMany):
		return tooMany(OwnID, BoundSessions, failure.TooManySessions, "too many sessions: end one with DELETE, or wait"), true
	case errors.Is(err, session.ErrTooLarge):
		return Bad(mcp.Errorf(failure.SessionFull, "Invalid params: this is more than a session can hold")), true
	case errors.Is(err, session.ErrUnavailable), errors.Is(err, session.ErrMoved): // the owner answers the next attempt
		return &Refusal{Status: http.StatusServiceUnavailable, Retry: true,
			Err: notRun(failure.StoreDown, "sessions are not available now")}, true
	}
	return Internal(""), false
}

// Ended answers a call when its session ended, or was lost, while it ran.
func Ended() *Refusal {
	return lost(mayHaveRun(failure.SessionEnded,
		"the session ended while this call ran, which may or may not have come to its end: start a new session with initialize"))
}

// NoStream refuses a message of HTTP+SSE that has no stream.
func NoStream() *Refusal {
	return lost(mcp.Errorf(failure.StreamNotFound, "there is no such stream, any more: open one by GET"))
}

// Streams refuses a stream to a user who is at the bound for event streams.
func Streams(id IDRule) *Refusal {
	return tooMany(id, BoundStreams, failure.TooManyStreams,
		"too many event streams of this user are open: end one, or wait")
}

// Silent refuses a stream to a user who opens streams of HTTP+SSE without beginning sessions.
func Silent() *Refusal {
	return tooMany(NoID, BoundStreams, failure.TooManyStreams, "too many streams are open on which no session was begun")
}

// Busy refuses a request of a client that does not wait for its answers.
func Busy() *Refusal {
	return tooMany(OwnID, BoundRequests, failure.TooManyRequests,
		"too many requests of this client are under way: wait for answers")
}

// Clients refuses a request when its user has too many clients.
func Clients() *Refusal {
	return tooMany(OwnID, BoundSessions, failure.TooManySessions,
		"too many clients of this user, by their names, are in use: wait, or name them alike")
}

func lost(e *mcp.Error) *Refusal { return &Refusal{Status: http.StatusNotFound, ID: NullID, Err: e} }

func tooMany(id IDRule, bound Bound, name failure.Name, message string) *Refusal {
	return &Refusal{Status: http.StatusTooManyRequests, ID: id, Retry: true, Bound: bound, Err: notRun(name, message)}
}
