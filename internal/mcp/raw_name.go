package mcp

import (
	"bytes"
	"strings"
)

// Named reports whether some reader takes a member's name, as it is written in JSON, for
// this one: escapes count for what they stand for, and case does not count, as in Go's
// encoding/json.
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
