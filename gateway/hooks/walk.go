package hooks

import (
	"bytes"
	"encoding/json"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// maxNested bounds the depth of JSON within the texts of JSON.
const maxNested = 3

// edit changes the texts in a JSON value. The value is data if it means something to its
// application only: then names and numbers are texts, too. In messages of MCP they are not, since a
// message without them would be something else.
type edit func(value mcp.Raw, data bool) mcp.Raw

// rewrite replaces texts in a JSON value by fn's results, nil for a text that stays. A text that is
// JSON itself is rewritten as data first: servers repeat structured content as text. Everything
// else keeps its bytes; if no text changes, rewrite returns value itself.
func rewrite(value mcp.Raw, data bool, fn func(text []byte) []byte) mcp.Raw {
	return rewriter{fn}.value(value, data, 0)
}

type rewriter struct {
	fn func(text []byte) []byte
}

func (w rewriter) value(value mcp.Raw, data bool, nested int) (out mcp.Raw) {
	done := 0
	for i := 0; i < len(value); {
		start := i
		switch c := value[i]; {
		case c == '"':
			i = stringEnd(value, i)
			if !data && isName(value, i) {
				continue
			}
		case data && (c == '-' || '0' <= c && c <= '9'):
			i = numberEnd(value, i)
		default:
			i++
			continue
		}
		if text, changed := w.token(value[start:i:i], nested); changed {
			if out == nil {
				out = make(mcp.Raw, 0, len(value)+len(text))
			}
			out = mcp.AppendString(append(out, value[done:start]...), string(text))
			done = i
		}
	}
	if done == 0 {
		return value
	}
	return append(out, value[done:]...)
}

// token rewrites a string or a number.
func (w rewriter) token(token mcp.Raw, nested int) (text []byte, changed bool) {
	text = token
	if token[0] == '"' {
		if len(token) < 2 {
			return nil, false
		}
		if text = token[1 : len(token)-1]; bytes.IndexByte(text, '\\') >= 0 {
			text = []byte(token.Text())
		}
		if nested < maxNested && isJSON(text) {
			inner := w.value(text, true, nested+1)
			text, changed = inner, !same(inner, text)
		}
	}
	if replaced := w.fn(text); replaced != nil {
		return replaced, true
	}
	return text, changed
}

// isJSON reports whether a text is an object, an array or a string in JSON.
func isJSON(text []byte) bool {
	text = bytes.TrimLeft(text, " \t\r\n")
	return len(text) > 0 && (text[0] == '{' || text[0] == '[' || text[0] == '"') && json.Valid(text)
}

// stringEnd returns the index after the string that begins at i.
func stringEnd(value []byte, i int) int {
	for i++; i < len(value); i++ {
		n := bytes.IndexByte(value[i:], '"')
		if n < 0 {
			break
		}
		i += n
		escapes := 0
		for value[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1
		}
	}
	return len(value)
}

// isName reports whether the string that ends at i is the name of a member.
func isName(value []byte, i int) bool {
	rest := bytes.TrimLeft(value[i:], " \t\r\n")
	return len(rest) > 0 && rest[0] == ':'
}

func numberEnd(value []byte, i int) int {
	for i < len(value) && bytes.IndexByte([]byte("+-.0123456789eE"), value[i]) >= 0 {
		i++
	}
	return i
}

// same reports whether nothing was changed.
func same(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
