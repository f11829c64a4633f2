package wire

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Bounds of the walk through an input schema.
const (
	maxSchemaDepth = 16
	maxSchemaNodes = 1000
)

const headerKeyword = "x-mcp-header"

// ParamHeader is a tool's parameter that a client repeats in a header (2026-07-28
// basic/transports/streamable-http#custom-headers-from-tool-parameters).
type ParamHeader struct {
	// Name follows "Mcp-Param-", spelled as in the schema.
	Name string
	// Path leads from the arguments to the parameter.
	Path []string
	// Type is "integer", "string" or "boolean".
	Type string
}

// ParamHeaders finds the annotated parameters of an input schema. With an error the tool
// must not be listed: an annotation breaks a rule, or a schema with annotations is too
// large to search. A schema without annotations costs no more than a search for their name.
func ParamHeaders(inputSchema mcp.Raw) ([]ParamHeader, error) {
	if !bytes.Contains(inputSchema, []byte(headerKeyword)) && !bytes.Contains(inputSchema, []byte(`\u`)) {
		return nil, nil
	}
	w := schemaWalk{taken: make(map[string]bool)}
	w.schema(inputSchema, nil, true, 1)
	if w.err != nil && bytes.Contains(inputSchema, []byte(headerKeyword)) || w.broken {
		return nil, w.err
	}
	return w.found, nil
}

// schemaWalk is one walk through a schema. It ends at the first error.
type schemaWalk struct {
	found  []ParamHeader
	taken  map[string]bool // in lower case
	nodes  int
	err    error
	broken bool // err is about an annotation, not about a bound
}

// refuse ends the walk because of an annotation.
func (w *schemaWalk) refuse(format string, args ...any) {
	w.err, w.broken = fmt.Errorf(headerKeyword+": "+format, args...), true
}

// schema visits one schema. reachable says that path leads to it by properties alone.
func (w *schemaWalk) schema(schema mcp.Raw, path []string, reachable bool, depth int) {
	if w.nodes++; w.nodes > maxSchemaNodes || depth > maxSchemaDepth {
		w.err = errors.New("the input schema is too large to look for " + headerKeyword)
		return
	}
	schema.Each(func(name string, value mcp.Raw) bool {
		switch name = plainName(name); name {
		case headerKeyword:
			w.annotation(schema, value, path, reachable)
		case "properties":
			w.each(value, path, reachable, depth)
		case "default", "const", "enum", "examples", "example":
			// data, whatever it looks like
		case "$defs", "definitions", "patternProperties", "dependentSchemas":
			w.each(value, nil, false, depth)
		default:
			w.other(value, depth)
		}
		return w.err == nil
	})
}

// each visits the schemas that are the members of an object.
func (w *schemaWalk) each(schemas mcp.Raw, path []string, reachable bool, depth int) {
	schemas.Each(func(name string, value mcp.Raw) bool {
		var to []string
		if reachable {
			to = append(path[:len(path):len(path)], plainName(name))
		}
		if value.IsObject() {
			w.schema(value, to, reachable, depth+1)
		}
		return w.err == nil
	})
}

// other visits a keyword's value, which may hold no annotation.
func (w *schemaWalk) other(value mcp.Raw, depth int) {
	if value.IsObject() {
		w.schema(value, nil, false, depth+1)
	}
	value.Elements(func(element mcp.Raw) bool {
		if element.IsObject() {
			w.schema(element, nil, false, depth+1)
		}
		return w.err == nil
	})
}

func (w *schemaWalk) annotation(schema, value mcp.Raw, path []string, reachable bool) {
	name, ok := value.StringValue()
	kind, _ := schema.Member("type")
	switch {
	case !reachable || len(path) == 0:
		w.refuse("only properties of the arguments may have one")
	case !ok || !isToken(name):
		w.refuse("%.80q is no header name", name)
	case w.taken[strings.ToLower(name)]:
		w.refuse("two parameters are mirrored into %.80q", name)
	case kind.Text() != "integer" && kind.Text() != "string" && kind.Text() != "boolean":
		w.refuse("parameter %.80q is not of type integer, string or boolean", strings.Join(path, "."))
	default:
		w.taken[strings.ToLower(name)] = true
		w.found = append(w.found, ParamHeader{Name: name, Path: path, Type: kind.Text()})
	}
}

// isToken reports whether s is a token of RFC 9110, section 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

// plainName unescapes a member's name as Each returns it.
func plainName(name string) string {
	if strings.IndexByte(name, '\\') < 0 {
		return name
	}
	return mcp.Raw(`"` + name + `"`).Text()
}

// Value returns the encoded value of the header for these arguments. ok is false when there
// must be no header: the argument is absent or null, or no header can express it, such as
// an object or a number that is no safe integer.
func (p ParamHeader) Value(arguments mcp.Raw) (encoded string, ok bool) {
	text, ok := p.text(arguments)
	if !ok {
		return "", false
	}
	return EncodeHeader(text), true
}

// Matches reports whether a header's value equals the argument. Integers are compared as
// numbers, all else byte for byte. It is false where there must be no header.
func (p ParamHeader) Matches(encoded string, arguments mcp.Raw) bool {
	want, ok := p.text(arguments)
	if !ok {
		return false
	}
	got, err := DecodeHeader(encoded)
	if err != nil {
		return false
	}
	if got != want && p.Type == "integer" {
		got, _ = integer(got)
	}
	return got == want
}

// text returns the header's value before encoding.
func (p ParamHeader) text(arguments mcp.Raw) (text string, ok bool) {
	value := p.argument(arguments)
	switch {
	case value.IsNull():
		return "", false
	case value[0] == '"':
		return value.StringValue()
	case value[0] == 't', value[0] == 'f':
		return string(value), true
	}
	return integer(string(value))
}

// argument follows the path and returns nil where it ends early. It follows escaped names,
// too, because a server that decodes the arguments does.
func (p ParamHeader) argument(arguments mcp.Raw) mcp.Raw {
	value := arguments
	for _, name := range p.Path {
		var next mcp.Raw
		value.Each(func(n string, v mcp.Raw) bool {
			if plainName(n) == name {
				next = v
			}
			return next == nil
		})
		value = next
	}
	return value
}
