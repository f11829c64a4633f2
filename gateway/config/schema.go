package config

import _ "embed"

//go:embed schema.json
var schema string

// Schema returns the JSON Schema of the configuration (draft 2020-12), with the meaning of each key. It
// accepts references in place of values, and does not know what only a load can find.
func Schema() string { return schema }
