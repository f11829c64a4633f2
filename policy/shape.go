package policy

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Strict conditions judge only arguments of the types in the tool's own input schema: a
// server may read other arguments as something else. Servers write schemas as they like, so
// only keywords that determine types are considered, in a bounded number of steps: type,
// enum, const, properties, additionalProperties, items, prefixItems, allOf, anyOf, oneOf and
// references within the schema. Everything else is left to the server.
const (
	maxSchema = 8192 // values
	maxSteps  = 100_000
	perStep   = 10           // members that are looked up, or values of an enum, for one step
	maxNested = 2 * maxDepth // of values and schemas within each other
)

// misfit says which argument violates the tool's schema, and how.
type misfit struct{ path, why string }

func (m *misfit) Error() string {
	if m.path == "" {
		return "the object of arguments " + m.why
	}
	return fmt.Sprintf("argument %q %s", m.path[:min(len(m.path), longestPath)], m.why)
}

// longestPath is how much of a path errors show, in bytes: clients choose names as long as
// they like.
const longestPath = 100

// below is the path of a part, cut to what errors show.
func below(path, part string) string {
	if len(path) >= longestPath {
		return path
	}
	return strings.TrimPrefix(path+part[:min(len(part), longestPath)], ".")
}

// schema is a decoded input schema.
type schema struct {
	root map[string]any
	err  error // why nothing can be judged by it
}

// schemaOf returns the decoded schema of a tool, nil for one that is not known.
func schemaOf(tool *mcp.Schema) *schema {
	if tool == nil {
		return readSchema(nil)
	}
	return tool.Read(func(text mcp.Raw) any { return readSchema(text) }).(*schema)
}

// promptSchema returns the schema of the arguments of every prompt (2025-11-25 schema
// GetPromptRequest).
func promptSchema() *schema {
	return readSchema(mcp.Raw(`{"type":"object","additionalProperties":{"type":"string"}}`))
}

func readSchema(text mcp.Raw) *schema {
	if len(text) == 0 {
		return &schema{err: errors.New("the tool's input schema is not known")}
	}
	root, _, err := readUpTo(maxSchema, text)
	if err != nil {
		return &schema{err: fmt.Errorf("the tool's input schema: %w", err)}
	}
	return &schema{root: root}
}

// check reports how the arguments violate the schema: with a *misfit, or with another error
// if the schema does not tell.
func (s *schema) check(arguments map[string]any) error {
	if s.err != nil {
		return s.err
	}
	w := walk{root: s.root}
	found := w.fits(s.root, arguments, "", 0)
	switch {
	case w.unclear != nil:
		return fmt.Errorf("the tool's input schema: %w", w.unclear)
	case found != nil:
		return found
	}
	return nil
}

// walk is one comparison of arguments with a schema.
type walk struct {
	root    map[string]any
	steps   int
	unclear error // why it was given up
}

func (w *walk) drop(why string) *misfit {
	w.unclear = errors.New(why)
	return nil
}

// fits compares a value with a schema. It returns nil if the value fits, or if there is no telling.
func (w *walk) fits(schema, value any, path string, depth int) *misfit {
	if w.steps++; w.steps > maxSteps || depth > maxNested {
		return w.drop("it takes too many steps to compare arguments with it")
	}
	if w.unclear != nil {
		return nil
	}
	if _, broken := value.(error); broken {
		return nil // a condition that looks at it fails by itself
	}
	if allowed, ok := schema.(bool); ok {
		if !allowed {
			return &misfit{path, "is not one of the tool's"}
		}
		return nil
	}
	s, ok := schema.(map[string]any)
	if !ok {
		return w.drop("it is no JSON Schema")
	}
	if reference, ok := s["$ref"]; ok {
		target, ok := w.find(reference)
		if !ok {
			return w.drop("it refers to what is not in it")
		}
		if m := w.fits(target, value, path, depth+1); m != nil {
			return m
		}
	}
	if m := w.itself(s, value, path); m != nil {
		return m
	}
	if m := w.parts(s, value, path, depth); m != nil {
		return m
	}
	return w.combined(s, value, path, depth)
}

