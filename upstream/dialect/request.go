package dialect

import (
	"slices"
	"strconv"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// envelopeSize is about what a request has besides its params.
const envelopeSize = 128

// Request is a Call on its way to a server.
type Request struct {
	ID   int64
	Call *mcp.Call
	Rev  *wire.Revision
	// Meta are the members of _meta that the dialect wants, without braces, "" for none.
	Meta string
	// Task is the member task of 2025-11-25, nil for none.
	Task mcp.Raw
	// Answers says that the answers of a retry belong into the params, with State
	// (2026-07-28 basic/patterns/mrtr); else they go another way.
	Answers bool
	// State is the server's requestState, "" for none.
	State string
}

// Size is about how long the request becomes.
func (o *Request) Size() int {
	return envelopeSize + len(o.Call.Method) + len(o.Call.Name) + len(o.Call.Params) + len(o.Meta) + len(o.Task)
}

// Append writes the message in one pass over the client's params: the name as
// the server knows it, what belongs to the hop between client and gateway out, ours in.
func (o *Request) Append(dst []byte) []byte {
	c := o.Call
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = strconv.AppendInt(dst, o.ID, 10)
	dst = mcp.AppendString(append(dst, `,"method":`...), c.Method)
	dst = append(dst, `,"params":{`...)
	params := o.Rev.Params(c.Method, c.Params)
	nameMember := mcp.NameMember(c.Method)
	if nameMember == "" && c.Name != "" {
		params = mcp.ParamsFor(c.Method, params, c.Name)
	}
	first, named, hasMeta := true, nameMember == "", false
	member := func(name string) {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(mcp.AppendString(dst, name), ':')
	}
	params.Members(func(name []byte, value mcp.Raw) bool {
		switch string(name) {
		case nameMember:
			if named {
				return true
			}
			named = true
			member(nameMember)
			dst = mcp.AppendString(dst, c.Name)
		case "_meta":
			if hasMeta || !value.IsObject() {
				return true
			}
			hasMeta = true
			member("_meta")
			dst = o.appendMeta(dst, value)
		case "inputResponses", "requestState", "task":
		default:
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = append(append(append(dst, '"'), name...), '"', ':')
			dst = append(dst, value...)
		}
		return true
	})
	if !named {
		member(nameMember)
		dst = mcp.AppendString(dst, c.Name)
	}
	if o.Task != nil {
		member("task")
		dst = append(dst, o.Task...)
	}
	if o.Answers && c.Answers != nil {
		member("inputResponses")
		dst = appendAnswers(dst, c.Answers)
	}
	if o.Answers && o.State != "" {
		member("requestState")
		dst = mcp.AppendString(dst, o.State)
	}
	if !hasMeta && o.Meta != "" {
		member("_meta")
		dst = append(append(append(dst, '{'), o.Meta...), '}')
	}
	return append(dst, '}', '}')
}

// appendMeta writes _meta: the members that are for the server, not those that were
// for us.
func (o *Request) appendMeta(dst []byte, meta mcp.Raw) []byte {
	dst = append(append(dst, '{'), o.Meta...)
	first := o.Meta == ""
	traced := true
	if parent, ok := meta.Member("traceparent"); ok {
		traced = validTraceparent(parent.Text())
	}
	meta.Members(func(name []byte, value mcp.Raw) bool {
		switch {
		case string(name) == wire.MetaProgressToken:
			if value.IsNull() {
				return true
			}
			value = strconv.AppendInt(nil, o.ID, 10)
		case wire.ReservedMeta(name):
			return true
		case !traced && (string(name) == "traceparent" || string(name) == "tracestate"):
			return true
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(append(append(dst, '"'), name...), '"', ':')
		dst = append(dst, value...)
		return true
	})
	return append(dst, '}')
}

// appendAnswers writes the answers by the keys that the server knows, in the order of the
// client's. What the gateway asked is no business of the server's.
func appendAnswers(dst []byte, answers map[string]mcp.Raw) []byte {
	keys := make([]string, 0, len(answers))
	for key := range answers {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	dst = append(dst, '{')
	empty := len(dst)
	for _, key := range keys {
		native, ok := nativeKey(key)
		if !ok {
			continue
		}
		if len(dst) > empty {
			dst = append(dst, ',')
		}
		dst = append(mcp.AppendString(dst, native), ':')
		dst = append(dst, answers[key]...)
	}
	return append(dst, '}')
}

// validTraceparent reports whether s is a traceparent of W3C Trace Context, version
// 00 or one that extends it.
func validTraceparent(s string) bool {
	const length = len("00-00000000000000000000000000000000-0000000000000000-00")
	if len(s) < length || len(s) > length && (s[:2] == "00" || s[length] != '-') || s[:2] == "ff" {
		return false
	}
	zeros := 0
	for i, c := range []byte(s[:length]) {
		if i == 2 || i == 35 || i == 52 {
			if c != '-' {
				return false
			}
			continue
		}
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
		if c == '0' {
			zeros++
		}
	}
	const none = "0000000000000000"
	return s[3:35] != none+none && s[36:52] != none && zeros < length
}

// Own writes a request of the gateway itself.
func Own(id int64, method string, params mcp.Raw) []byte {
	return wire.AppendRequest(nil, strconv.AppendInt(nil, id, 10), method, params)
}
