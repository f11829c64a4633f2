package wire

import (
	"bytes"
	"strconv"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// CheckObject refuses an object whose members could be read in two ways by two
// parsers: duplicates, names equal but for case, escaped names, a routed name in
// another case, more than MaxMembers. Nil, an absent object, is fine; any other
// value is refused. The error is an *mcp.Error with CodeInvalidParams.
//
// The text must have passed Scan.
func CheckObject(obj mcp.Raw, routed ...string) error {
	if obj == nil {
		return nil
	}
	if !obj.IsObject() {
		return mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: an object is expected")
	}
	var small [16][]byte
	seen, why := small[:0], ""
	obj.Members(func(name []byte, _ mcp.Raw) bool {
		why = badName(seen, name, routed)
		seen = append(seen, name)
		return why == ""
	})
	if why != "" {
		return &mcp.Error{Code: mcp.CodeInvalidParams, Message: "Invalid params: " + why}
	}
	return nil
}

// badName says what is wrong with a member's name as written, after the names seen
// before it and among the routed ones, "" if nothing is.
func badName(seen [][]byte, name []byte, routed []string) string {
	if bytes.IndexByte(name, '\\') >= 0 {
		return "a member's name is escaped"
	}
	for _, other := range seen {
		if bytes.EqualFold(other, name) {
			return "two members are named " + quoteName(name)
		}
	}
	if len(seen) >= MaxMembers {
		return "an object has too many members"
	}
	for _, want := range routed {
		if string(name) != want && bytes.EqualFold(name, []byte(want)) {
			return "a member is named " + quoteName(name) + " in place of " + want
		}
	}
	return ""
}

// quoteName makes a name fit for a message.
func quoteName(name []byte) string {
	return strconv.QuoteToASCII(string(name[:min(len(name), 64)]))
}

// NameOK reports whether a routing name as written may be used to decide: a string
// that says the same to every parser. One with a lone surrogate escape does not:
// some read U+FFFD there, some refuse it, some keep it.
func NameOK(raw mcp.Raw) bool {
	if len(raw) < 2 || raw[0] != '"' {
		return false
	}
	for i := 1; i < len(raw)-1; i++ {
		if raw[i] != '\\' {
			continue
		}
		switch surrogate(raw[i:]) {
		case noSurrogate:
			i++ // what is escaped
		case highSurrogate:
			if surrogate(raw[i+6:]) != lowSurrogate {
				return false
			}
			i += 11
		case lowSurrogate:
			return false
		}
	}
	return true
}

const (
	noSurrogate = iota
	highSurrogate
	lowSurrogate
)

// surrogate says whether the text begins with the escape of a surrogate.
func surrogate(text []byte) int {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' || text[2]|0x20 != 'd' {
		return noSurrogate
	}
	switch c := text[3] | 0x20; {
	case c == '8' || c == '9' || c == 'a' || c == 'b':
		return highSurrogate
	case c >= 'c' && c <= 'f':
		return lowSurrogate
	}
	return noSurrogate
}
