package mcp

import (
	"encoding/hex"
	"strings"
)

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
