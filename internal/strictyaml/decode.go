package strictyaml

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

func (d *Document) say(n *yaml.Node, address, format string, args ...any) {
	d.problems = append(d.problems, placed{placeOf(n), address, fmt.Sprintf(format, args...)})
	d.broken[address] = true
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	textType     = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// decode stores n in v, which has to be settable. What cannot be read stays zero and is a
// problem. The decoder of yaml.v3 is no alternative: it stops at the first problem, does not
// say where that is, and may quote a secret.
func (d *Document) decode(n *yaml.Node, address string, v reflect.Value) {
	if _, ok := d.places[address]; !ok {
		d.places[address] = placeOf(n)
	}
	if n.Kind == yaml.AliasNode { // checkNode says it
		d.broken[address] = true
		return
	}
	if isNull(n) && address != "" {
		d.say(n, address, "has no value: give it one or take the key out")
		return
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		d.decode(n, address, v.Elem())
		return
	}
	listed := v.Kind() == reflect.Slice && n.Kind == yaml.SequenceNode
	switch {
	case v.Type() == durationType || v.Addr().Type().Implements(textType) && !listed: // a list that has words for some of its values
		d.scalar(n, address, v)
	case v.Kind() == reflect.Struct:
		d.structure(n, address, v)
	case v.Kind() == reflect.Map:
		d.mapping(n, address, v)
	case v.Kind() == reflect.Slice:
		d.list(n, address, v)
	default:
		d.scalar(n, address, v)
	}
}

func (d *Document) structure(n *yaml.Node, address string, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		d.say(n, address, "want keys and their values, not %s", kindName(n))
		return
	}
	fields := Keys(v.Type())
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if !isKey(key) {
			continue
		}
		index, known := fields[key.Value]
		if !known {
			message, meant := unknownKey(key.Value, !isNull(value), fields)
			if instead := d.src.Foreign[key.Value]; instead != "" && address == "" {
				message = fmt.Sprintf("unknown key %q: %s", key.Value, instead)
			}
			if d.ignored(key, address) {
				continue
			}
			d.problems = append(d.problems, placed{placeOf(key), address, message})
			d.broken[join(address, key.Value)] = true
			d.broken[join(address, meant)] = true
			continue
		}
		d.places[join(address, key.Value)] = placeOf(key)
		d.decode(value, join(address, key.Value), v.FieldByIndex(index))
		d.checkZero(value, join(address, key.Value), v.Type().FieldByIndex(index), v.FieldByIndex(index))
	}
}

// ignored reports whether an unknown key is ignored, with a warning.
func (d *Document) ignored(key *yaml.Node, address string) bool {
	if d.src.Ignore == nil {
		return false
	}
	why := d.src.Ignore(address, key.Value)
	if why != "" {
		d.warnings = append(d.warnings, placed{placeOf(key), address, fmt.Sprintf("%s: %s", shownKey(key.Value), why)})
	}
	return why != ""
}

// checkZero refuses a number or a duration of 0, unless the tag zero of the field says what 0
// means: it could not be told from a missing key. If 0 is not the default there, the field is a
// pointer.
func (d *Document) checkZero(n *yaml.Node, address string, field reflect.StructField, v reflect.Value) {
	_, means := field.Tag.Lookup("zero")
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if means || !v.CanInt() || !v.IsZero() || d.broken[address] || v.Addr().Type().Implements(textType) {
		return
	}
	d.say(n, address, "0 is not allowed here: write a value above 0, or leave the key out for the default")
}

func (d *Document) mapping(n *yaml.Node, address string, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		d.say(n, address, "want names and their values, not %s", kindName(n))
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if !isKey(key) {
			continue
		}
		if isNull(value) { // its name may be "name:value"
			d.say(key, address, "a name here has no value: want name: value, with a space behind the colon")
			continue
		}
		member := reflect.New(v.Type().Elem()).Elem()
		d.places[join(address, key.Value)] = placeOf(key)
		d.decode(value, join(address, key.Value), member)
		v.SetMapIndex(reflect.ValueOf(key.Value).Convert(v.Type().Key()), member)
	}
}

func (d *Document) list(n *yaml.Node, address string, v reflect.Value) {
	if n.Kind != yaml.SequenceNode {
		d.say(n, address, "want a list, such as [a, b], not %s", kindName(n))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, child := range n.Content {
		at := element(address, i)
		if address == d.src.Inherit.List && address != "" {
			child = d.inherited(child)
		}
		d.names[at] = nameOf(child)
		d.decode(child, at, v.Index(i))
	}
}

// nameOf returns the plain text under the key name of a mapping, "" when there is none.
func nameOf(n *yaml.Node) string {
	if n.Kind != yaml.MappingNode {
		return ""
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		value := n.Content[i+1]
		if n.Content[i].Value == "name" && value.Kind == yaml.ScalarNode && !strings.Contains(value.Value, "${") {
			return value.Value
		}
	}
	return ""
}

func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys and values"
	case yaml.SequenceNode:
		return "a list"
	}
	return "a single value"
}
