package wire

import "github.com/gatehouse-mcp/gatehouse/internal/mcp"

// Revision describes one revision of the protocol. The inner language follows the newest
// one. Each older one has a file with its differences from the next newer one. A Revision
// never changes.
type Revision struct {
	// Name is a date, as it is negotiated.
	Name string
	// Stateful means that there is a handshake and a session. Otherwise each request is
	// complete in itself.
	Stateful bool
	// Batches means that a client may send several messages in an array.
	Batches bool
	// VersionHeader means that requests after the handshake carry HeaderVersion.
	VersionHeader bool
	// Priming means that a stream begins with an event that has an id and no data.
	Priming bool
	// ElicitationIDs means that a question with a URL has an id. A notification names it when the
	// user has finished there.
	ElicitationIDs bool
	// CoreTasks means that a client may ask the server to run a tools/call as a task.
	CoreTasks bool

	next     *Revision // the next newer one; nil for the one that is nearest to the inner language
	clients  []capability
	servers  []capability
	item     func(listMethod string, item mcp.Raw) mcp.Raw
	result   func(method string, result mcp.Edited) mcp.Edited
	event    func(method string, params mcp.Raw) mcp.Raw
	params   func(method string, params mcp.Raw) mcp.Raw
	identity func(info mcp.Raw) mcp.Raw
	error    func(method string, e *mcp.Error) *mcp.Error
	ask      func(method string, params mcp.Raw) (mcp.Raw, error)
	answer   func(method string, answer mcp.Raw) (mcp.Raw, error)
}

// Revisions returns all revisions, oldest first.
func Revisions() []*Revision {
	return []*Revision{&rev20241105, &rev20250326, &rev20250618, &rev20251125, &rev20260728}
}

// Lookup returns the revision of this name, nil for an unknown one.
func Lookup(name string) *Revision {
	for _, r := range Revisions() {
		if r.Name == name {
			return r
		}
	}
	return nil
}

// Stateless returns the revision without sessions.
func Stateless() *Revision { return &rev20260728 }

// NewestStateful returns the newest revision with sessions.
func NewestStateful() *Revision { return &rev20251125 }

// AssumedStateful returns the revision of a client that does not name one (2025-11-25
// basic/transports#protocol-version-header).
func AssumedStateful() *Revision { return &rev20250326 }

// Negotiate returns the revision that answers an initialize request: the requested one, or
// the newest stateful one if the requested one is unknown or stateless (2025-11-25
// basic/lifecycle#version-negotiation).
func Negotiate(requested string) *Revision {
	if r := Lookup(requested); r != nil && r.Stateful {
		return r
	}
	return NewestStateful()
}

// Item converts an item of a list for a client of this revision: the same bytes when
// nothing has to go. Schemas stay as they are.
func (r *Revision) Item(listMethod string, item mcp.Raw) mcp.Raw {
	if r.next != nil {
		item = r.next.Item(listMethod, item)
	}
	if r.item != nil {
		item = r.item(listMethod, item)
	}
	return item
}

// Result converts a result for a client of this revision: without an edit when nothing has
// to change. It removes what the revision lacks, and adds nothing that the revision
// requires.
func (r *Revision) Result(method string, result mcp.Edited) mcp.Edited {
	if r.next != nil {
		result = r.next.Result(method, result)
	}
	if r.result != nil {
		result = r.result(method, result)
	}
	return result
}

// Event converts the params of a notification for a client of this revision: the same bytes
// when nothing has to go.
func (r *Revision) Event(method string, params mcp.Raw) mcp.Raw {
	if r.next != nil {
		params = r.next.Event(method, params)
	}
	if r.event != nil {
		params = r.event(method, params)
	}
	return params
}

// Params converts the params of a client's request for a server of this revision: the same
// bytes when nothing has to go. It leaves _meta to the caller.
func (r *Revision) Params(method string, params mcp.Raw) mcp.Raw {
	if r.next != nil {
		params = r.next.Params(method, params)
	}
	if r.params != nil {
		params = r.params(method, params)
	}
	return params
}

// Identity reduces a clientInfo or serverInfo to what this revision knows.
func (r *Revision) Identity(info mcp.Raw) mcp.Raw {
	if r.next != nil {
		info = r.next.Identity(info)
	}
	if r.identity != nil {
		info = r.identity(info)
	}
	return info
}

// Error converts an error for a client of this revision: e itself when nothing has to
// change.
func (r *Revision) Error(method string, e *mcp.Error) *mcp.Error {
	if e == nil {
		return nil
	}
	if r.next != nil {
		e = r.next.Error(method, e)
	}
	if r.error != nil {
		e = r.error(method, e)
	}
	return e
}

// ServerCaps reduces a ServerCapabilities object to what this revision knows.
func (r *Revision) ServerCaps(caps mcp.Raw) mcp.Raw { return cut(caps, r.servers) }

// ClientCaps reduces a ClientCapabilities object to what this revision knows, for a server or from
// a client.
func (r *Revision) ClientCaps(caps mcp.Raw) mcp.Raw { return cut(caps, r.clients) }
