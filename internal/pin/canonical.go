package pin

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Digest is the SHA-256 of the canonical form of a definition.
type Digest [sha256.Size]byte

// String returns the digest as the lock file has it.
func (d Digest) String() string { return "sha256:" + hex.EncodeToString(d[:]) }

// DigestOf returns the digest of a definition. Two texts of the same JSON value have the same
// one: the order of members, white space and escapes make no difference.
func DigestOf(definition mcp.Raw) Digest { return sha256.Sum256(Canonical(definition)) }

// Canonical returns the compact text of a value with sorted members. Members with the same name all
// stay, in their order, since a client may read any of them. Numbers keep their text.
func Canonical(value mcp.Raw) mcp.Raw { return appendCanonical(make(mcp.Raw, 0, len(value)), value) }

func appendCanonical(dst, value mcp.Raw) mcp.Raw {
	switch {
	case value.IsObject():
		type member struct{ name, value mcp.Raw }
		var members []member
		value.Members(func(name []byte, value mcp.Raw) bool {
			quoted := append(append(mcp.Raw{'"'}, name...), '"')
			members = append(members, member{canonicalString(quoted), value})
			return true
		})
		slices.SortStableFunc(members, func(a, b member) int { return bytes.Compare(a.name, b.name) })
		dst = append(dst, '{')
		for i, m := range members {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendCanonical(append(append(dst, m.name...), ':'), m.value)
		}
		return append(dst, '}')
	case value.IsArray():
		dst = append(dst, '[')
		first := true
		value.Elements(func(element mcp.Raw) bool {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = appendCanonical(dst, element)
			return true
		})
		return append(dst, ']')
	case len(value) > 0 && value[0] == '"':
		return append(dst, canonicalString(value)...)
	}
	return append(dst, value...)
}

// canonicalString writes a string with as few escapes as JSON allows. A text that is no string
// stays as it is.
func canonicalString(quoted mcp.Raw) mcp.Raw {
	var text string
	if json.Unmarshal(quoted, &text) != nil {
		return quoted
	}
	return mcp.String(text)
}
