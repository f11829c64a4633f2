package disclosure

import (
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
			names = append(names, strings.Split(decoded(value), ",")...)
		}
	}
	return tidy(names), true
}

// decoded takes percent-encoding off. What is none stays.
func decoded(text string) string {
	if !strings.Contains(text, "%") {
		return text
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			high, low := digit(text[i+1]), digit(text[i+2])
			if high >= 0 && low >= 0 {
				out = append(out, byte(high<<4|low))
				i += 2
				continue
			}
		}
		out = append(out, text[i])
	}
	return string(out)
}

func digit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
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
	const hex = "0123456789ABCDEF"
	out := make([]byte, 0, len(name))
	for i := range len(name) {
		c := name[i]
		if c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0 {
			out = append(out, c)
			continue
		}
		out = append(out, '%', hex[c>>4], hex[c&15])
	}
	return string(out)
}
