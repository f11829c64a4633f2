package wire

import (
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func (s *scanner) parseError() *mcp.Error {
	return mcp.Errorf(failure.Parse, "Parse error: at byte %d %s", s.at, s.why)
}

func invalid(why string) *mcp.Error {
	return mcp.Errorf(failure.InvalidRequest, "Invalid request: %s", why)
}

// usableID returns the id if an answer may contain it.
func (e *envelope) usableID() mcp.Raw {
	if badID(e.id) != "" {
		return nil
	}
	return e.id
}

// badID says what is wrong with an id, "" if nothing is.
func badID(id mcp.Raw) string {
	switch {
	case len(id) == 0:
		return "an id is missing"
	case len(id) > MaxID:
		return "the id is too long"
	case id[0] != '"' && id[0] != '-' && (id[0] < '0' || id[0] > '9'):
		return "the id is neither a string nor a number"
	}
	return ""
}

// clientMessage applies the rules for what clients send.
func (e *envelope) clientMessage() (Message, error) {
	m := Message{ID: e.usableID()}
	if e.id != nil && m.ID == nil && !(e.method == nil && e.id.IsNull()) {
		return m, invalid(badID(e.id))
	}
	if e.method == nil {
		if e.result != nil && e.err.IsNull() {
			e.err = nil
		}
		if e.result != nil && e.err != nil {
			return m, invalid("a response has a result or an error, not both")
		}
		return e.response(m)
	}
	if e.result != nil || e.err != nil {
		return m, invalid("a method stands beside a result or an error")
	}
	m, err := e.call(m)
	if err == nil && m.Kind == Request && strings.HasPrefix(m.Method, "notifications/") {
		return m, invalid("a notification has an id")
	}
	return m, err
}

// upstreamMessage applies the rules for what upstreams send.
func (e *envelope) upstreamMessage() (Message, error) {
	m := Message{ID: e.usableID()}
	if e.id != nil && m.ID == nil && !e.id.IsNull() {
		return m, invalid(badID(e.id))
	}
	if e.method != nil {
		return e.call(m)
	}
	if e.err != nil && e.result != nil {
		if e.err.IsNull() {
			e.err = nil
		} else {
			e.result = nil
		}
	}
	return e.response(m)
}

// call makes m a request or a notification.
func (e *envelope) call(m Message) (Message, error) {
	if string(e.version) != `"2.0"` {
		return m, invalid(`jsonrpc is not "2.0"`)
	}
	var ok bool
	if m.Method, ok = methodName(e.method); !ok {
		return m, invalid("the method is not a name")
	}
	m.Kind = Notification
	if e.id != nil {
		if m.Kind = Request; m.ID == nil {
			return m, invalid("the id is null")
		}
	}
	if !e.params.IsNull() {
		if !e.params.IsObject() {
			return m, mcp.Errorf(failure.InvalidParams, "Invalid params: params is not an object")
		}
		m.Params, m.Outline = e.params, e.outline
	}
	return m, nil
}

// response makes m a response. Only an error may lack an id: its sender could not read the
// id of the request.
func (e *envelope) response(m Message) (Message, error) {
	if string(e.version) != `"2.0"` {
		return m, invalid(`jsonrpc is not "2.0"`)
	}
	if e.result == nil && e.err == nil {
		return m, invalid("neither a method nor a result nor an error is there")
	}
	if e.err == nil && m.ID == nil {
		return m, invalid("a result has no id")
	}
	m.Kind, m.Result, m.Error, m.Outline = Response, e.result, e.err, e.outline
	return m, nil
}

// methodName reads a method's name; ok is false for anything else. Common names are read
// without an allocation.
func methodName(raw mcp.Raw) (name string, ok bool) {
	if len(raw) < 3 || len(raw) > 6*MaxMethod+2 || raw[0] != '"' {
		return "", false
	}
	if name := knownMethod(raw[1 : len(raw)-1]); name != "" {
		return name, true
	}
	name, ok = raw.StringValue()
	if !ok || name == "" || len(name) > MaxMethod || !NameOK(raw) {
		return "", false
	}
	return name, strings.IndexFunc(name, isControl) < 0
}

func isControl(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 }

// knownMethod returns the method's name without allocating, "" for unknown ones.
func knownMethod(name []byte) string {
	switch string(name) {
	case mcp.MethodToolsCall:
		return mcp.MethodToolsCall
	case mcp.MethodToolsList:
		return mcp.MethodToolsList
	case mcp.MethodResourcesRead:
		return mcp.MethodResourcesRead
	case mcp.MethodResourcesList:
		return mcp.MethodResourcesList
	case mcp.MethodResourceTemplatesList:
		return mcp.MethodResourceTemplatesList
	case mcp.MethodPromptsGet:
		return mcp.MethodPromptsGet
	case mcp.MethodPromptsList:
		return mcp.MethodPromptsList
	case mcp.MethodComplete:
		return mcp.MethodComplete
	case mcp.MethodDiscover:
		return mcp.MethodDiscover
	case mcp.MethodInitialize:
		return mcp.MethodInitialize
	case mcp.MethodPing:
		return mcp.MethodPing
	case mcp.MethodListen:
		return mcp.MethodListen
	case mcp.NoteInitialized:
		return mcp.NoteInitialized
	case mcp.NoteProgress:
		return mcp.NoteProgress
	case mcp.NoteMessage:
		return mcp.NoteMessage
	case mcp.NoteCancelled:
		return mcp.NoteCancelled
	}
	return ""
}
