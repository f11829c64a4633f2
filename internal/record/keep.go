package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// maxArguments bounds the arguments of a record, in bytes.
const maxArguments = 16 << 10

// redacted takes the place of a value.
const redacted = `"<redacted>"`

// Keep says what a record keeps of a call's arguments.
type Keep struct {
	// All of them, or else those in Names, with dots for members of objects.
	All   bool
	Names []string
	// Redact names the members, at any depth and in any case, that lose their values.
	Redact []string
}

// Of returns what is recorded of arguments, in one line. omitted says why nothing is.
func (k *Keep) Of(arguments mcp.Raw) (kept mcp.Raw, omitted string) {
	if !arguments.IsObject() {
		return nil, ""
	}
	if kept = arguments; !k.All {
		kept = mcp.Raw("{}")
		for _, name := range k.Names {
			if value := arguments.At(strings.Split(name, ".")...); value != nil {
				kept = kept.With(name, k.without(lastOf(name), value))
			}
		}
	}
	if len(kept) > 4*maxArguments { // however much of it is white space
		return nil, fmt.Sprintf("they have more than %d bytes", maxArguments)
	}
	var line bytes.Buffer
	if err := json.Compact(&line, k.redact(kept)); err != nil {
		return nil, "they are not JSON"
	}
	if line.Len() > maxArguments {
		return nil, fmt.Sprintf("they have more than %d bytes", maxArguments)
	}
	return line.Bytes(), ""
}

func lastOf(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// redact replaces the values of members that must not be recorded.
func (k *Keep) redact(value mcp.Raw) mcp.Raw {
	if len(k.Redact) == 0 || !value.IsObject() && !value.IsArray() {
		return value
	}
	return value.Map(func(name []byte, value mcp.Raw) mcp.Raw {
		if name == nil { // of an array
			return k.redact(value)
		}
		return k.without(decoded(name), value)
	})
}

// without returns the value of a member, as far as it may be recorded.
func (k *Keep) without(name string, value mcp.Raw) mcp.Raw {
	if slices.ContainsFunc(k.Redact, func(secret string) bool { return strings.EqualFold(secret, name) }) {
		return mcp.Raw(redacted)
	}
	return k.redact(value)
}

// decoded is a name without its escapes.
func decoded(name []byte) string {
	if bytes.IndexByte(name, '\\') < 0 {
		return string(name)
	}
	return mcp.Raw(`"` + string(name) + `"`).Text()
}
