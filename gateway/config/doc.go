// Package config is the configuration of the gateway as a whole: all sections, read from a file or
// made in code, with its defaults, everything that is wrong or doubtful in it, and what it means.
//
// It owns what no section knows alone: which sections fit together, paths and hosts of endpoints, which
// changes need a restart, the revision of a file and whether it has changed, and the summary for people.
// It leaves the keys of a section to the package that has the section, YAML to internal/strictyaml,
// texts that operators edit to gateway/configtext, and what is built of a configuration to gateway. It
// makes no connections and starts no goroutines.
package config
