package disclosure

import (
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	// maxSelected bounds the tools that are described at a time.
	maxSelected = 50
	// maxName is the length of the longest name that can be selected, in bytes.
	maxName = 512
)

// selected reads the names that a URI of the gateway's resource selects; ours is false for any
// other URI. The names follow tools=, separated by commas; percent-encoding is decoded once, before
// splitting. Names are compared exactly, and "+" does not stand for a space.
func selected(uri string) (names []string, ours bool) {
	query, ok := strings.CutPrefix(uri, URI)
	if !ok || query != "" && query[0] != '?' {
		return nil, false
	}
	query, _, fragment := strings.Cut(query, "#")
	if fragment { // a URI with a fragment names a part, not the resource
		return nil, false
	}
	for part := range strings.SplitSeq(strings.TrimPrefix(query, "?"), "&") {
		if value, ok := strings.CutPrefix(part, "tools="); ok {
			names = append(names, strings.Split(mcp.Unescape(value), ",")...)
		}
	}
	return tidy(names), true
}

// named reads the names that a call of the gateway's tool selects: an array or, since models write
// that too, one text with commas. It also accepts the resource's name of the parameter.
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

// tidy removes empty and repeated names. It cuts names that are longer than any tool's.
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

// escaped returns a name in the form that a query needs.
func escaped(name string) string {
	return mcp.Escape(name, func(c byte) bool { return strings.IndexByte("-._~", c) >= 0 })
}
