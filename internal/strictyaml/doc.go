// Package strictyaml reads configuration files: YAML that means what it shows, with all
// problems in one run, each with its line and path.
//
// It owns parsing (no aliases, anchors, tags, merge keys, or keys given twice), decoding
// into structs by their yaml tags (unknown keys are problems, durations have units, 0 is
// not "the default"), references ${env:NAME} and ${file:/path}, and the places of what is
// found. No message quotes what a reference stood for. It leaves checks of values to the
// types themselves, whose joined errors begin with the path of a key. It starts no
// goroutines.
package strictyaml
