package mcp

import (
	"bytes"
	"strings"
)

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
