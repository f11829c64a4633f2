package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// CheckObject refuses an object whose members could be read in two ways by two
// parsers: duplicates, names equal but for case, escaped names, a routed name in
// another case, more than MaxMembers. Nil, an absent object, is fine; any other
// value is refused. The error is an *mcp.Error with CodeInvalidParams.
//
// The text must have passed Scan.
func CheckObject(obj mcp.Raw, routed ...string) error {
	return ReadObject(obj, func([]byte, mcp.Raw) {}, routed...)
}

// ReadObject is CheckObject that calls fn for each member, in their order, up to one
// that is refused. The name is valid only during the call.
func ReadObject(obj mcp.Raw, fn func(name []byte, value mcp.Raw), routed ...string) error {
	if obj == nil {
		return nil
	}
	if !obj.IsObject() {
		return mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: an object is expected")
	}
	var small [16][]byte
	seen, ascii, why := small[:0], true, ""
	obj.Members(func(name []byte, value mcp.Raw) bool {
		ascii = ascii && isASCII(name)
		if why = badName(seen, name, ascii, routed); why != "" {
			return false
		}
		seen = append(seen, name)
		fn(name, value)
		return true
	})
	if why != "" {
		return &mcp.Error{Code: mcp.CodeInvalidParams, Message: "Invalid params: " + why}
	}
	return nil
}

// badName says what is wrong with a member's name as written, after the names seen
// before it and among the routed ones, "" if nothing is. ascii says that all of the
// object's names so far are ASCII: beyond it there are letters of other lengths that
// only differ in case.
func badName(seen [][]byte, name []byte, ascii bool, routed []string) string {
	if bytes.IndexByte(name, '\\') >= 0 {
		return "a member's name is escaped"
	}
	for _, other := range seen {
		if (len(other) == len(name) || !ascii) && bytes.EqualFold(other, name) {
			return "two members are named " + quoteName(name)
		}
	}
	if len(seen) >= MaxMembers {
		return "an object has too many members"
	}
	for _, want := range routed {
		if (len(want) == len(name) || !ascii) && string(name) != want && bytes.EqualFold(name, []byte(want)) {
			return "a member is named " + quoteName(name) + " in place of " + want
		}
	}
	return ""
}

func isASCII(name []byte) bool {
	for _, c := range name {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
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

// TextObject reads an object that stands in a text of an upstream, as ScanUpstream reads
// messages.
func TextObject(text string) (mcp.Raw, error) {
	if !json.Valid([]byte(text)) || !mcp.Raw(strings.TrimLeft(text, " \t\r\n")).IsObject() {
		return nil, errors.New("the text is no JSON object")
	}
	m, err := ScanUpstream([]byte(`{"jsonrpc":"2.0","id":1,"result":` + text + `}`)) // deeper than others look
	return m.Result, err
}
