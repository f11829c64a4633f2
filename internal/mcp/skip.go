package mcp

import "github.com/gatehouse-mcp/gatehouse/internal/jsonstring"

// The functions here step over JSON text that is known to be valid. On other text
// they stop at its end.

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipValue returns the index after the value that begins at i, or i if none begins there.
func skipValue(b []byte, i int) int {
	if i >= len(b) {
		return i
	}
	switch b[i] {
	case '"':
		return jsonstring.Skip(b, i)
	case '{', '[':
		for depth := 0; i < len(b); i++ {
			switch c := b[i]; {
			case c == '"':
				i = jsonstring.Skip(b, i) - 1
			case c|0x20 == '{': // and '['
				depth++
			case c|0x20 == '}': // and ']'
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
		return len(b)
	}
	for i < len(b) {
		switch b[i] {
		case ',', '}', ']', ' ', '\n', '\t', '\r', ':', '"', '{', '[':
			return i
		}
		i++
	}
	return i
}
