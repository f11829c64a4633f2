package config

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

const exampleFile = "../../config.example.yaml"

// TestExample holds the example to the structs: it has every key, and above each, where its path is first, what it
// does. The beginning of the file is written by hand.
func TestExample(t *testing.T) {
	text, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	head, body, _ := strings.Cut(string(text), "\n\n")
	lines := slices.DeleteFunc(strings.Split(body, "\n"), func(line string) bool {
		return strings.HasPrefix(strings.TrimSpace(line), "#")
	})
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(strings.Join(lines, "\n")), &document); err != nil {
		t.Fatal(err)
	}
	root := described(t)
	e := example{lines: lines, paths: map[string]bool{}, keys: map[string]bool{}}
	e.explain(document.Content[0], root, "")
	root.each("", func(path string, section *schemaNode, key string) {
		if !e.keys[inSection(section, key)] {
			t.Errorf("%s has no %s on a line of its own", exampleFile, path)
		}
	})
	hold(t, exampleFile, []byte(head+"\n\n"+strings.Join(e.lines, "\n")))
}

// example gets comments above its lines.
type example struct {
	lines []string
	paths map[string]bool // that have a comment
	keys  map[string]bool // that the lines have, as inSection names them
}

// explain writes what the keys of a node do.
func (e *example) explain(n *yaml.Node, schema *schemaNode, at string) {
	if n.Kind == yaml.SequenceNode {
		for _, item := range n.Content {
			e.explain(item, schema, at)
		}
		return
	}
	section, _ := schema.section()
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, path := n.Content[i], at+"."+n.Content[i].Value
		property := section.Properties[key.Value]
		if property == nil {
			continue // a name that the operator has chosen
		}
		line := e.lines[key.Line-1]
		if strings.Trim(line[:key.Column-1], " -") == "" {
			e.keys[inSection(section, key.Value)] = true
			if !e.paths[path] {
				e.lines[key.Line-1] = comment(line, property.Description) + line
			}
			e.paths[path] = true
		}
		e.explain(n.Content[i+1], property, path)
	}
}

// comment returns the lines of a comment above a line.
func comment(line, text string) string {
	begin := line[:len(line)-len(strings.TrimLeft(line, " "))] + "#"
	var lines strings.Builder
	for width := 101; text != ""; {
		word, rest, _ := strings.Cut(text, " ")
		if width += 1 + len(word); width > 100 {
			lines.WriteString("\n" + begin)
			width = len(begin) + 1 + len(word)
		}
		lines.WriteString(" " + word)
		text = rest
	}
	return strings.TrimPrefix(lines.String()+"\n", "\n")
}

// inSection identifies a key of a struct: where the same struct stands in several places, one of them has to have it.
func inSection(section *schemaNode, key string) string {
	text, err := json.Marshal(section.Properties)
	if err != nil {
		panic(err)
	}
	return string(text) + key
}
