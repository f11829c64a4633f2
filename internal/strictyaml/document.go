package strictyaml

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Source is the text of a configuration, and what references in it may reach.
type Source struct {
	// File is its name in problems.
	File string
	// Data is the text.
	Data []byte
	// Dir is where relative paths of ${file:...} begin.
	Dir string
	// Env looks up ${env:NAME}.
	Env func(string) (string, bool)
	// Blind says that references are not looked up, but for variables that Env knows, if there is
	// one: each stands for a text that has StandIn in it. For texts of those who may know neither
	// the environment nor the files.
	Blind bool
	// Least is the key that every configuration has, and Example one with a value: problems
	// of an empty file, or one that is no configuration, name them.
	Least, Example string
	// Foreign are keys of other programs' files, each with what to do with such a file.
	Foreign map[string]string
	// Ignore, unless nil, returns why an unknown key of the mapping at an address, such as "upstreams[2]", is a
	// warning in place of a problem; "" if it is none.
	Ignore func(address, key string) string
	// Permit, unless nil, reports whether a reference may be used, such as env:NAME or file:/path.
	Permit func(reference string) bool
	// Inherit lets elements of a list have keys of a section.
	Inherit Inheritance
}

// StandIn is in every text that stands for a reference which is not looked up.
const StandIn = "gatehouse-reference-"

// Document is a configuration that has been read: its problems, and the place of every key in
// its file.
type Document struct {
	src    Source
	target reflect.Type
	usable bool       // its root has been decoded
	common *yaml.Node // the section of src.Inherit, nil for none
	refs   references

	problems []placed
	warnings []placed
	places   map[string]position // by address, for what checks find
	names    map[string]string   // of list elements, by address
	broken   map[string]bool     // addresses with a problem
	written  map[string]string   // texts with references, by address
	borrowed []string            // addresses of secrets from the environment
}

// placed is a problem at a place of the document. Its address is the path without
// the names of list elements, such as "upstreams[2].timeout.call".
type placed struct {
	position
	address string
	message string
}

// position is a place in the file, or in that of a document that was adopted.
type position struct {
	line, column int
	file         string // "" for that of the document
}

// Decode fills target, a pointer to a struct, by the yaml tags of its fields. What cannot
// be read stays zero, and is a problem of the document.
func Decode(src Source, target any) *Document {
	value := reflect.ValueOf(target).Elem()
	d := &Document{
		src:    src,
		target: value.Type(),
		refs: references{env: src.Env, dir: src.Dir, blind: src.Blind, permit: src.Permit,
			values: map[string]string{}},
		places: map[string]position{},
		names:  map[string]string{},
		broken: map[string]bool{},

		written: map[string]string{},
	}
	root, faults := d.parse()
	d.problems = faults
	if root != nil {
		d.usable = true
		d.common = src.Inherit.section(root)
		d.decode(root, "", value)
	}
	return d
}

// Unread is the document of a file that cannot be read.
func Unread(file string, err error) *Document {
	return &Document{src: Source{File: file}, problems: []placed{{message: "cannot be read: " + err.Error()}}}
}

// Adopt takes over what another document says of its lists. Their elements follow those of the lists with the
// same keys here, such as "policy.rules": from has how many there were.
func (d *Document) Adopt(part *Document, from map[string]int) {
	moved := func(address string) string {
		for list, n := range from {
			index, rest, found := strings.Cut(strings.TrimPrefix(address, list+"["), "]")
			if i, err := strconv.Atoi(index); strings.HasPrefix(address, list+"[") && found && err == nil {
				return element(list, n+i) + rest
			}
		}
		return address
	}
	within := func(at position) position {
		at.file = cmp.Or(at.file, part.src.File)
		return at
	}
	for address, at := range part.places {
		if to := moved(address); d.places[to] == (position{}) {
			d.places[to] = within(at)
		}
	}
	for address, name := range part.names {
		d.names[moved(address)] = name
	}
	for address := range part.broken {
		d.broken[moved(address)] = true
	}
	for address, text := range part.written {
		d.written[moved(address)] = text
	}
	for _, list := range []struct{ to, of *[]placed }{{&d.problems, &part.problems}, {&d.warnings, &part.warnings}} {
		for _, p := range *list.of {
			*list.to = append(*list.to, placed{within(p.position), moved(p.address), p.message})
		}
	}
	maps.Copy(d.refs.values, part.refs.values)
	d.refs.files = append(d.refs.files, part.refs.files...)
}

// Check adds the errors of a check of the target to the problems: joined errors, each with the
// path of its key in front. It adds nothing about a document or keys that could not be read:
// that would only repeat, less clearly, what is known.
func (d *Document) Check(found error) {
	if d.usable {
		d.problems = append(d.problems, d.place(found)...)
	}
}

// Doubt is Check for the warnings.
func (d *Document) Doubt(found error) {
	if d.usable {
		d.warnings = append(d.warnings, d.place(found)...)
	}
}

// Problems returns what is wrong, sorted by place.
func (d *Document) Problems() []Problem { return d.report(d.problems) }

// Warnings returns what is allowed and probably not meant, sorted by place.
func (d *Document) Warnings() []Problem { return d.report(d.warnings) }

// Locate returns errors from elsewhere as problems with their places. It does not add them to the
// document.
func (d *Document) Locate(found error) []Problem { return d.report(d.place(found)) }

// At returns the place of a key, "file:line", or that of the nearest key around it that is there. address is
// its path, such as "upstreams[2].timeout".
func (d *Document) At(address string) string {
	at := d.placeOf(address)
	return fmt.Sprintf("%s:%d", cmp.Or(at.file, d.src.File), at.line)
}

// Line returns the line of a key, as At does.
func (d *Document) Line(address string) int { return d.placeOf(address).line }

// Written returns the values that have references, as the file has them, by their addresses.
func (d *Document) Written() map[string]string { return d.written }

// FromEnvironment returns the addresses of secrets that are variables of the environment.
func (d *Document) FromEnvironment() []string { return d.borrowed }

// Files returns the files that references name and those that were noted, as they were read.
func (d *Document) Files() []Seen { return d.refs.files }

// Note adds files on which the document depends.
func (d *Document) Note(files ...Seen) { d.refs.files = append(d.refs.files, files...) }

// report turns placed problems into those that are shown.
func (d *Document) report(found []placed) []Problem {
	problems := make([]Problem, len(found))
	for i, f := range found {
		problems[i] = Problem{
			File:    cmp.Or(f.file, d.src.File),
			Line:    f.line,
			Column:  f.column,
			Path:    d.refs.hide(d.display(f.address)),
			Message: d.refs.hide(f.message),
		}
	}
	return sortProblems(problems)
}
