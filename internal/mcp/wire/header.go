package wire

import (
	"encoding/base64"
	"errors"
	"strings"
	"unicode/utf8"
)

// Headers of the protocol in Go's canonical form.
const (
	HeaderVersion     = "Mcp-Protocol-Version"
	HeaderSession     = "Mcp-Session-Id"
	HeaderMethod      = "Mcp-Method"
	HeaderName        = "Mcp-Name"
	HeaderParamPrefix = "Mcp-Param-"
	HeaderLastEventID = "Last-Event-Id"
)

// The marks around a value that cannot stand in a header as it is (2026-07-28
// basic/transports/streamable-http#value-encoding).
const (
	sentinelStart = "=?base64?"
	sentinelEnd   = "?="
)

var errHeader = errors.New("wire: header value is malformed")

// EncodeHeader writes a value of Mcp-Name or Mcp-Param-*: as it is, or as base64 between
// marks if it cannot be sent as it is or would look like an encoded one.
func EncodeHeader(s string) string {
	if plainHeader(s) && s == strings.Trim(s, " \t") &&
		!(strings.HasPrefix(s, sentinelStart) && strings.HasSuffix(s, sentinelEnd)) {
		return s
	}
	return sentinelStart + base64.StdEncoding.EncodeToString([]byte(s)) + sentinelEnd
}

// DecodeHeader reads a value of Mcp-Name or Mcp-Param-*. It ignores white space around the
// value. The error does not contain the value.
func DecodeHeader(v string) (string, error) {
	v = strings.Trim(v, " \t")
	if len(v) < len(sentinelStart)+len(sentinelEnd) ||
		!strings.HasPrefix(v, sentinelStart) || !strings.HasSuffix(v, sentinelEnd) {
		if !plainHeader(v) {
			return "", errHeader
		}
		return v, nil
	}
	coded := v[len(sentinelStart) : len(v)-len(sentinelEnd)]
	if strings.ContainsAny(coded, "\r\n") { // the decoder would skip these
		return "", errHeader
	}
	plain, err := base64.StdEncoding.Strict().DecodeString(coded)
	if err != nil || !utf8.Valid(plain) {
		return "", errHeader
	}
	return string(plain), nil
}

// plainHeader reports whether all bytes may stand in a header value: printable
// ASCII, space and tab.
func plainHeader(s string) bool {
	for i := range len(s) {
		if (s[i] < ' ' || s[i] > '~') && s[i] != '\t' {
			return false
		}
	}
	return true
}
