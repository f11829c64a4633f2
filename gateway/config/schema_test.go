package config

import (
	"bytes"
	"encoding"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"gopkg.in/yaml.v3"

	"github.com/gatehouse-mcp/gatehouse/internal/strictyaml"
)

var update = flag.Bool("update", false, "write the schemas, the reference and the comments of the example")

// TestSchema holds schema.json, and what the Helm chart has of it, to the structs of the configuration and their
// comments.
func TestSchema(t *testing.T) {
	root := schemaOfStructs(t)
	hold(t, "schema.json", indented(t, root))
	hold(t, valuesFile, valuesSchema(t, root))
}

// schemaOfStructs returns the schema as the source has it.
func schemaOfStructs(t *testing.T) object {
	t.Helper()
	w := writer{t: t, root: filepath.Join("..", ".."), packages: map[string]map[string]*ast.StructType{}}
	root := w.of(reflect.TypeFor[Config](), "")
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "The configuration of Gatehouse"
	root["required"] = []string{"upstreams"}
	return root
}

// indented writes a schema as its file has it.
func indented(t *testing.T, schema object) []byte {
	t.Helper()
	text, err := json.MarshalIndent(schema, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

// hold compares a file with what it has to be, or writes it.
func hold(t *testing.T, file string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Errorf("%s differs from the structs: go test ./gateway/config -run %s -update writes it", file, t.Name())
	}
}

// valuesFile is the schema of the values of the Helm chart.
const valuesFile = "../../deploy/helm/gatehouse/values.schema.json"

// valuesSchema returns the schema of the chart's values, with that of the configuration below config, without its
// texts. What gatehouse needs is not required there: values come from several files, and the templates say it.
func valuesSchema(t *testing.T, root object) []byte {
	t.Helper()
	have, err := os.ReadFile(valuesFile)
	if err != nil {
		t.Fatal(err)
	}
	var values, configuration object
	if err := json.Unmarshal(have, &values); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(indented(t, root), &configuration); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"$schema", "title", "required"} {
		delete(configuration, key)
	}
	strip(configuration)
	properties, ok := values["properties"].(object)
	if !ok {
		t.Fatal("values.schema.json has no properties")
	}
	properties["config"] = configuration
	return indented(t, values)
}

// strip removes the descriptions of a schema and of all that is in it. A property may have that name, too.
func strip(schema object) {
	if _, text := schema["description"].(string); text {
		delete(schema, "description")
	}
	for _, within := range schema {
		switch within := within.(type) {
		case object:
			strip(within)
		case []any:
			for _, one := range within {
				if one, ok := one.(object); ok {
					strip(one)
				}
			}
		}
	}
}

// writer makes the schema of a type, with the comments of its fields in the source.
type writer struct {
	t        *testing.T
	root     string                                // of the module
	packages map[string]map[string]*ast.StructType // by import path and name
}

type object = map[string]any

const (
	referencePattern = `\$\{`
	durationPattern  = `^[0-9.]+(ns|us|µs|ms|s|m|h)([0-9.]+(ns|us|µs|ms|s|m|h))*$|` + referencePattern
	bytesPattern     = `^[0-9]+(KiB|MiB|GiB)?$|` + referencePattern
)

// of returns the schema of a value at a key.
func (w *writer) of(t reflect.Type, key string) object {
	text := reflect.TypeFor[encoding.TextUnmarshaler]()
	number := func(pattern string) object {
		return object{"anyOf": []object{{"type": "integer"}, {"type": "string", "pattern": pattern}}}
	}
	switch {
	case t.Kind() == reflect.Pointer:
		return w.of(t.Elem(), key)
	case t == reflect.TypeFor[time.Duration]():
		return object{"type": "string", "pattern": durationPattern}
	case reflect.PointerTo(t).Implements(text) && t.Kind() == reflect.Slice:
		return object{"anyOf": []object{{"type": "string"}, {"type": "array", "items": w.of(t.Elem(), "")}}}
	case reflect.PointerTo(t).Implements(text) && t.Kind() == reflect.String:
		return object{"type": []string{"string", "number", "boolean"}}
	case reflect.PointerTo(t).Implements(text):
		return object{"type": []string{"string", "integer"}}
	case t.Kind() == reflect.Struct:
		return w.structure(t)
	case t.Kind() == reflect.Map:
		return object{"type": "object", "additionalProperties": w.of(t.Elem(), "")}
	case t.Kind() == reflect.Slice:
		return object{"type": "array", "items": w.of(t.Elem(), "")}
	case t.Kind() == reflect.Bool:
		return object{"anyOf": []object{{"type": "boolean"}, {"type": "string", "pattern": referencePattern}}}
	case strings.HasSuffix(key, "_bytes"):
		return number(bytesPattern)
	case reflect.Zero(t).CanInt():
		return number(referencePattern)
	case t.Kind() == reflect.String: // a text may look like a number or a boolean
		return object{"type": []string{"string", "number", "boolean"}}
	}
	w.t.Fatalf("%s: a key of type %s has no schema", key, t)
	return nil
}

