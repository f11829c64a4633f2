package skillmd

import (
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Record makes the inner record of the skill, without its files. It takes the members of
// SEP-2076 from the fields of the same name, or from metadata, where the format has room for
// them.
func (s Skill) Record(key, uri string) mcp.Raw {
	out := mcp.Object("name", mcp.String(key), "description", mcp.String(s.Description))
	metadata := s.Frontmatter.At("metadata")
	field := func(name string) mcp.Raw {
		if value, ok := s.Frontmatter.Member(name); ok {
			return value
		}
		return metadata.At(name)
	}
	if title := field("title"); title.Text() != "" {
		out = out.With("title", title)
	}
	if version := field("version"); !version.IsObject() && !version.IsArray() && asText(version).Text() != "" {
		out = out.With("version", asText(version))
	}
	if tags := Words(field("tags")); tags != nil {
		out = out.With("tags", mcp.Strings(tags))
	}
	if arguments := readArguments(field); len(arguments) > len("[]") {
		out = out.With("arguments", arguments)
	}
	if dependencies := s.dependencies(metadata); len(dependencies) > 0 {
		out = out.With("dependencies", dependencies)
	}
	frontmatter := s.Frontmatter
	if metadata.IsObject() {
		frontmatter = frontmatter.With("metadata", metadata.Map(func(_ []byte,
			value mcp.Raw) mcp.Raw {
			return asText(value)
		}))
	}
	return out.With("uri", mcp.String(uri)).With("frontmatter", frontmatter)
}

// asText returns a value of metadata as a text, which it has to be in this format. YAML takes
// an unquoted 1.10 for a number, and a client would refuse a whole list for it.
func asText(value mcp.Raw) mcp.Raw {
	switch _, isText := value.StringValue(); {
	case isText:
		return value
	case value.IsNull():
		return mcp.Raw(`""`)
	}
	return mcp.String(string(value))
}

// readArguments returns those of the field arguments, or of gatehouse.arguments in metadata:
// in the form of SEP-2076, or only their names. Anything else is no argument.
func readArguments(field func(name string) mcp.Raw) mcp.Raw {
	given := field("arguments")
	if given == nil {
		given = field("gatehouse.arguments")
	}
	if !given.IsArray() {
		given = mcp.Strings(Words(given))
	}
	seen := map[string]bool{"": true}
	return given.Filter(func(one mcp.Raw) mcp.Raw {
		name := one
		if one.IsObject() {
			name = one.At("name")
		}
		if seen[name.Text()] {
			return nil
		}
		seen[name.Text()] = true
		argument := mcp.Object("name", name)
		for _, member := range []string{"title", "description"} {
			if text := one.At(member); text.Text() != "" {
				argument = argument.With(member, text)
			}
		}
		if required := one.At("required"); required.IsTrue() {
			argument = argument.With("required", required)
		}
		return argument
	})
}

// dependencies returns those of the field dependencies, in the form of SEP-2076, or those in
// metadata under gatehouse.tools, gatehouse.prompts and gatehouse.resources; nil for none.
func (s Skill) dependencies(metadata mcp.Raw) (out mcp.Raw) {
	if given := s.Frontmatter.At("dependencies"); given.IsObject() {
		return given
	}
	for _, of := range [...]struct{ kind, ref, member string }{
		{kind: "tools"}, {"prompts", "ref/prompt", "name"}, {"resources", "ref/resource", "uri"},
	} {
		names := Words(metadata.At("gatehouse." + of.kind))
		if names == nil {
			continue
		}
		list := mcp.Strings(names)
		if of.ref != "" {
			list = list.Filter(func(name mcp.Raw) mcp.Raw { return mcp.Object("type", mcp.String(of.ref), of.member, name) })
		}
		out = out.With(of.kind, list)
	}
	return out
}

// WithFields adds to a record the members of SEP-2076 that it lacks and that its frontmatter
// has.
func WithFields(record mcp.Raw) mcp.Raw {
	frontmatter := record.At("frontmatter")
	fields := Skill{Frontmatter: frontmatter, Description: frontmatter.At("description").Text()}.Record("", "")
	for _, member := range []string{"title", "description", "version", "tags"} {
		if _, has := record.Member(member); has {
			continue
		}
		if value, ok := fields.Member(member); ok && len(value) > len(`""`) {
			record = record.With(member, value)
		}
	}
	return record
}

// File makes an entry of the member resources of a record.
func File(uri, digest string, size int64) mcp.Raw {
	return mcp.Object("uri", mcp.String(uri), "digest", mcp.String(digest), "size", mcp.Int(size))
}

// InstructedFile makes an entry of the member files of a GetSkillResult (SEP-2076). Its name
// is its path in the skill.
func InstructedFile(name, uri string) mcp.Raw {
	file := mcp.Object("name", mcp.String(name), "uri", mcp.String(uri))
	if media := mcp.MediaType(name); media != "" {
		file = file.With("mimeType", mcp.String(media))
	}
	return file
}

// Words returns the texts of a list, or of a text that separates them by commas or spaces.
func Words(value mcp.Raw) (all []string) {
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