// itself compares a value with type, enum and const.
func (w *walk) itself(s map[string]any, value any, path string) *misfit {
	is := typeOf(value)
	wanted := texts(s["type"])
	if s["nullable"] == true && wanted != nil { // as OpenAPI writes it
		wanted = append(wanted, "null")
	}
	fits := wanted == nil
	for _, name := range wanted {
		fits = fits || name == is || name == "number" && is == "integer"
	}
	if !fits {
		return &misfit{path, fmt.Sprintf("is %s and has to be %s", is, strings.Join(wanted, " or "))}
	}
	values, _ := s["enum"].([]any)
	if only, ok := s["const"]; ok {
		values = []any{only}
	}
	if values == nil {
		return nil
	}
	w.steps += len(values) / perStep
	for _, one := range values {
		if typeOf(one) == is && (is == "object" || is == "array" || sameText(one, value)) {
			return nil
		}
	}
	return &misfit{path, "is none of the values that the tool takes"}
}

// sameText reports whether two scalar values of the same type are written alike.
func sameText(a, b any) bool {
	if text, ok := a.(string); ok {
		return text == b
	}
	return fmt.Sprint(a) == fmt.Sprint(b)
}

// parts compares the members of an object, or the elements of an array.
func (w *walk) parts(s map[string]any, value any, path string, depth int) *misfit {
	switch value := value.(type) {
	case map[string]any:
		properties, _ := s["properties"].(map[string]any)
		others, bounded := s["additionalProperties"]
		if s["patternProperties"] != nil {
			bounded = false
		}
		if properties == nil && !bounded {
			return nil
		}
		w.steps += len(value) / perStep
		for _, name := range slices.Sorted(maps.Keys(value)) {
			schema, known := properties[name]
			if !known {
				schema = others
			}
			if !known && !bounded {
				continue
			}
			if m := w.fits(schema, value[name], below(path, "."+name), depth+1); m != nil {
				return m
			}
		}
	case []any:
		items, bounded := s["items"]
		first, _ := s["prefixItems"].([]any)
		if list, ok := items.([]any); ok { // as before 2020-12
			first = list
			items, bounded = s["additionalItems"]
		}
		for i, element := range value {
			schema := items
			if i < len(first) {
				schema = first[i]
			} else if !bounded {
				break
			}
			if m := w.fits(schema, element, below(path, "["+strconv.Itoa(i)+"]"), depth+1); m != nil {
				return m
			}
		}
	}
	return nil
}

// combined compares a value with allOf, and with anyOf and oneOf, where one schema has to fit.
func (w *walk) combined(s map[string]any, value any, path string, depth int) *misfit {
	all, _ := s["allOf"].([]any)
	for _, one := range all {
		if m := w.fits(one, value, path, depth+1); m != nil {
			return m
		}
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		list, _ := s[key].([]any)
		var first *misfit
		for _, one := range list {
			m := w.fits(one, value, path, depth+1)
			if m == nil {
				first = nil
				break
			}
			if first == nil {
				first = m
			}
		}
		if first != nil && len(list) > 1 {
			first = &misfit{path, fmt.Sprintf("is %s, which fits nothing that the tool takes", typeOf(value))}
		}
		if first != nil {
			return first
		}
	}
	return nil
}

// find follows a reference within the schema, such as #/$defs/item.
func (w *walk) find(reference any) (found any, ok bool) {
	text, _ := reference.(string)
	path, ok := strings.CutPrefix(text, "#")
	if !ok || path != "" && path[0] != '/' {
		return nil, false
	}
	found = w.root
	if path == "" {
		return found, true
	}
	for name := range strings.SplitSeq(path[1:], "/") {
		if plain, err := url.PathUnescape(name); err == nil {
			name = plain
		}
		switch in := found.(type) {
		case map[string]any:
			found, ok = in[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]
		case []any:
			var i int
			if i, ok = index(name, len(in)); ok {
				found = in[i]
			}
		default:
			ok = false
		}
		if !ok {
			return nil, false
		}
	}
	return found, true
}

func index(text string, length int) (i int, ok bool) {
	i, err := strconv.Atoi(text)
	return i, err == nil && i >= 0 && i < length
}

func texts(value any) (list []string) {
	if text, ok := value.(string); ok {
		return []string{text}
	}
	all, _ := value.([]any)
	for _, one := range all {
		if text, ok := one.(string); ok {
			list = append(list, text)
		}
	}
	return list
}

// typeOf is the type of a value in the words of JSON Schema.
func typeOf(value any) string {
	switch value := value.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case float64:
		if value == math.Trunc(value) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "integer"
}
