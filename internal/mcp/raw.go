package mcp

import (
	"bytes"
	"strconv"

	"github.com/gatehouse-mcp/gatehouse/internal/jsonstring"
)

// Raw is the text of a JSON value without white space around it. The gateway relays Raw
// values byte for byte, and reads or changes single members by their position: decoding and
// encoding again would change a value (numbers, order, duplicates, unknown members).
//
// The methods expect text that wire.Scan has accepted. On any other text they never panic,
// but their results are unspecified.
type Raw []byte

// span is the position of a member: the value is at [start, end), and the quoted name begins
// at name.
type span struct{ name, start, end int }

// Member returns the value of the member with exactly this name.
func (r Raw) Member(name string) (Raw, bool) {
	at, ok := r.find(name)
	if !ok {
		return nil, false
	}
	return r[at.start:at.end:at.end], true
}

// At returns the value at the end of a path of members, nil where there is none.
func (r Raw) At(path ...string) Raw {
	for _, name := range path {
		r, _ = r.Member(name)
	}
	return r
}

// Each calls fn for the members of an object in order, until fn returns false. Names are
// passed as written: an escaped name keeps its backslashes.
func (r Raw) Each(fn func(name string, value Raw) bool) {
	r.each(func(name []byte, at span) bool {
		return fn(string(name), r[at.start:at.end:at.end])
	})
}

// Members is Each without allocations: name is valid only during the call of fn.
func (r Raw) Members(fn func(name []byte, value Raw) bool) {
	r.each(func(name []byte, at span) bool { return fn(name, r[at.start:at.end:at.end]) })
}

// Elements calls fn for the elements of an array in order, until fn returns false.
func (r Raw) Elements(fn func(value Raw) bool) {
	r.elements(func(start, end int) bool { return fn(r[start:end:end]) })
}

// With returns a copy of the object with this value of the member: in its old position, or
// else at the end.
func (r Raw) With(name string, value Raw) Raw {
	if at, ok := r.find(name); ok {
		out := make(Raw, 0, len(r)-(at.end-at.start)+len(value))
		out = append(out, r[:at.start]...)
		out = append(out, value...)
		return append(out, r[at.end:]...)
	}
	close := len(r) - 1
	for close >= 0 && r[close] != '}' {
		close--
	}
	if close < 0 {
		return Object(name, value)
	}
	out := make(Raw, 0, len(r)+len(name)+len(value)+4)
	out = append(out, r[:close]...)
	if !r.empty() {
		out = append(out, ',')
	}
	out = AppendString(out, name)
	out = append(out, ':')
	out = append(out, value...)
	return append(out, r[close:]...)
}

// Without returns the object without the member, or r itself if it has no such member.
func (r Raw) Without(name string) Raw {
	at, ok := r.find(name)
	if !ok {
		return r
	}
	from, to := at.name, at.end
	if i := skipSpace(r, to); i < len(r) && r[i] == ',' {
		to = skipSpace(r, i+1)
	} else { // the last member takes the comma before it along
		for i := from - 1; i >= 0; i-- {
			if r[i] == ',' {
				from = i
				break
			}
			if r[i] == '{' {
				break
			}
		}
	}
	out := make(Raw, 0, len(r)-(to-from))
	out = append(out, r[:from]...)
	return append(out, r[to:]...)
}

// Text decodes a JSON string. It returns "" for any other value.
func (r Raw) Text() string {
	s, _ := r.StringValue()
	return s
}

// StringValue decodes a JSON string; ok is false for any other value. A lone surrogate escape
// becomes U+FFFD.
func (r Raw) StringValue() (s string, ok bool) {
	if len(r) < 2 || r[0] != '"' || r[len(r)-1] != '"' {
		return "", false
	}
	inner := r[1 : len(r)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), true
	}
	return unescape(inner)
}

// IsObject reports whether the value is an object.
func (r Raw) IsObject() bool { return len(r) > 0 && r[0] == '{' }

// IsArray reports whether the value is an array.
func (r Raw) IsArray() bool { return len(r) > 0 && r[0] == '[' }

// IsNull reports whether the value is null or absent.
func (r Raw) IsNull() bool { return len(r) == 0 || string(r) == "null" }

// IsTrue reports whether the value is true.
func (r Raw) IsTrue() bool { return string(r) == "true" }

// MarshalJSON returns the text itself.
func (r Raw) MarshalJSON() ([]byte, error) {
	if r == nil {
		return []byte("null"), nil
	}
	return r, nil
}

// UnmarshalJSON keeps a copy of the text.
func (r *Raw) UnmarshalJSON(b []byte) error {
	*r = append((*r)[:0:0], b...)
	return nil
}

// String encodes a string.
func String(s string) Raw { return AppendString(make(Raw, 0, len(s)+2), s) }

// Int encodes an integer.
func Int(n int64) Raw { return strconv.AppendInt(nil, n, 10) }

// Object makes an object of alternating names and values.
func Object(name string, value Raw, more ...any) Raw {
	out := append(AppendString(Raw{'{'}, name), ':')
	out = append(out, value...)
	for i := 0; i+1 < len(more); i += 2 {
		out = append(out, ',')
		out = append(AppendString(out, more[i].(string)), ':')
		out = append(out, more[i+1].(Raw)...)
	}
	return append(out, '}')
}

func (r Raw) withString(name, value string) Raw {
	if old, ok := r.Member(name); ok {
		if s, isString := old.StringValue(); isString && s == value {
			return r
		}
	}
	if len(r) == 0 {
		return Object(name, String(value))
	}
	return r.With(name, String(value))
}

func (r Raw) empty() bool {
	i := skipSpace(r, 0)
	if i < len(r) && r[i] == '{' {
		i = skipSpace(r, i+1)
		return i < len(r) && r[i] == '}'
	}
	return false
}

func (r Raw) find(name string) (found span, ok bool) {
	r.each(func(n []byte, at span) bool {
		if string(n) == name {
			found, ok = at, true
			return false
		}
		return true
	})
	return found, ok
}

func (r Raw) elements(fn func(start, end int) bool) {
	i := skipSpace(r, 0)
	if i >= len(r) || r[i] != '[' {
		return
	}
	i = skipSpace(r, i+1)
	for i < len(r) && r[i] != ']' {
		end := skipValue(r, i)
		if end <= i || !fn(i, end) {
			return
		}
		i = skipSpace(r, end)
		if i < len(r) && r[i] == ',' {
			i = skipSpace(r, i+1)
		}
	}
}

func (r Raw) each(fn func(name []byte, at span) bool) {
	i := skipSpace(r, 0)
	if i >= len(r) || r[i] != '{' {
		return
	}
	i = skipSpace(r, i+1)
	for i < len(r) && r[i] == '"' {
		nameEnd := jsonstring.Skip(r, i)
		if nameEnd <= i+1 || nameEnd > len(r) {
			return
		}
		start := skipSpace(r, nameEnd)
		if start >= len(r) || r[start] != ':' {
			return
		}
		start = skipSpace(r, start+1)
		end := skipValue(r, start)
		if end <= start {
			return
		}
		if !fn(r[i+1:nameEnd-1], span{name: i, start: start, end: end}) {
			return
		}
		i = skipSpace(r, end)
		if i >= len(r) || r[i] != ',' {
			return
		}
		i = skipSpace(r, i+1)
	}
}
