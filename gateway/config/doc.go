// Package config holds the whole configuration: its sections, defaults, errors, doubts and meaning. It
// is read from a file or made in code.
//
// It owns the questions across sections: which sections fit together, paths and hosts of endpoints,
// which changes need a restart, the revision of a file and whether it has changed, and the summary for
// people. It leaves the keys of a section to the package that has the section, YAML to
// internal/strictyaml, texts that operators edit to gateway/configtext, and what is built of a
// configuration to gateway. It makes no connections and starts no goroutines.
package config
