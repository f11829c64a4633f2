package strictyaml

import (
	"slices"

	"gopkg.in/yaml.v3"
)

// Inheritance has each element of a list take the keys of a section that it does not have itself, also of
// mappings inside.
type Inheritance struct {
	// Section and List are keys of the document's root.
	Section, List string
	// Suits reports whether an element with these keys takes a key of the section.
	Suits func(key string, element []string) bool
	// Of is another document, which has the section in place of this one.
	Of *Document
}

// section returns the section of a document's root that elements of the list share, nil for none.
func (i Inheritance) section(root *yaml.Node) *yaml.Node {
	if i.Of != nil {
		return i.Of.common
	}
	for at := 0; at+1 < len(root.Content); at += 2 {
		if value := root.Content[at+1]; root.Content[at].Value == i.Section && value.Kind == yaml.MappingNode {
			return value
		}
	}
	return nil
}

// inherited returns an element of the list with what it takes from the section.
func (d *Document) inherited(n *yaml.Node) *yaml.Node {
	if d.common == nil || n.Kind != yaml.MappingNode {
		return n
	}
	var keys []string
	for i := 0; i < len(n.Content); i += 2 {
		keys = append(keys, n.Content[i].Value)
	}
	return merged(n, d.common, func(key string) bool { return d.src.Inherit.Suits(key, keys) })
}

// merged returns a mapping with the keys of another one that it does not have and that suit it.
func merged(n, more *yaml.Node, suits func(key string) bool) *yaml.Node {
	all := *n
	all.Content = slices.Clone(n.Content)
	for i := 0; i+1 < len(more.Content); i += 2 {
		key, value := more.Content[i], more.Content[i+1]
		if !suits(key.Value) {
			continue
		}
		at := 0
		for at < len(all.Content) && all.Content[at].Value != key.Value {
			at += 2
		}
		switch {
		case at >= len(all.Content):
			all.Content = append(all.Content, key, value)
		case value.Kind == yaml.MappingNode && all.Content[at+1].Kind == yaml.MappingNode:
			all.Content[at+1] = merged(all.Content[at+1], value, func(string) bool { return true })
		}
	}
	return &all
}
