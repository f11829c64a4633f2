package dialect

import (
	"errors"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// Errors of the dialects, in addition to those of transports.
var (
	// ErrWrongEra: the server refused a request in a way that servers of the expected era
	// never do. The request did not run.
	ErrWrongEra = errors.New("the server does not speak the dialect it spoke before")
	// ErrNotStarted: something that a call needs, such as a session, is not available.
	ErrNotStarted = errors.New("not started")
	// ErrClosed: the upstream was closed during the call. If it was closed before, the
	// error is admit.ErrDraining.
	ErrClosed = errors.New("upstream closed")
	// ErrSessionEnded: the gateway ended the session during the call, and not the upstream.
	ErrSessionEnded = errors.New("session ended")
)

// Inner translates an error with which an upstream refused a call into the inner language.
func Inner(upstream string, c *mcp.Call, err error) error {
	e, ok := errors.AsType[*mcp.Error](err)
	switch {
	case !ok:
		return err
	case e.Code == mcp.CodeURLElicitation: // its questions have already been put, or cannot be
		return HopError(upstream, e)
	case !mcp.CanAsk(c.Method):
	case e.Code == mcp.CodeResourceNotFound && c.Method == mcp.MethodResourcesRead:
		data := e.Data
		if _, ok := data.Member("uri"); !ok {
			data = data.Edit(mcp.Edit{Name: "uri", Value: mcp.String(c.Name)})
		}
		return e.WithCode(mcp.CodeInvalidParams).WithData(data)
	case e.Code == mcp.CodeMethodNotFound:
		// The server does not know the method; the gateway does.
		return e.WithData(e.Data.Edit(mcp.Edit{Name: "upstream", Value: mcp.String(upstream)}))
	}
	return err
}

// NotOurs returns a server's error without the codes by which 2026-07-28 judges a request.
// From a stateful server, or out of a task, these codes would tell the client that its
// request to the gateway is wrong. An error that names a capability which the client really
// lacks is returned unchanged.
func (c Capabilities) NotOurs(e *mcp.Error) *mcp.Error {
	if required := e.Data.At("requiredCapabilities"); e.Code == mcp.CodeMissingCapability && required.IsObject() &&
		!c.Has(required) {
		return e
	}
	return NotOurs(e)
}

// NotOurs is the same for a server to which nothing is known to be declared.
func NotOurs(e *mcp.Error) *mcp.Error {
	switch e.Code {
	case mcp.CodeHeaderMismatch, mcp.CodeMissingCapability, mcp.CodeUnsupportedVersion:
		return e.WithCode(mcp.CodeInternal).WithData(mcp.Object("upstreamCode", mcp.Int(int64(e.Code)), "upstreamMessage",
			mcp.String(e.Message)))
	}
	return e
}

// TaskError returns the error of a failed task as a client may read it. A URL that it asks
// the user to open was never checked.
func TaskError(upstream string, failed mcp.Raw) mcp.Raw {
	if wire.ReadError(failed).Code != mcp.CodeURLElicitation {
		return failed
	}
	return mcp.Errorf(failure.QuestionImpossible,
		"Upstream %s needs the user to open a page first: make the call without a task", upstream).AppendTo(nil)
}

// HopError returns the error to report for one about the hop between gateway and server: the client
// cannot fix that.
func HopError(upstream string, e *mcp.Error) *mcp.Error {
	out := mcp.UpstreamError(failure.UpstreamRefuses, upstream, mcp.ExecutedNo,
		"Upstream %s does not accept the gateway's requests", upstream)
	out.Data = out.Data.With("reason", mcp.String(e.Message))
	return out
}

// Unasked ends a call because its user cannot be asked or has refused. A tool call gets a result
// that a model can read, any other call an error.
func Unasked(upstream string, c *mcp.Call, format string, args ...any) (*mcp.Reply, error) {
	e := mcp.UpstreamError(failure.QuestionUnanswered, upstream, mcp.ExecutedUnknown, format, args...)
	if c.Method != mcp.MethodToolsCall {
		return nil, e
	}
	return &mcp.Reply{Result: mcp.ToolResult(true, mcp.TextContent(e.Message))}, nil
}
