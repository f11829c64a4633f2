// Package fit completes or withholds what clients check: definitions on lists, completions and
// notifications. Official clients refuse a whole list because of one entry.
//
// It owns what these clients accept, leaves out null members, and completes what can be
// completed in only one way. Everything else keeps its bytes. It leaves names and URIs, and
// what becomes of an item that does not fit, to gateway/catalog.
package fit

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// Value makes a value fit; nil for one that is left out. The error says what the value is.
type Value func(mcp.Raw) (mcp.Raw, error)

// Shape holds the members of an object that clients check. Other members keep their text.
type Shape []Member

// Member is a member that clients check.
type Member struct {
	name    string
	value   Value
	needed  bool
	instead mcp.Raw // for a needed member that is missing; nil for none
}

// Needed returns the member as one that clients require.
func (m Member) Needed() Member {
	m.needed = true
	return m
}

// Fit makes an object fit. No parser may take another member for one that is routed.
func (s Shape) Fit(object mcp.Raw, routed ...string) (mcp.Raw, error) {
	if !object.IsObject() {
		return nil, errors.New("is no object")
	}
	if err := wire.CheckObject(object, routed...); err != nil {
		e, _ := errors.AsType[*mcp.Error](err) // as it always is
		return nil, errors.New("can be read in two ways: " + strings.TrimPrefix(e.Message, "Invalid params: "))
	}
	var edits []mcp.Edit
	var has uint64
	var err error
	object.Members(func(name []byte, value mcp.Raw) bool {
		for i := range s {
			if string(name) != s[i].name {
				continue
			}
			fitted := mcp.Raw(nil)
			if !value.IsNull() {
				if fitted, err = s[i].value(value); err != nil {
					err = fmt.Errorf("%s %w", s[i].name, err)
					return false
				}
			}
			if fitted != nil {
				has |= 1 << i
			}
			if !same(fitted, value) {
				edits = append(edits, mcp.Edit{Name: s[i].name, Value: fitted})
			}
			break
		}
		return true
	})
	for i, m := range s {
		if err != nil || !m.needed || has&(1<<i) != 0 {
			continue
		}
		if m.instead == nil {
			err = fmt.Errorf("%s is missing", m.name)
		}
		edits = append(edits, mcp.Edit{Name: m.name, Value: m.instead})
	}
	if err != nil {
		return nil, fmt.Errorf("is wrong: %w", err)
	}
	return object.Edit(edits...), nil
}

func same(a, b mcp.Raw) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// Is makes a member with a value that a function accepts; for any other, the error says otherwise.
func Is(name string, accepts func(mcp.Raw) bool, otherwise string) Member {
	return Member{name: name, value: is(accepts, otherwise)}
}

// Text makes a member that is a text.
func Text(name string) Member { return Member{name: name, value: text} }

// Boolean makes a member that is true or false.
func Boolean(name string) Member {
	return Is(name, func(value mcp.Raw) bool { return value.IsTrue() || string(value) == "false" },
		"is neither true nor false")
}

// Object makes a member that is an object, whatever it holds.
func Object(name string) Member { return Is(name, mcp.Raw.IsObject, "is no object") }

// OneOf makes a member that is one of some texts.
func OneOf(name string, texts ...string) Member { return Member{name: name, value: oneOf(texts)} }

// List makes a member that is a list of values. Null elements are left out.
func List(name string, element Value) Member { return Member{name: name, value: listOf(element)} }

// Texts makes a member that is a list of texts.
func Texts(name string) Member { return List(name, text) }

// Objects makes a member that is a list of objects.
func Objects(name string, each Shape) Member {
	return List(name, func(value mcp.Raw) (mcp.Raw, error) { return each.Fit(value) })
}

func is(accepts func(mcp.Raw) bool, otherwise string) Value {
	return func(value mcp.Raw) (mcp.Raw, error) {
		if !accepts(value) {
			return nil, errors.New(otherwise)
		}
		return value, nil
	}
}

func text(value mcp.Raw) (mcp.Raw, error) {
	if value[0] != '"' {
		return nil, errors.New("is no text")
	}
	return value, nil
}

func oneOf(texts []string) Value {
	return is(func(value mcp.Raw) bool {
		s, ok := value.StringValue()
		for _, text := range texts {
			if ok && s == text {
				return true
			}
		}
		return false
	}, "is none of "+strings.Join(texts, ", "))
}

func listOf(element Value) Value {
	return func(list mcp.Raw) (mcp.Raw, error) {
		if !list.IsArray() {
			return nil, errors.New("is no list")
		}
		var err error
		changed := false
		fitted := list.Filter(func(value mcp.Raw) mcp.Raw {
			kept := mcp.Raw(nil)
			if err == nil && !value.IsNull() {
				if kept, err = element(value); err != nil {
					err = fmt.Errorf("has an element that %w", err)
				}
			}
			changed = changed || !same(kept, value)
			return kept
		})
		if err != nil {
			return nil, err
		}
		if !changed {
			return list, nil
		}
		return fitted, nil
	}
}
