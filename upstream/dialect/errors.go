package dialect

import (
	"errors"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// What the dialects find out, besides what the transports do.
var (
	// ErrWrongEra: the server refused a request in a way that servers of the expected era
	// do not. The request did not run.
	ErrWrongEra = errors.New("the server does not speak the dialect it spoke before")
	// ErrNotStarted: what a call needs, such as a session, is not available.
	ErrNotStarted = errors.New("not started")
	// ErrClosed: the upstream was closed during the call; admit.ErrDraining: before it.
	ErrClosed = errors.New("upstream closed")
)

// Inner translates an error with which an upstream refused a call into the inner language.
func Inner(upstream string, c *mcp.Call, err error) error {
	e, ok := errors.AsType[*mcp.Error](err)
	switch {
	case !ok:
		return err
	case e.Code == mcp.CodeURLElicitation: // what it asks has become a question, or cannot be asked
		return HopError(upstream, e)
	case !mcp.CanAsk(c.Method):
		return err
	}
	switch {
	case e.Code == mcp.CodeResourceNotFound && c.Method == mcp.MethodResourcesRead:
		data := e.Data
		if _, ok := data.Member("uri"); !ok {
			data = data.Edit(mcp.Edit{Name: "uri", Value: mcp.String(c.Name)})
		}
		return &mcp.Error{Code: mcp.CodeInvalidParams, Message: e.Message, Data: data}
	case e.Code == mcp.CodeMethodNotFound:
		// It is this server that does not know the method: the gateway does.
		return &mcp.Error{Code: e.Code, Message: e.Message, Data: e.Data.Edit(mcp.Edit{Name: "upstream", Value: mcp.String(upstream)})}
	}
	return err
}

// NotOurs returns an error of a server to which these capabilities were declared, without the
// codes by which 2026-07-28 judges a request: from a stateful server, or out of a task, they
// would tell the client that something is wrong with its request to the gateway. A client is
// still told of a capability that it really lacks.
func (c Capabilities) NotOurs(e *mcp.Error) *mcp.Error {
	if required := e.Data.At("requiredCapabilities"); e.Code == mcp.CodeMissingCapability && required.IsObject() && !c.Has(required) {
		return e
	}
	return NotOurs(e)
}

// NotOurs is the same for a server of which nothing is known.
func NotOurs(e *mcp.Error) *mcp.Error {
	switch e.Code {
	case mcp.CodeHeaderMismatch, mcp.CodeMissingCapability, mcp.CodeUnsupportedVersion:
		return &mcp.Error{Code: mcp.CodeInternal, Message: e.Message,
			Data: mcp.Object("upstreamCode", mcp.Int(int64(e.Code)), "upstreamMessage", mcp.String(e.Message))}
	}
	return e
}

// TaskError returns the error of a failed task as a client may read it: nobody has checked
// the URL that it may ask the user to open.
func TaskError(upstream string, failed mcp.Raw) mcp.Raw {
	if wire.ReadError(failed).Code != mcp.CodeURLElicitation {
		return failed
	}
	return mcp.Object("code", mcp.Int(mcp.CodeInternal),
		"message", mcp.String("Upstream "+upstream+" needs the user to open a page first: make the call without a task"))
}

// HopError returns the error for one that describes the hop between gateway and server, about
// which the client can do nothing.
func HopError(upstream string, e *mcp.Error) *mcp.Error {
	out := mcp.UpstreamError(mcp.CodeInternal, upstream, mcp.ExecutedNo,
		"Upstream %s does not accept the gateway's requests", upstream)
	out.Data = out.Data.With("reason", mcp.String(e.Message))
	return out
}

// Unasked ends a call for which the user cannot be asked or has refused: a call of a tool
// with a result that a model can read, any other with an error.
func Unasked(upstream string, c *mcp.Call, format string, args ...any) (*mcp.Reply, error) {
	e := mcp.UpstreamError(mcp.CodeInternal, upstream, mcp.ExecutedUnknown, format, args...)
	if c.Method != mcp.MethodToolsCall {
		return nil, e
	}
	block := mcp.Object("type", mcp.Raw(`"text"`), "text", mcp.String(e.Message))
	return &mcp.Reply{Result: mcp.Object("content", mcp.Array(block), "isError", mcp.Raw("true"))}, nil
}
