package configtext

import (
	"strings"

	"gopkg.in/yaml.v3"
)

// References returns the references, without ${ and }, in item i of a list at the root of a text.
func References(text []byte, list string, i int) (found []string) {
	root, err := parse(text)
	if err != nil {
		return nil
	}
	items := under(root, list)
	if items == nil || i >= len(items.Content) {
		return nil
	}
	for _, n := range flat(items.Content[i], nil) {
		rest := strings.ReplaceAll(n.Value, "$${", "")
		for {
			_, after, has := strings.Cut(rest, "${")
			if !has {
				break
			}
			reference, next, _ := strings.Cut(after, "}")
			found, rest = append(found, reference), next
		}
	}
	return found
}

func under(root *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == key {
			return root.Content[i+1]
		}
	}
	return nil
}

// Append adds items, a text with two spaces in front of each line, to a list at the root of a text.
// ok is false if the list is not written with an item on each line.
func Append(text, list, items string) (longer string, ok bool) {
	root, err := parse([]byte(text))
	if err != nil {
		return "", false
	}
	n := under(root, list)
	if n == nil || n.Kind != yaml.SequenceNode || n.Style&yaml.FlowStyle != 0 || len(n.Content) == 0 {
		return "", false
	}
	lines := strings.SplitAfter(text, "\n")
	end := len(lines)
	for i := 0; i < len(root.Content); i += 2 {
		if at := root.Content[i].Line; at > n.Line && at-1 < end {
			end = at - 1 // the next section
		}
	}
	for end > n.Line && (strings.TrimSpace(lines[end-1]) == "" || strings.HasPrefix(lines[end-1], "#")) {
		end--
	}
	before := strings.Join(lines[:end], "")
	if !strings.HasSuffix(before, "\n") {
		before += "\n"
	}
	indent := strings.Repeat(" ", n.Column-1)
	var b strings.Builder
	b.WriteString(before)
	for line := range strings.Lines(items) {
		b.WriteString(indent + strings.TrimPrefix(line, "  "))
	}
	b.WriteString(strings.Join(lines[end:], ""))
	longer = b.String()
	after, err := parse([]byte(longer))
	if err != nil || len(after.Content) != len(root.Content) || len(under(after, list).Content) <= len(n.Content) {
		return "", false
	}
	return longer, true
}
