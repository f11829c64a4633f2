package mcp

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// Escape percent-encodes a text (RFC 3986 §2.1), except letters, digits and what is plain.
// plain gets the other bytes in their order.
func Escape(text string, plain func(byte) bool) string {
	out := make([]byte, 0, len(text))
	for i := range len(text) {
		if c := text[i]; c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || plain(c) {
			out = append(out, c)
		} else {
			out = fmt.Appendf(out, "%%%02X", c)
		}
	}
	return string(out)
}

// Unescape undoes the percent-encoding of a URI (RFC 3986 §2.1). It keeps invalid escapes.
func Unescape(uri string) string {
	plain, rest, found := strings.Cut(uri, "%")
	if !found {
		return uri
	}
	var out strings.Builder
	for found {
		out.WriteString(plain)
		if b, err := hex.DecodeString(rest[:min(2, len(rest))]); err == nil && len(b) == 1 {
			out.Write(b)
			rest = rest[2:]
		} else {
			out.WriteByte('%')
		}
		plain, rest, found = strings.Cut(rest, "%")
	}
	out.WriteString(plain)
	return out.String()
}
