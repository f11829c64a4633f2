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
	part := func(name []byte, start, end int) {
		old := r[start:end:end]
		value := fn(name, old)
		if len(value) == len(old) && (len(old) == 0 || &value[0] == &old[0]) {
			return
		}
		if out == nil {
			out = make(Raw, 0, len(r)+len(value)-len(old)+64)
		}
		out = append(append(out, r[done:start]...), value...)
		done = end
	}
	if r.IsArray() {
		r.elements(part)
	} else {
		r.each(func(name []byte, at span) bool {
			part(name, at.start, at.end)
			return true
		})
	}
	if out == nil {
		return r
	}
	return append(out, r[done:]...)
}

func (r Raw) elements(fn func(name []byte, start, end int)) {
	i := skipSpace(r, 1)
	for i < len(r) && r[i] != ']' {
		end := skipValue(r, i)
		if end <= i {
			return
		}
		fn(nil, i, end)
		i = skipSpace(r, end)
		if i < len(r) && r[i] == ',' {
			i = skipSpace(r, i+1)
		}
	}
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
