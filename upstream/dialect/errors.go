package dialect

import (
	"errors"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// Inner returns an error with which an upstream refused a call as the inner language has it.
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
	data := e.Data
	if !data.IsObject() {
		data = nil
	}
	switch {
	case e.Code == mcp.CodeResourceNotFound && c.Method == mcp.MethodResourcesRead:
		if _, ok := data.Member("uri"); !ok {
			data = data.Edit(mcp.Edit{Name: "uri", Value: mcp.String(c.Name)})
		}
		return &mcp.Error{Code: mcp.CodeInvalidParams, Message: e.Message, Data: data}
	case e.Code == mcp.CodeMethodNotFound:
		// It is this server that does not know the method: the gateway does.
		return &mcp.Error{Code: e.Code, Message: e.Message, Data: data.Edit(mcp.Edit{Name: "upstream", Value: mcp.String(upstream)})}
	}
	return err
}

// NotOurs returns an error of a server that was told of these capabilities without the
// codes by which 2026-07-28 judges a request: from a server with sessions, or out of a
// task, they would tell the client that something is wrong with its request to the
// gateway. What a client really lacks, it is to be told.
func (c Capabilities) NotOurs(e *mcp.Error) *mcp.Error {
	if required, _ := e.Data.Member("requiredCapabilities"); e.Code == mcp.CodeMissingCapability && required.IsObject() && !c.Has(required) {
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

// TaskError returns the error with which a task of an upstream has failed as a client may read it: what it
// asks the user was judged by nobody.
func TaskError(upstream string, failed mcp.Raw) mcp.Raw {
	if wire.ReadError(failed).Code != mcp.CodeURLElicitation {
		return failed
	}
	return mcp.Object("code", mcp.Int(mcp.CodeInternal),
		"message", mcp.String("Upstream "+upstream+" needs the user to open a page first: make the call without a task"))
}

// HopError is for errors that describe the hop between gateway and server, which the
// client can do nothing about.
func HopError(upstream string, e *mcp.Error) *mcp.Error {
	out := mcp.UpstreamError(mcp.CodeInternal, upstream, mcp.ExecutedNo,
		"Upstream %s does not accept the gateway's requests", upstream)
	out.Data = out.Data.With("reason", mcp.String(e.Message))
	return out
}
