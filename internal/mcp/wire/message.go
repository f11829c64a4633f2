package wire

import (
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Kind is the kind of a message.
type Kind uint8

// Kinds of messages.
const (
	Request Kind = iota + 1
	Notification
	Response
)

// Message is one JSON-RPC message. Its parts alias the text that was scanned.
type Message struct {
	Kind Kind
	// ID is the id as written, quotes included; nil when there is none.
	ID mcp.Raw
	// Method of a request or notification, unescaped.
	Method string
	// Params is an object; nil when absent or null.
	Params mcp.Raw
	// A response has Result or Error.
	Result mcp.Raw
	Error  mcp.Raw
	// Outline is the outline of large Params or a large Result; else nil.
	Outline *mcp.Outline
}

// What stands around the parts of a message.
var (
	partStart  = []byte(envelopeStart)
	partID     = []byte(`,"id":`)
	partMethod = []byte(`,"method":`)
	partParams = []byte(`,"params":`)
	partResult = []byte(`,"result":`)
	partError  = []byte(`,"error":`)
	partNull   = []byte("null")
	partEnd    = []byte("}")
)

// Parts returns the message as text, in parts that alias it.
func (m Message) Parts() [][]byte {
	parts := append(make([][]byte, 0, 8), partStart)
	switch {
	case m.ID != nil:
		parts = append(parts, partID, m.ID)
	case m.Kind == Response:
		parts = append(parts, partID, partNull)
	}
	if m.Method != "" {
		parts = append(parts, partMethod, mcp.String(m.Method))
	}
	switch {
	case m.Params != nil:
		parts = append(parts, partParams, m.Params)
	case m.Error != nil:
		parts = append(parts, partError, m.Error)
	case m.Result != nil:
		parts = append(parts, partResult, m.Result)
	}
	return append(parts, partEnd)
}

// Scan checks the whole of data and reads it as a message of a client. The error is an
// *mcp.Error: CodeParse for text that is not JSON and for envelopes with ambiguous members,
// CodeInvalidRequest for an invalid envelope, CodeInvalidParams for params that are no
// object. Message.ID is set even with an error, if the id had been read by then.
func Scan(data []byte) (Message, error) {
	e, err := readDocument(data, len(data) >= outlined)
	if err != nil {
		return Message{ID: e.usableID()}, err
	}
	return e.clientMessage()
}

// ScanUpstream is Scan for a message of an upstream. It accepts whatever can be understood:
// an error wins over a result, a null error beside a result does not count, a result may be
// null.
func ScanUpstream(data []byte) (Message, error) {
	e, err := readDocument(data, len(data) >= outlined)
	if err != nil {
		return Message{ID: e.usableID()}, err
	}
	return e.upstreamMessage()
}

// envelope holds the members of a message as written; nil where absent.
type envelope struct {
	version, id, method, params, result, err mcp.Raw

	outline *mcp.Outline // of params or result, if wanted
}

// outlined is the size in bytes from which the params or the result of a message are outlined.
const outlined = 32 << 10

// member returns the field of the envelope for a member, nil for unknown ones.
func (e *envelope) member(name []byte) *mcp.Raw {
	switch string(name) {
	case "jsonrpc":
		return &e.version
	case "id":
		return &e.id
	case "method":
		return &e.method
	case "params":
		return &e.params
	case "result":
		return &e.result
	case "error":
		return &e.err
	}
	return nil
}

// readDocument reads a text that consists of one envelope.
func readDocument(data []byte, outline bool) (e envelope, err error) {
	s := scanner{b: data, outline: outline}
	i := s.space(0)
	if i >= len(data) {
		return e, mcp.Errorf(failure.Parse, "Parse error: the message is empty")
	}
	var notObject, twins *mcp.Error
	if data[i] != '{' {
		notObject = mcp.Errorf(failure.InvalidRequest, "Invalid request: the message is not an object")
		i = s.value(i, 0)
	} else {
		i, twins = e.read(&s, i)
	}
	if i < 0 {
		return e, s.parseError()
	}
	if i = s.space(i); i < len(data) {
		s.fail(i, "something follows its end")
		return e, s.parseError()
	}
	if notObject != nil {
		return e, notObject
	}
	if twins != nil {
		return e, twins
	}
	return e, nil
}

// read reads the object that begins at i and returns the index after it, -1 when it is not
// JSON. The error is about the names of its members.
func (e *envelope) read(s *scanner, i int) (end int, names *mcp.Error) {
	routed := [...]string{"jsonrpc", "id", "method", "params", "result", "error"}
	var small [8][]byte
	seen, ascii, ids := small[:0], true, 0
	if i = s.space(i + 1); i < len(s.b) && s.b[i] == '}' {
		return i + 1, nil
	}
	for {
		i = s.space(i)
		nameEnd, start := s.name(i)
		if nameEnd < 0 {
			return -1, nil
		}
		name := s.b[i+1 : nameEnd-1]
		start = s.space(start)
		if s.outline && (string(name) == "result" || string(name) == "params") {
			i, e.outline = s.outlineOf(start)
		} else {
			i = s.value(start, 1)
		}
		if i < 0 {
			return -1, nil
		}
		at := e.member(name)
		if names == nil {
			// The first occurrence of a known name needs no check: a name that differs from
			// it only in case fails its own check.
			if at == nil || *at != nil {
				ascii = ascii && isASCII(name)
				if why := badName(seen, name, ascii, routed[:]); why != "" {
					names = mcp.Errorf(failure.Parse, "Parse error: %s", why)
				}
			}
			seen = append(seen, name)
		}
		if at != nil {
			if at == &e.id {
				ids++
			}
			*at = s.b[start:i:i]
		}
		if i = s.space(i); i >= len(s.b) {
			return s.fail(i, "it ends too early"), nil
		}
		if s.b[i] == '}' {
			break
		}
		if s.b[i] != ',' {
			return s.fail(i, "a comma or an end is missing"), nil
		}
		i++
	}
	if ids > 1 {
		e.id = nil // it is unclear which one is meant
	}
	return i + 1, names
}
