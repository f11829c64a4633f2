package mcp

import (
	"bytes"
	"strings"
)

// Map replaces the parts of a value by fn's results: the members of an object, with their
// names as written, or the elements of an array, with a nil name. Everything else keeps its
// text. If fn changes no part, Map returns r itself.
func (r Raw) Map(fn func(name []byte, value Raw) Raw) Raw {
	var out Raw
	done := 0
	part := func(name []byte, start, end int) bool {
		old := r[start:end:end]
		value := fn(name, old)
		if len(value) == len(old) && (len(old) == 0 || &value[0] == &old[0]) {
			return true
		}
		if out == nil {
			out = make(Raw, 0, len(r)+len(value)-len(old)+64)
		}
		out = append(append(out, r[done:start]...), value...)
		done = end
		return true
	}
	if r.IsArray() {
		r.elements(func(start, end int) bool { return part(nil, start, end) })
	} else {
		r.each(func(name []byte, at span) bool { return part(name, at.start, at.end) })
	}
	if out == nil {
		return r
	}
	return append(out, r[done:]...)
}

// Named reports whether some reader could take a member's name, as written in JSON, for this
// name: with escapes decoded and without regard to case, as in Go's encoding/json.
func Named(written []byte, name string) bool {
	switch {
	case string(written) == name:
		return true
	case len(written) < len(name): // escapes, and letters equal but for case, are no shorter
		return false
	case bytes.IndexByte(written, '\\') < 0:
		return bytes.EqualFold(written, []byte(name))
	}
	plain, ok := unescape(written)
	return ok && strings.EqualFold(plain, name)
}
