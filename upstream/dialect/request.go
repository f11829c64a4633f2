package dialect

import (
	"maps"
	"slices"
	"strconv"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// envelopeSize is roughly how many bytes a request has in addition to its params.
const envelopeSize = 128

// Request is a Call on its way to a server.
type Request struct {
	ID   int64
	Call *mcp.Call
	Rev  *wire.Revision
	// Meta holds the members of _meta that the dialect adds, without braces, "" for none.
	Meta string
	// Task is the member task of 2025-11-25, nil for none.
	Task mcp.Raw
	// Answers says that the params carry the answers of a retry, with the state that the
	// server gave (2026-07-28 basic/patterns/mrtr). Otherwise the answers go another way.
	Answers bool
}

// Encode encodes the message in one pass over the client's params. It puts in the name that
// the server knows and our own members, and leaves out the members that belong to the hop
// between client and gateway.
func (o *Request) Encode() []byte {
	c := o.Call
	dst := make([]byte, 0, envelopeSize+len(c.Method)+len(c.Name)+len(c.Params)+len(o.Meta)+len(o.Task))
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = strconv.AppendInt(dst, o.ID, 10)
	dst = mcp.AppendString(append(dst, `,"method":`...), c.Method)
	dst = append(dst, `,"params":{`...)
	params := o.Rev.Params(c.Method, c.Params)
	nameMember := mcp.NameMember(c.Method)
	if nameMember == "" && c.Name != "" {
		params = mcp.ParamsFor(c.Method, params, c.Name)
	}
	out := members{dst: dst}
	named, hasMeta := nameMember == "", false
	c.Outline.Members(params, func(name []byte, value mcp.Raw) bool {
		switch string(name) {
		case nameMember:
			if !named {
				named = true
				out.name(nameMember)
				out.dst = mcp.AppendString(out.dst, c.Name)
			}
		case "_meta":
			if !hasMeta && value.IsObject() {
				hasMeta = true
				out.name("_meta")
				out.dst = o.appendMeta(out.dst, value)
			}
		case "inputResponses", "requestState", "task":
		default:
			out.copy(name, value)
		}
		return true
	})
	if !named {
		out.name(nameMember)
		out.dst = mcp.AppendString(out.dst, c.Name)
	}
	if o.Task != nil {
		out.name("task")
		out.dst = append(out.dst, o.Task...)
	}
	if o.Answers && c.Answers != nil {
		out.name("inputResponses")
		out.dst = appendAnswers(out.dst, c.Answers)
	}
	if state, _, ok := c.Round.Pop(mcp.FrameServer); ok && o.Answers {
		out.name("requestState")
		out.dst = mcp.AppendString(out.dst, state)
	}
	if !hasMeta && (o.Meta != "" || c.Trace.Spanned()) {
		out.name("_meta")
		out.dst = append(o.appendOwnMeta(append(out.dst, '{')), '}')
	}
	return append(out.dst, '}', '}')
}

// members writes the members of an object after its opening brace.
type members struct {
	dst  []byte
	some bool // a member was written
}

func (w *members) separate() {
	if w.some {
		w.dst = append(w.dst, ',')
	}
	w.some = true
}

// name writes the name of a member; its value follows.
func (w *members) name(name string) {
	w.separate()
	w.dst = append(mcp.AppendString(w.dst, name), ':')
}

// copy writes a member of another object, with its name as encoded there.
func (w *members) copy(name []byte, value mcp.Raw) {
	w.separate()
	w.dst = append(append(append(w.dst, '"'), name...), '"', ':')
	w.dst = append(w.dst, value...)
}

// appendOwnMeta writes the members of _meta that are ours, without braces.
func (o *Request) appendOwnMeta(dst []byte) []byte {
	dst = append(dst, o.Meta...)
	if trace := o.Call.Trace.Members(); trace != "" {
		if o.Meta != "" {
			dst = append(dst, ',')
		}
		dst = append(dst, trace...)
	}
	return dst
}

// appendMeta writes _meta: our own members, and those of the client's that are for the
// server.
func (o *Request) appendMeta(dst []byte, meta mcp.Raw) []byte {
	out := members{dst: o.appendOwnMeta(append(dst, '{'))}
	out.some = len(out.dst) > len(dst)+1
	parent, traced := meta.Member(mcp.MetaTraceparent)
	replaced := o.Call.Trace.Spanned() || traced && !mcp.ValidTraceparent(parent.Text())
	meta.Members(func(name []byte, value mcp.Raw) bool {
		switch {
		case string(name) == wire.MetaProgressToken:
			if !value.IsNull() {
				out.copy(name, strconv.AppendInt(nil, o.ID, 10))
			}
		case wire.ReservedMeta(name), replaced && (string(name) == mcp.MetaTraceparent || string(name) == mcp.MetaTracestate):
		default:
			out.copy(name, value)
		}
		return true
	})
	return append(out.dst, '}')
}

// appendAnswers writes the answers under the keys that the server knows. It leaves out
// answers to the gateway's own questions.
func appendAnswers(dst []byte, answers map[string]mcp.Raw) []byte {
	out := members{dst: append(dst, '{')}
	for _, key := range slices.Sorted(maps.Keys(answers)) {
		if native, ok := nativeKey(key); ok {
			out.name(native)
			out.dst = append(out.dst, answers[key]...)
		}
	}
	return append(out.dst, '}')
}
