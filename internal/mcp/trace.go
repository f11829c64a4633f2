package mcp

import "strings"

// Members of _meta, and HTTP headers, of W3C Trace Context. They have no prefix (SEP-414).
const (
	MetaTraceparent = "traceparent"
	MetaTracestate  = "tracestate"
)

// traceparentLength is the length of a traceparent of version 00.
const traceparentLength = len("00-00000000000000000000000000000000-0000000000000000-00")

// Trace is the trace that a call belongs to. It does not change.
type Trace struct {
	// ID is that of the trace, 32 hex digits.
	ID string
	// Parent and State are the traceparent and tracestate of the gateway's innermost span. They
	// go to the server in place of the client's. "" if the call has no span: then what the
	// client wrote goes on as it is.
	Parent string
	State  string
	// Header and HeaderState are those of the client's HTTP headers, "" for none. A call without a
	// span passes them on in those to the server.
	Header, HeaderState string
}

// Spanned reports whether the call has a span.
func (t *Trace) Spanned() bool { return t != nil && t.Parent != "" }

// Members encodes the members of _meta, without braces. It returns "" without a span.
func (t *Trace) Members() string {
	if !t.Spanned() {
		return ""
	}
	var b strings.Builder
	b.WriteString(`"` + MetaTraceparent + `":"`)
	b.WriteString(t.Parent) // hex digits and dashes
	b.WriteByte('"')
	if t.State != "" {
		b.WriteString(`,"` + MetaTracestate + `":`)
		b.Write(String(t.State))
	}
	return b.String()
}

// ValidTraceparent reports whether s is a traceparent of W3C Trace Context, of version 00 or an
// extension of that.
func ValidTraceparent(s string) bool {
	if len(s) < traceparentLength || len(s) > traceparentLength && (s[:2] == "00" || s[traceparentLength] != '-') ||
		s[:2] == "ff" {
		return false
	}
	for i, c := range []byte(s[:traceparentLength]) {
		if i == 2 || i == 35 || i == 52 {
			if c != '-' {
				return false
			}
			continue
		}
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	const none = "0000000000000000"
	return s[3:35] != none+none && s[36:52] != none
}

// TraceID returns the trace id in a valid traceparent.
func TraceID(parent string) string { return parent[3:35] }
