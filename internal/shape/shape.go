package shape

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

const (
	// deepest is how deep a message is written.
	deepest = 24
	// longestNumber is the length of the longest number of the protocol that is shown.
	longestNumber = 20
	// end stands where a message was cut.
	end = "…"
)

// Text writes a JSON-RPC message, perhaps only its beginning, with a line for each member. Without
// full, it is the shape: of what is used, only the names that are known are there.
func Text(message []byte, known []string, full bool) string {
	w := writer{in: json.NewDecoder(bytes.NewReader(message)), known: known, full: full}
	w.in.UseNumber()
	if !w.value(envelope, "", 0) {
		w.out.WriteString(end)
	}
	return w.out.String()
}

// Header writes the value of a header of the protocol, likewise.
func Header(name, value string, known []string, full bool) string {
	isKnown := func(s string) bool { return wire.EncodeHeader(s) == value }
	switch {
	case full, name == "Mcp-Name" && slices.ContainsFunc(known, isKnown), name == "Mcp-Method" && word("method", value),
		name == "Mcp-Protocol-Version" && word("protocolVersion", value):
		return value
	}
	return stringOf(value)
}

// writer writes one message.
type writer struct {
	in  *json.Decoder
	out strings.Builder

	known []string
	full  bool
}

// value writes the next value, which is at a place under a key. It returns false where the message
// ends early.
func (w *writer) value(at place, key string, depth int) bool {
	token, err := w.in.Token()
	if err != nil || depth > deepest {
		return false
	}
	hidden := !w.full && at == free || key == "requestState" // which is sealed, for one client
	open, nested := token.(json.Delim)
	switch {
	case nested && (hidden || !w.full && open == '{' && key == "content"): // what a user has entered
		return w.skip(open)
	case nested && open == '{':
		return w.object(at, depth)
	case nested:
		return w.array(at, key, depth)
	}
	text := ""
	if s, ok := token.(string); !ok {
		text = fmt.Sprint(token)
		if token == nil {
			text = "null"
		} else if hidden || !w.full && (at != plain || len(text) > longestNumber) {
			text = fmt.Sprintf(`"<%s>"`, typeOf(token))
		}
	} else if hidden || !w.full && !w.shown(at, key, s) {
		text = string(mcp.String(stringOf(s)))
	} else {
		text = string(mcp.String(s))
	}
	w.out.WriteString(text)
	return true
}

func (w *writer) object(at place, depth int) bool {
	w.out.WriteByte('{')
	some := false
	for w.in.More() {
		token, err := w.in.Token()
		key, ok := token.(string)
		if err != nil || !ok {
			return false
		}
		w.next(&some, depth+1)
		name := key
		if !w.full && !readable(name) {
			name = fmt.Sprintf("<name, %d bytes>", len(key))
		}
		w.out.Write(mcp.String(name))
		w.out.WriteString(": ")
		if !w.value(at.member(key), key, depth+1) {
			return false
		}
	}
	return w.close('}', some, depth)
}

func (w *writer) array(at place, key string, depth int) bool {
	w.out.WriteByte('[')
	some := false
	if at == used { // it is no name
		at = free
	}
	if key == "content" {
		key = "" // of its elements
	}
	for w.in.More() {
		w.next(&some, depth+1)
		if !w.value(at, key, depth+1) {
			return false
		}
	}
	return w.close(']', some, depth)
}

// next begins a line for a member or an element.
func (w *writer) next(some *bool, depth int) {
	if *some {
		w.out.WriteByte(',')
	}
	*some = true
	w.line(depth)
}

func (w *writer) line(depth int) {
	w.out.WriteByte('\n')
	for range depth {
		w.out.WriteString("  ")
	}
}

func (w *writer) close(end byte, some bool, depth int) bool {
	if _, err := w.in.Token(); err != nil {
		return false
	}
	if some {
		w.line(depth)
	}
	w.out.WriteByte(end)
	return true
}

// skip writes the type and the size of an object or array after its beginning was read.
func (w *writer) skip(open json.Delim) bool {
	begin := w.in.InputOffset() - 1
	depth, tokens := 1, 0
	for depth > 0 {
		if depth == 1 && w.in.More() {
			tokens++
		}
		token, err := w.in.Token()
		if err != nil {
			return false
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
	kind, unit := "array", "elements"
	if open == '{' {
		kind, unit = "object", "members"
		tokens /= 2 // a name and a value each
	}
	fmt.Fprintf(&w.out, `"<%s, %d %s, %d bytes>"`, kind, tokens, unit, w.in.InputOffset()-begin)
	return true
}

func stringOf(s string) string { return fmt.Sprintf("<string, %d bytes>", len(s)) }

func typeOf(token json.Token) string {
	if _, ok := token.(bool); ok {
		return "boolean"
	}
	return "number"
}

// readable reports whether the name of a member looks like one, and not like a value.
func readable(name string) bool {
	const longest = 64
	if name == "" || len(name) > longest {
		return false
	}
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("_-./$", rune(c)) {
			return false
		}
	}
	return true
}
