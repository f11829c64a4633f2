package strictyaml

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// mostNested bounds the depth of a value: each level indents all lines within it.
const mostNested = 200

// FromJSON returns a JSON value as YAML, with its keys in the same order and its numbers as they are written.
func FromJSON(value []byte) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber()
	node, err := nextNode(decoder, 0)
	if err != nil {
		return nil, err
	}
	return yaml.Marshal(node)
}

func nextNode(decoder *json.Decoder, depth int) (*yaml.Node, error) {
	token, err := decoder.Token()
	if depth > mostNested {
		err = fmt.Errorf("more than %d levels", mostNested)
	}
	if err != nil {
		return nil, err
	}
	node := &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(token)}
	switch token := token.(type) {
	case string:
		node.Tag = "!!str"
		if text := strings.TrimSuffix(token, "\n"); text == "" || text == "<<" || strings.TrimSpace(text) != text {
			node.Style = yaml.DoubleQuotedStyle // by itself, the encoder would write another value
		}
	case nil:
		node.Tag, node.Value = "!!null", "null"
	case json.Delim:
		node = &yaml.Node{Kind: yaml.MappingNode}
		if token == '[' {
			node.Kind = yaml.SequenceNode
		}
		for decoder.More() { // keys and values in turn
			within, err := nextNode(decoder, depth+1)
			if err != nil {
				return nil, err
			}
			node.Content = append(node.Content, within)
		}
		_, err = decoder.Token() // the end
	}
	return node, err
}
