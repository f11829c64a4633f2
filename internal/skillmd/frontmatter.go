package skillmd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"gopkg.in/yaml.v3"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Bounds of a frontmatter: in bytes, in values, and of how deep they nest.
const (
	maxFrontmatter = 64 << 10
	maxValues      = 2000
	maxDepth       = 8
)

// ReadFrontmatter makes JSON of YAML. What YAML can do beyond that, and what two readers
// could read in two ways, is refused: aliases, anchors, tags, merges, several documents,
// keys that stand twice or are no strings.
func ReadFrontmatter(head []byte) (object mcp.Raw, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(head))
	var document yaml.Node
	if err := decoder.Decode(&document); err != nil {
		return nil, errors.New("its frontmatter is not YAML" + lineOf(err))
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("its frontmatter is more than one document")
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("its frontmatter is no mapping")
	}
	w := writer{left: maxValues}
	return w.append(nil, document.Content[0], 1)
}

var yamlLine = regexp.MustCompile(`line \d+`)

// lineOf returns the line in the file of a parser's error; what else it says may quote it.
func lineOf(err error) string {
	at := yamlLine.FindString(err.Error())
	if at == "" {
		return ""
	}
	n, err := strconv.Atoi(at[len("line "):])
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (line %d of the file)", n+1) // the first one is that of the dashes
}

type writer struct{ left int }

func (w *writer) append(dst mcp.Raw, n *yaml.Node, depth int) (mcp.Raw, error) {
	fail := func(why string) (mcp.Raw, error) {
		return nil, fmt.Errorf("its frontmatter %s (line %d of the file)", why, n.Line+1)
	}
	if w.left--; w.left < 0 {
		return fail(fmt.Sprintf("has more than %d values", maxValues))
	}
	switch {
	case depth > maxDepth:
		return fail("nests too deep")
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		return fail("has an anchor or alias")
	case n.Style&yaml.TaggedStyle != 0:
		return fail("has a tag")
	}
	switch n.Kind {
	case yaml.MappingNode:
		dst = append(dst, '{')
		seen := make(map[string]bool)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if key.Kind != yaml.ScalarNode || !isText(key) || isPlain(key) && key.Value == "<<" || key.Anchor != "" ||
				key.Style&yaml.TaggedStyle != 0 {
				return fail("has a key that is no plain text")
			}
			if seen[key.Value] {
				return fail("has a key twice")
			}
			seen[key.Value] = true
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(mcp.AppendString(dst, key.Value), ':')
			var err error
			if dst, err = w.append(dst, n.Content[i+1], depth+1); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	case yaml.SequenceNode:
		dst = append(dst, '[')
		for i, element := range n.Content {
			if i > 0 {
				dst = append(dst, ',')
			}
			var err error
			if dst, err = w.append(dst, element, depth+1); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	case yaml.ScalarNode:
		return appendScalar(dst, n)
	}
	return fail("has something that JSON has not")
}
