package strictyaml

import "reflect"

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
}

// StandIn is in every text that stands for a reference which is not looked up.
const StandIn = "gatehouse-reference-"

// Document is a configuration that has been read: its problems, and the place of every key in
// its file.
type Document struct {
	src    Source
	target reflect.Type
	usable bool // its root has been decoded
	refs   references

	problems []placed
	warnings []placed
	places   map[string]position // by address, for what checks find
	names    map[string]string   // of list elements, by address
	broken   map[string]bool     // addresses with a problem
	written  map[string]string   // texts with references, by address
}

// placed is a problem at a place of the document. Its address is the path without
// the names of list elements, such as "upstreams[2].timeout.call".
type placed struct {
	line, column int
	address      string
	message      string
}

// position is a place in the file.
type position struct{ line, column int }

// Decode fills target, a pointer to a struct, by the yaml tags of its fields. What cannot
// be read stays zero, and is a problem of the document.
func Decode(src Source, target any) *Document {
	value := reflect.ValueOf(target).Elem()
	d := &Document{
		src:    src,
		target: value.Type(),
		refs:   references{env: src.Env, dir: src.Dir, blind: src.Blind, values: map[string]string{}},
		places: map[string]position{},
		names:  map[string]string{},
		broken: map[string]bool{},

		written: map[string]string{},
	}
	root, faults := d.parse()
	d.problems = faults
	if root != nil {
		d.usable = true
		d.decode(root, "", value)
	}
	return d
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

// Line returns the line of a key, or of the nearest one around it that is in the file.
// address is its path, such as "upstreams[2].timeout".
func (d *Document) Line(address string) int { return d.placeOf(address).line }

// Written returns the values that have references, as the file has them, by their addresses.
func (d *Document) Written() map[string]string { return d.written }

// Files returns the files that references name, as they were read.
func (d *Document) Files() []Seen { return d.refs.files }

// report turns placed problems into those that are shown.
func (d *Document) report(found []placed) []Problem {
	problems := make([]Problem, len(found))
	for i, f := range found {
		problems[i] = Problem{
			File:    d.src.File,
			Line:    f.line,
			Column:  f.column,
			Path:    d.refs.hide(d.display(f.address)),
			Message: d.refs.hide(f.message),
		}
	}
	return sortProblems(problems)
}
