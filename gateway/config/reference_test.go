package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestReference holds the reference of all keys to the structs.
func TestReference(t *testing.T) {
	root := described(t)
	var page strings.Builder
	page.WriteString("# Reference of the configuration\n\nEach key, by its section. `go test ./gateway/config -run TestReference -update` " +
		"writes this page from the\nsource, and `gatehouse schema` prints the same for editors. [Configuration](../configuration.md) explains " +
		"how the file is\nread, and [config.example.yaml](../../config.example.yaml) shows every key in use.\n")
	root.each("", func(path string, section *schemaNode, key string) {
		form := "- **`%s`**%s\n"
		if section == root {
			form = "\n## %[1]s\n\n`%[1]s`%[2]s\n\n"
		}
		fmt.Fprintf(&page, form, path, section.sentence(key))
	})
	want := strings.TrimSuffix(strings.ReplaceAll(page.String(), "\n\n\n", "\n\n"), "\n") + "\n"
	hold(t, "../../docs/reference/configuration.md", []byte(want))
}

// described returns the keys that the structs have, with their descriptions.
func described(t *testing.T) *schemaNode {
	t.Helper()
	var root schemaNode
	if err := json.Unmarshal(indented(t, schemaOfStructs(t)), &root); err != nil {
		t.Fatal(err)
	}
	return &root
}

// schemaNode is what the reference and the example show of a schema.
type schemaNode struct {
	Description string
	Properties  map[string]*schemaNode
	Items       *schemaNode
	AnyOf       []*schemaNode
}

// section returns the schema that has the keys, and what stands behind the name of a list. A key without others
// below it has none.
func (n *schemaNode) section() (with *schemaNode, suffix string) {
	if n.Items != nil {
		with, suffix = n.Items.section()
		return with, "[]" + suffix
	}
	for _, alternative := range n.AnyOf {
		if with, suffix := alternative.section(); len(with.Properties) > 0 {
			return with, suffix
		}
	}
	return n, ""
}

// each calls visit for all keys below the one at a path, in the order of their names.
func (n *schemaNode) each(at string, visit func(path string, section *schemaNode, key string)) {
	section, suffix := n.section()
	for _, key := range slices.Sorted(maps.Keys(section.Properties)) {
		path := strings.TrimPrefix(at+suffix+"."+key, ".")
		visit(path, section, key)
		section.Properties[key].each(path, visit)
	}
}

// sentence returns what a key does, without its name at the beginning. Some keys stand in the sentence of a key
// beside them.
func (n *schemaNode) sentence(key string) string {
	if text := n.Properties[key].Description; text != "" {
		return links.ReplaceAllString(markdown.Replace(strings.TrimPrefix(text, key)), "[docs/$1](../$1)")
	}
	subject := regexp.MustCompile(`^([a-z_]+(, | and ))+` + key + `\b`)
	for _, other := range slices.Sorted(maps.Keys(n.Properties)) {
		if subject.MatchString(n.Properties[other].Description) {
			return " see `" + other + "`."
		}
	}
	return ""
}

// markdown escapes what Markdown would take for its own, and links are pages.
var (
	markdown = strings.NewReplacer("<", `\<`, "*", `\*`, "[", `\[`)
	links    = regexp.MustCompile(`\bdocs/([a-z-]+\.md(#[a-z-]+)?)`)
)
