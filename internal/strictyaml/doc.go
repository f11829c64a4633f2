// Package strictyaml reads configuration files: YAML that means what it shows. It reports all
// problems in one run, each with its line and path.
//
// It owns parsing (no aliases, anchors, tags, merge keys, or duplicate keys), decoding into structs by their yaml tags
// (unknown keys are problems, durations have units, 0 is not "the default"), references ${env:NAME} and ${file:/path},
// and the places of problems. No message quotes the value of a reference, a value that no key is known for, or the
// password of a URL. It leaves checks of values to the types themselves: their joined errors begin with the path of a
// key. It starts no goroutines.
package strictyaml
