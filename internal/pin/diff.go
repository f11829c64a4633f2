package pin

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// context is how many equal lines stand around a difference.
const context = 2

// Diff returns the change as people read it: a unified diff of the lines of both definitions, in
// which texts stand line by line and nothing is invisible.
func (c Change) Diff() string {
	diff, err := udiff.ToUnified("approved", "now", lines(c.Was), udiff.Strings(lines(c.Was), lines(c.Is)), context)
	if err != nil { // edits that do not fit the text: show both
		return lines(c.Was) + lines(c.Is)
	}
	_, hunks, _ := strings.Cut(diff, "@@") // the names of the two sides say nothing new
	return strings.TrimSuffix("@@"+hunks, "\n")
}

// lines returns the lines of definitions, one after the other.
func lines(definitions []mcp.Raw) string {
	var out strings.Builder
	for _, d := range definitions {
		writeLines(&out, d)
	}
	return out.String()
}

// writeLines writes the members of a definition: a text as its own lines below its name, all
// else as indented JSON.
func writeLines(out *strings.Builder, definition mcp.Raw) {
	if !definition.IsObject() {
		writeValue(out, "", definition)
		return
	}
	type member struct {
		name  string
		value mcp.Raw
	}
	var members []member
	definition.Each(func(name string, value mcp.Raw) bool {
		members = append(members, member{Visible(mcp.Raw(`"` + name + `"`).Text()), value})
		return true
	})
	// What models read first comes first.
	first := []string{"name", "title", "description"}
	slices.SortStableFunc(members, func(a, b member) int {
		return order(first, a.name) - order(first, b.name)
	})
	for _, m := range members {
		out.WriteString(m.name + ":\n")
		writeValue(out, "  ", m.value)
	}
}

func order(first []string, name string) int {
	if i := slices.Index(first, name); i >= 0 {
		return i
	}
	return len(first)
}

func writeValue(out *strings.Builder, indent string, value mcp.Raw) {
	text, ok := value.StringValue()
	if !ok {
		var pretty bytes.Buffer
		if json.Indent(&pretty, value, "", "  ") != nil {
			pretty.Reset()
			pretty.Write(value)
		}
		text = pretty.String()
	}
	for line := range strings.Lines(text) {
		out.WriteString(indent + Visible(strings.TrimSuffix(line, "\n")) + "\n")
	}
}
