package upstream

import (
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// record makes the inner record of the skill, without its files: what SEP-2076 has a
// member for is taken from the field of the same name, or from metadata, which is where
// the format has room for it.
func (s *skillText) record(key, uri string) mcp.Raw {
	out := mcp.Object("name", mcp.String(key), "description", mcp.String(s.description))
	metadata, _ := s.frontmatter.Member("metadata")
	field := func(name string) mcp.Raw {
		if value, ok := s.frontmatter.Member(name); ok {
			return value
		}
		value, _ := metadata.Member(name)
		return value
	}
	for _, name := range []string{"title", "version"} {
		if value := field(name); value.Text() != "" {
			out = out.With(name, value)
		} else if len(value) > 0 && name == "version" && !value.IsNull() && !value.IsObject() && !value.IsArray() && value[0] != '"' {
			out = out.With(name, mcp.String(string(value))) // 1.0 without quotation marks
		}
	}
	if tags := words(field("tags")); tags != nil {
		out = out.With("tags", stringArray(tags))
	}
	if arguments := skillArguments(field); arguments != nil {
		out = out.With("arguments", arguments)
	}
	if dependencies := s.dependencies(metadata); dependencies != nil {
		out = out.With("dependencies", dependencies)
	}
	return out.With("uri", mcp.String(uri)).With("frontmatter", textMetadata(s.frontmatter))
}

// skillArguments are those of the field arguments, or of gatehouse.arguments in metadata: in
// the form of SEP-2076, or their names alone. What is neither is no argument.
func skillArguments(field func(name string) mcp.Raw) mcp.Raw {
	given := field("arguments")
	if given == nil {
		given = field("gatehouse.arguments")
	}
	if !given.IsArray() {
		given = stringArray(words(given))
	}
	out, seen := mcp.Raw{'['}, make(map[string]bool)
	given.Elements(func(one mcp.Raw) bool {
		name := one
		if one.IsObject() {
			name, _ = one.Member("name")
		}
		if name.Text() == "" || seen[name.Text()] {
			return true
		}
		seen[name.Text()] = true
		argument := mcp.Object("name", name)
		for _, member := range []string{"title", "description"} {
			if text, ok := one.Member(member); ok && text.Text() != "" {
				argument = argument.With(member, text)
			}
		}
		if required, ok := one.Member("required"); ok && required.IsTrue() {
			argument = argument.With("required", required)
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, argument...)
		return true
	})
	if len(out) == 1 {
		return nil
	}
	return append(out, ']')
}

// dependencies are those of the field dependencies, in the form of SEP-2076, or those in
// metadata under gatehouse.tools, gatehouse.prompts and gatehouse.resources.
func (s *skillText) dependencies(metadata mcp.Raw) mcp.Raw {
	if given, ok := s.frontmatter.Member("dependencies"); ok && given.IsObject() {
		return given
	}
	var out mcp.Raw
	add := func(member string, value mcp.Raw) {
		if out == nil {
			out = mcp.Raw("{}")
		}
		out = out.With(member, value)
	}
	refs := func(names []string, kind, member string) mcp.Raw {
		list := mcp.Raw{'['}
		for i, name := range names {
			if i > 0 {
				list = append(list, ',')
			}
			list = append(list, mcp.Object("type", mcp.String(kind), member, mcp.String(name))...)
		}
		return append(list, ']')
	}
	given := func(kind string) []string {
		value, _ := metadata.Member("gatehouse." + kind)
		return words(value)
	}
	if tools := given("tools"); tools != nil {
		add("tools", stringArray(tools))
	}
	if prompts := given("prompts"); prompts != nil {
		add("prompts", refs(prompts, "ref/prompt", "name"))
	}
	if resources := given("resources"); resources != nil {
		add("resources", refs(resources, "ref/resource", "uri"))
	}
	return out
}

// words are the texts of a list, or of a text in which commas or spaces part them.
func words(value mcp.Raw) (all []string) {
	if value.IsArray() {
		value.Elements(func(element mcp.Raw) bool {
			if text := element.Text(); text != "" {
				all = append(all, text)
			}
			return true
		})
		return all
	}
	return strings.FieldsFunc(value.Text(), func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\t' })
}

func stringArray(values []string) mcp.Raw {
	out := mcp.Raw{'['}
	for i, v := range values {
		if i > 0 {
			out = append(out, ',')
		}
		out = mcp.AppendString(out, v)
	}
	return append(out, ']')
}
