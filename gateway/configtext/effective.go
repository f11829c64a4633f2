package configtext

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// defaultComment marks values that are not in the file.
const defaultComment = "# default"

// Effective returns a masked text without its comments, and with the defaults that the file leaves
// out and the configuration, a struct, has.
func Effective(masked string, cfg any) (string, error) {
	root, err := parse([]byte(masked))
	if err != nil {
		return "", err
	}
	for _, n := range flat(root, nil) {
		n.HeadComment, n.LineComment, n.FootComment = "", "", ""
		if n.Kind != yaml.SequenceNode || slices.ContainsFunc(n.Content,
			func(item *yaml.Node) bool { return item.Kind != yaml.ScalarNode }) {
			n.Style &^= yaml.FlowStyle // in one line there is no room for comments
		}
	}
	fill(root, reflect.ValueOf(cfg))
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(root), encoder.Close()); err != nil {
		return "", err
	}
	return b.String(), nil
}

// fill adds the values of v that a node lacks.
func fill(n *yaml.Node, v reflect.Value) {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return
		}
		v = v.Elem()
	}
	switch {
	case n.Kind == yaml.SequenceNode && v.Kind() == reflect.Slice:
		for i := range min(len(n.Content), v.Len()) {
			fill(n.Content[i], v.Index(i))
		}
	case n.Kind == yaml.MappingNode && v.Kind() == reflect.Map:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if member := v.MapIndex(reflect.ValueOf(n.Content[i].Value).Convert(v.Type().Key())); member.IsValid() {
				fill(n.Content[i+1], member)
			}
		}
	case n.Kind == yaml.MappingNode && v.Kind() == reflect.Struct:
		given := make(map[string]*yaml.Node)
		for i := 0; i+1 < len(n.Content); i += 2 {
			given[n.Content[i].Value] = n.Content[i+1]
		}
		fillFields(n, given, v)
	}
}

func fillFields(n *yaml.Node, given map[string]*yaml.Node, v reflect.Value) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		switch {
		case strings.Contains(options, "inline"):
			fillFields(n, given, v.Field(i))
		case name == "" || name == "-" || !field.IsExported():
		case given[name] != nil:
			fill(given[name], v.Field(i))
		default:
			if fresh := written(v.Field(i), strings.HasSuffix(name, "_bytes")); fresh != nil {
				n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, fresh)
			}
		}
	}
}

// written returns a default as a node, nil for one that says nothing.
func written(v reflect.Value, bytes bool) *yaml.Node {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	if v.IsZero() {
		return nil
	}
	scalar := func(text string) *yaml.Node {
		return &yaml.Node{Kind: yaml.ScalarNode, Value: text, LineComment: defaultComment}
	}
	if d, ok := v.Interface().(time.Duration); ok {
		return scalar(duration(d))
	}
	switch v.Kind() {
	case reflect.String: // a secret formats itself
		n := scalar(fmt.Sprint(v.Interface()))
		n.Tag = "!!str"
		return n
	case reflect.Bool:
		return scalar(fmt.Sprint(v.Bool()))
	case reflect.Int, reflect.Int64, reflect.Int32:
		if bytes {
			return scalar(size(v.Int()))
		}
		return scalar(fmt.Sprint(v.Int()))
	case reflect.Slice:
		list := &yaml.Node{Kind: yaml.SequenceNode}
		for i := range v.Len() {
			if item := written(v.Index(i), false); item != nil {
				list.Content = append(list.Content, item)
			}
		}
		return notEmpty(list)
	case reflect.Map:
		mapping := &yaml.Node{Kind: yaml.MappingNode}
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, key := range keys {
			if member := written(v.MapIndex(key), false); member != nil {
				mapping.Content = append(mapping.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key.String()}, member)
			}
		}
		return notEmpty(mapping)
	case reflect.Struct:
		mapping := &yaml.Node{Kind: yaml.MappingNode}
		fillFields(mapping, nil, v)
		return notEmpty(mapping)
	}
	return nil
}

func notEmpty(n *yaml.Node) *yaml.Node {
	if len(n.Content) == 0 {
		return nil
	}
	return n
}

// duration writes a duration without units that are zero: 1h, not 1h0m0s.
func duration(d time.Duration) string {
	text := d.String()
	if short, ok := strings.CutSuffix(text, "m0s"); ok {
		text = short + "m"
	}
	if short, ok := strings.CutSuffix(text, "h0m"); ok {
		text = short + "h"
	}
	return text
}

func size(n int64) string {
	for _, unit := range []struct {
		name string
		of   int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= unit.of && n%unit.of == 0 {
			return fmt.Sprintf("%d%s", n/unit.of, unit.name)
		}
	}
	return fmt.Sprint(n)
}
