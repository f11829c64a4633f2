package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestReference holds the reference of all keys to the schema, and so to the structs.
func TestReference(t *testing.T) {
	const file = "../../docs/reference/configuration.md"
	var root schemaNode
	if err := json.Unmarshal([]byte(Schema()), &root); err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	page.WriteString("# Reference of the configuration\n\nEach key, by its section. `go test ./gateway/config -run TestReference -update` " +
		"writes this page from the\nsource, and `gatehouse schema` prints the same for editors. [Configuration](../configuration.md) explains " +
		"how the file is\nread, and [config.example.yaml](../../config.example.yaml) shows every key in use.\n")
	for _, key := range slices.Sorted(maps.Keys(root.Properties)) {
		fmt.Fprintf(&page, "\n## %s\n\n`%[1]s` %s\n\n", key, root.sentence(key))
		root.Properties[key].list(&page, key)
	}
	want := strings.TrimSuffix(strings.ReplaceAll(page.String(), "\n\n\n", "\n\n"), "\n") + "\n"
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Error("docs/reference/configuration.md differs from the structs: -update writes it")
	}
}

// schemaNode is what the reference shows of a schema.
type schemaNode struct {
	Description          string
	Properties           map[string]*schemaNode
	Items                *schemaNode
	AdditionalProperties any
	AnyOf                []*schemaNode
}

// inner returns the schema that has the keys, and what stands behind the name of a list or a map.
func (n *schemaNode) inner() (with *schemaNode, suffix string) {
	switch {
	case n.Items != nil:
		with, suffix = n.Items.inner()
		return with, "[]" + suffix
	case len(n.Properties) > 0:
		return n, ""
	}
	for _, alternative := range n.AnyOf {
		if with, suffix := alternative.inner(); with != nil {
			return with, suffix
		}
	}
	if text, err := json.Marshal(n.AdditionalProperties); err == nil && len(text) > 0 && text[0] == '{' {
		var value schemaNode
		if json.Unmarshal(text, &value) == nil {
			with, suffix = value.inner()
			return with, ".NAME" + suffix
		}
	}
	return nil, ""
}

// list writes the keys below a key.
func (n *schemaNode) list(page *strings.Builder, at string) {
	with, suffix := n.inner()
	if with == nil {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(with.Properties)) {
		path := at + suffix + "." + key
		fmt.Fprintf(page, "- **`%s`** %s\n", path, with.sentence(key))
		with.Properties[key].list(page, path)
	}
}

// sentence returns what a key does, without its name at the beginning. Some keys stand in the sentence of a key
// beside them.
func (n *schemaNode) sentence(key string) string {
	first, rest, _ := strings.Cut(n.Properties[key].Description, " ")
	if strings.EqualFold(first, key) {
		return markdown.Replace(rest)
	}
	named := regexp.MustCompile(`\b` + key + `\b`)
	for _, other := range slices.Sorted(maps.Keys(n.Properties)) {
		if first == "" && named.MatchString(n.Properties[other].Description) {
			return "see `" + other + "`."
		}
	}
	return markdown.Replace(first + " " + rest)
}

// markdown escapes what Markdown would take for its own.
var markdown = strings.NewReplacer("<", `\<`, "*", `\*`, "[", `\[`)
