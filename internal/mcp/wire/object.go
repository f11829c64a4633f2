package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// CheckObject refuses an object that two parsers could read differently: duplicate names,
// names that differ only in case, escaped names, a routed name in another case, more than
// MaxMembers members. Nil, an absent object, is fine; any value that is no object is
// refused. The error is an *mcp.Error with CodeInvalidParams.
//
// The text must have passed Scan.
func CheckObject(obj mcp.Raw, routed ...string) error {
	return ReadObject(obj, nil, nil, routed...)
}

// ReadObject is CheckObject that also stores the values of the first routed names: that of
// routed[i], if there is one, in to[i]. outline is that of the object, nil for none.
func ReadObject(obj mcp.Raw, outline *mcp.Outline, to []*mcp.Raw, routed ...string) error {
	if obj == nil {
		return nil
	}
	if !obj.IsObject() {
		return mcp.Errorf(failure.InvalidParams, "Invalid params: an object is expected")
	}
	var small [16][]byte
	seen, ascii, why := small[:0], true, ""
	outline.Members(obj, func(name []byte, value mcp.Raw) bool {
		ascii = ascii && isASCII(name)
		if why = badName(seen, name, ascii, routed); why != "" {
			return false
		}
		seen = append(seen, name)
		for i, to := range to {
			if string(name) == routed[i] {
				*to = value
			}
		}
		return true
	})
	if why != "" {
		return mcp.Errorf(failure.InvalidParams, "Invalid params: %s", why)
	}
	return nil
}

// badName says what is wrong with a member's name as written, "" if nothing is. seen are
// the names before it; routed are the names that decide the route. ascii says that all
// names so far are ASCII: outside of it, letters that differ only in case may differ in
// length.
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

// quoteName formats a name for an error message.
func quoteName(name []byte) string {
	return strconv.QuoteToASCII(string(name[:min(len(name), 64)]))
}

// NameOK reports whether the gateway may decide by a name as written: it is a string that
// every parser reads alike. A lone surrogate escape is not: some parsers read U+FFFD there,
// some refuse it, some keep it.
func NameOK(raw mcp.Raw) bool {
	return len(raw) >= 2 && raw[0] == '"' && loneSurrogate(raw, 0) < 0
}

// WholeText returns JSON text with U+FFFD in place of each lone surrogate escape: the text itself
// if there is none.
func WholeText(raw mcp.Raw) mcp.Raw {
	at := loneSurrogate(raw, 0)
	if at < 0 {
		return raw
	}
	for raw = bytes.Clone(raw); at >= 0; at = loneSurrogate(raw, at) {
		copy(raw[at:], `\ufffd`)
	}
	return raw
}

// loneSurrogate returns the index of the first lone surrogate escape from an index on, -1 for none.
func loneSurrogate(raw mcp.Raw, from int) int {
	for i := from; i < len(raw); i++ {
		next := bytes.IndexByte(raw[i:], '\\')
		if next < 0 {
			return -1
		}
		i += next
		switch surrogate(raw[i:]) {
		case noSurrogate:
			i++ // skip the escaped byte
		case highSurrogate:
			if surrogate(raw[i+6:]) != lowSurrogate {
				return i
			}
			i += 11
		case lowSurrogate:
			return i
		}
	}
	return -1
}

const (
	noSurrogate = iota
	highSurrogate
	lowSurrogate
)

// surrogate reports whether the text begins with the escape of a surrogate.
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

// TextObject reads an object in a text of an upstream, as ScanUpstream reads messages.
func TextObject(text string) (mcp.Raw, error) {
	if !json.Valid([]byte(text)) || !mcp.Raw(strings.TrimLeft(text, " \t\r\n")).IsObject() {
		return nil, errors.New("the text is no JSON object")
	}
	// the wrapper costs one level of MaxDepth
	m, err := ScanUpstream([]byte(`{"jsonrpc":"2.0","id":1,"result":` + text + `}`))
	return m.Result, err
}
