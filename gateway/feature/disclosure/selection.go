package disclosure

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	// maxSelected is how many tools are described at a time.
	maxSelected = 50
	// maxName is the length of the longest name that is looked for, in bytes.
	maxName = 512
)

// selected reads the names that a URI of our resource selects; ours is false for any
// other URI. The names stand behind tools=, separated by commas; percent-encoding is
// taken off once, before that. Names are compared as they are, and "+" is no space.
func selected(uri string) (names []string, ours bool) {
	query, ok := strings.CutPrefix(uri, URI)
	if !ok || query != "" && query[0] != '?' {
		return nil, false
	}
	query, _, fragment := strings.Cut(query, "#")
	if fragment { // a part of a resource is not what a resource is
		return nil, false
	}
	for part := range strings.SplitSeq(strings.TrimPrefix(query, "?"), "&") {
		if value, ok := strings.CutPrefix(part, "tools="); ok {
			names = append(names, strings.Split(mcp.Unescape(value), ",")...)
		}
	}
	return tidy(names), true
}

// named reads the names that a call of our tool selects: an array of them, or, as models
// write it too, one text with commas; under the name that the resource has for it, too.
func named(params mcp.Raw) (names []string) {
	arguments, _ := params.Member("arguments")
	value, ok := arguments.Member("names")
	if !ok {
		value, _ = arguments.Member("tools")
	}
	if text, ok := value.StringValue(); ok {
		return tidy(strings.Split(text, ","))
	}
	value.Elements(func(name mcp.Raw) bool {
		names = append(names, name.Text())
		return len(names) <= 10*maxSelected
	})
	return tidy(names)
}

// tidy leaves empty names out, and each but its first time; no tool has a name that has
// to be cut.
func tidy(names []string) []string {
	for i, name := range names {
		names[i] = name[:min(len(name), maxName)]
	}
	seen := make(map[string]bool, len(names))
	return slices.DeleteFunc(names, func(name string) bool {
		again := seen[name]
		seen[name] = true
		return again || name == ""
	})
}

// escaped is a name as it stands in a query.
func escaped(name string) string {
	out := make([]byte, 0, len(name))
	for i := range len(name) {
		c := name[i]
		if c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0 {
			out = append(out, c)
		} else {
			out = fmt.Appendf(out, "%%%02X", c)
		}
	}
	return string(out)
}
