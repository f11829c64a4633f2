package strictyaml

import (
	"errors"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// place turns the errors of a check into problems with the places of the keys that they name.
// A check such as Validate returns joined errors "key: message", where key may be a path
// (timeout.call) and wrapping with another "key: " goes one level up. A key that is not in the
// file gets the place of the nearest parent that is.
func (d *Document) place(err error) (found []placed) {
	for _, text := range leaves(err) {
		address, message := splitAddress(d.target, text)
		if d.isBroken(address) {
			continue
		}
		at := d.placeOf(address)
		found = append(found, placed{at, address, message})
	}
	return found
}

// leaves returns the texts of all errors joined in err, at any depth. Each has the texts of the
// errors around it in front.
func leaves(err error) []string {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var texts []string
		for _, part := range joined.Unwrap() {
			texts = append(texts, leaves(part)...)
		}
		return texts
	}
	inner := errors.Unwrap(err)
	if inner == nil {
		return []string{err.Error()}
	}
	prefix, found := strings.CutSuffix(err.Error(), inner.Error())
	if !found {
		return []string{err.Error()}
	}
	texts := leaves(inner)
	for i := range texts {
		texts[i] = prefix + texts[i]
	}
	return texts
}

// elementName returns what follows a list element for the reader: "[2] (crm)".
var elementName = regexp.MustCompile(`^(.*\[\d+\]) \([^()]*\)$`)

// splitAddress cuts the keys off the front of text, as far as root has them.
func splitAddress(root reflect.Type, text string) (address, message string) {
	t, message := root, text
	for {
		keys, rest, found := strings.Cut(message, ": ")
		if !found {
			return address, message
		}
		if m := elementName.FindStringSubmatch(keys); m != nil {
			keys = m[1]
		}
		next, at, ok := follow(t, address, keys)
		if !ok {
			return address, message
		}
		t, address, message = next, at, rest
	}
}

// follow walks keys, such as timeout.call, upstreams[2] or headers[X-Team], down
// from t at address.
func follow(t reflect.Type, address, keys string) (reflect.Type, string, bool) {
	for keys != "" {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		var key string
		if index, rest, found := strings.Cut(keys, "]"); keys[0] == '[' && found {
			key, keys = index[1:], strings.TrimPrefix(rest, ".")
			if i, err := strconv.Atoi(key); err == nil && t.Kind() == reflect.Slice {
				t, address = t.Elem(), element(address, i)
				continue
			}
		} else {
			end := strings.IndexAny(keys, ".[")
			if end < 0 {
				end = len(keys)
			}
			key, keys = keys[:end], strings.TrimPrefix(keys[end:], ".")
		}
		switch {
		case t.Kind() == reflect.Map:
			t = t.Elem()
		case t.Kind() == reflect.Struct && Keys(t)[key] != nil:
			t = t.FieldByIndex(Keys(t)[key]).Type
		default:
			return nil, "", false
		}
		address = join(address, key)
	}
	return t, address, true
}

// isBroken reports whether address, something in it or something around it could
// not be read.
func (d *Document) isBroken(address string) bool {
	if address == "" {
		return false
	}
	for broken := range d.broken {
		if broken == address || isWithin(broken, address) || isWithin(address, broken) {
			return true
		}
	}
	return false
}

// isWithin reports whether address lies somewhere below parent.
func isWithin(address, parent string) bool {
	rest, found := strings.CutPrefix(address, parent)
	return found && rest != "" && (rest[0] == '.' || rest[0] == '[')
}

// placeOf returns the place of a node.
func placeOf(n *yaml.Node) position { return position{line: n.Line, column: n.Column} }

// placeOf returns the place of address, or of its nearest parent in the file.
func (d *Document) placeOf(address string) position {
	for {
		if place, ok := d.places[address]; ok || address == "" {
			return place
		}
		address = address[:max(0, strings.LastIndexAny(address, ".["))]
	}
}

// display returns address as people read it, with the names of list elements:
// "upstreams[2] (crm): timeout.call".
func (d *Document) display(address string) string {
	var b strings.Builder
	for i := 0; i < len(address); i++ {
		b.WriteByte(address[i])
		name := d.names[address[:i+1]]
		if address[i] != ']' || name == "" {
			continue
		}
		b.WriteString(" (" + name + ")")
		if i+1 < len(address) && address[i+1] == '.' {
			b.WriteString(": ")
			i++
		}
	}
	return b.String()
}