func (w *writer) structure(t reflect.Type) object {
	properties := object{}
	for name, index := range strictyaml.Keys(t) {
		owner := t
		for _, i := range index[:len(index)-1] {
			owner = owner.Field(i).Type
		}
		field := t.FieldByIndex(index)
		schema := w.of(field.Type, name)
		if comment := w.comment(owner, field.Name); comment != "" {
			text, named := strings.CutPrefix(comment, field.Name)
			if !named {
				w.t.Errorf("the comment of %s.%s has to begin with its name", owner, field.Name)
			}
			schema["description"] = name + inKeys(owner, text)
		}
		properties[name] = schema
	}
	return object{"type": "object", "properties": properties, "additionalProperties": false}
}

// inKeys writes a comment with the keys of a struct in place of the names of its fields.
func inKeys(t reflect.Type, comment string) string {
	for name, index := range strictyaml.Keys(t) {
		field := t.FieldByIndex(index).Name
		comment = regexp.MustCompile(`\b`+field+`\b`).ReplaceAllStringFunc(comment, func(word string) string {
			if word == strings.ToUpper(word) { // also a word of its own, such as API
				return word
			}
			return name
		})
	}
	return comment
}

// comment returns the comment of a field in the source.
func (w *writer) comment(t reflect.Type, field string) string {
	path, ok := strings.CutPrefix(t.PkgPath(), "github.com/gatehouse-mcp/gatehouse/")
	if !ok {
		return ""
	}
	if w.packages[path] == nil {
		w.packages[path] = w.structs(filepath.Join(w.root, path))
	}
	structure := w.packages[path][t.Name()]
	if structure == nil {
		w.t.Fatalf("%s has no struct %s", path, t.Name())
	}
	for _, f := range structure.Fields.List {
		for _, name := range f.Names {
			if name.Name == field {
				return strings.Join(strings.Fields(f.Doc.Text()), " ")
			}
		}
	}
	return ""
}

// structs returns the structs of a package by their names.
func (w *writer) structs(dir string) map[string]*ast.StructType {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		w.t.Fatal(err)
	}
	found := map[string]*ast.StructType{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			w.t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if structure, ok := spec.Type.(*ast.StructType); ok {
					found[spec.Name.Name] = structure
				}
			}
			return true
		})
	}
	return found
}

// asJSON writes times as texts, as editors read them.
func asJSON(value any) any {
	switch v := value.(type) {
	case time.Time:
		return v.Format(time.RFC3339)
	case []any:
		for i := range v {
			v[i] = asJSON(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = asJSON(v[key])
		}
	}
	return value
}

// schemaFiles are files that have to fit the schema.
var schemaFiles = []string{
	exampleFile,
	"../../deploy/compose/gatehouse.yaml",
	"../../deploy/kubernetes/gatehouse.yaml",
}

func TestSchemaOfFiles(t *testing.T) {
	var schema jsonschema.Schema
	if err := json.Unmarshal(indented(t, schemaOfStructs(t)), &schema); err != nil {
		t.Fatal(err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range schemaFiles {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var value map[string]any
		if err := yaml.Unmarshal(text, &value); err != nil {
			t.Fatal(err)
		}
		value = asJSON(value).(map[string]any)
		if err := resolved.Validate(value); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		for _, wrong := range []struct {
			key   string
			value any
		}{
			{"upstream", 1},
			{"listen", []any{1}},
			{"shutdown_delay", "5"},
			{"http", map[string]any{"max_request_bytes": "1MB"}},
		} {
			bad := maps.Clone(value)
			bad[wrong.key] = wrong.value
			if resolved.Validate(bad) == nil {
				t.Errorf("%s with %s: %v fits", file, wrong.key, wrong.value)
			}
		}
		if !strings.HasPrefix(string(text), "# yaml-language-server: $schema=https://") {
			t.Errorf("%s does not name its schema", file)
		}
	}
}
